"""From placements to decisions: what is written into the ledger and, at the bind, onto the object."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts import names, subjects
from berth.contracts.ledger import Allocation, Decision, Victim
from berth.contracts.state import Pod
from berth.placement_solver.core.devices import allocated_annotation
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.plan import Placement
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.seams import Contended
from berth.rules.preemption import Budget, Budgets
from berth.rules.scheduler_config import FitArgs, Profile

FIT: Final = "NodeResourcesFit"
ASKED_ONCE_MORE: Final = ("NodeUnschedulable", "TaintToleration", FIT)
"""Constraints that cluster-writer asks once more: the first two before it binds, all before it evicts."""

BUDGETS_MAX: Final = 64
"""How many budgets a nomination stamps: a plan has to fit into one batch, however many select the same pod."""


class Basis(NamedTuple):
    """Through which versions the views were complete when the plan was made, and when that was."""

    pods: int
    reservations: int
    now_ms: int


def decisions_of(
    placements: Iterable[Placement], plan: str, basis: Basis, nodes: Nodes, quotas: Quotas, traces: Mapping[str, str]
) -> tuple[list[Decision], dict[str, int]]:
    """The decisions of a plan, and the revision used on each account. `traces` maps uid to trace context."""
    revisions: dict[str, int] = {}
    decisions = []
    for placement in placements:
        charged = accounts_of(placement, quotas)
        revisions.update(charged)
        candidate, claim = placement.candidate, placement.claim
        namespace, name = candidate.name
        decisions.append(
            Decision(
                plan=plan,
                namespace=namespace,
                name=name,
                uid=claim.uid,
                attempt=claim.attempt,
                node=claim.node,
                pod_version=candidate.object.version,
                basis=basis.reservations if candidate.is_reservation else basis.pods,
                other_basis=basis.pods if candidate.is_reservation else basis.reservations,
                kind="reservation" if candidate.is_reservation else "pod",
                allocation=Allocation(amounts=dict(claim.amounts), devices=list(claim.devices)),
                accounts=list(charged),
                gang=placement.gang,
                quota=claim.quota,
                non_preemptible=claim.non_preemptible,
                reservation=placement.reservation,
                reservation_uid=claim.reservation,
                host_ports=list(claim.ports),
                annotations=annotations_of(placement, plan, nodes),
                seen_ms=candidate.seen_ms,
                decided_ms=basis.now_ms,
                trace=traces.get(claim.uid, ""),
                node_uid=_node_uid(nodes, claim.node),
                before=list(claim.before),
                unasked=_unasked(candidate.cls.rules.profile),
            )
        )
    return decisions, revisions


def _unasked(profile: Profile) -> list[str]:
    """What the profile does not ask for; of the amounts, not for all of them."""
    found = [name for name in ASKED_ONCE_MORE if name not in profile.constraints]
    args = profile.args_of(FIT, FitArgs)
    if FIT not in found and (args.ignored_resources or args.ignored_resource_groups):
        found.append(FIT)
    return found


def nominating(decision: Decision, victims: Collection[Pod], budgets: Iterable[Budget]) -> Decision:
    """The decision as a nomination: it waits until these have left its node. Nothing is bound under it.

    It charges the budgets that select its victims, so that two plans do not spend the same disruption unseen.
    """
    all_budgets = Budgets(budgets)
    selecting = {subjects.budget_account(each.namespace, each.name) for pod in victims for each in all_budgets.of(pod)}
    return msgspec.structs.replace(
        decision,
        nominates=True,
        annotations={},
        accounts=[*decision.accounts, *sorted(selecting)[:BUDGETS_MAX]],
        victims=[
            Victim(namespace=each.namespace, name=each.name, uid=each.uid, version=each.version, node=decision.node)
            for each in victims
        ],
    )


def _node_uid(nodes: Nodes, name: str) -> str:
    node = nodes.state(name)
    return node.uid if node is not None else ""


def accounts_of(placement: Placement, quotas: Quotas) -> dict[str, int]:
    """The accounts that a placement charges, with the newest revision used on each."""
    charged = {subjects.node_account(placement.claim.node): 0}
    if placement.candidate.quota is not None:
        charged.update(quotas.accounts(placement.candidate.quota))
    if placement.reservation:
        charged[subjects.reservation_account(placement.reservation)] = 0
    for constraint, query in placement.candidate.asked:
        if isinstance(constraint, Contended):
            charged.update(dict.fromkeys(constraint.accounts(query, placement.claim), 0))
    return charged


def annotations_of(placement: Placement, plan: str, nodes: Nodes) -> dict[str, str]:
    """What the bind writes onto the object."""
    claim = placement.claim
    notes = {names.ANNOTATION_PLAN: plan}
    if claim.devices:
        inventory = nodes.inventory(claim.node)
        uuids = {(slot.kind, slot.minor): slot.uuid for slot in inventory.devices} if inventory else {}
        notes[names.ANNOTATION_DEVICE_ALLOCATED] = allocated_annotation(claim.devices, uuids)
    if claim.quota:
        notes[names.ANNOTATION_QUOTA] = claim.quota
    if placement.reservation:
        reference = {"name": placement.reservation, "uid": claim.reservation}
        notes[names.ANNOTATION_RESERVATION_ALLOCATED] = msgspec.json.encode(reference).decode()
    if placement.gang is not None:
        notes[names.ANNOTATION_BIND_GANG_GROUP] = placement.gang.name
        notes[names.ANNOTATION_BIND_GANG_COUNT] = str(placement.gang.size)
    return notes
