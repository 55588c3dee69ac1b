"""From placements to decisions: what is written into the ledger and, at the bind, onto the object."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts import names, subjects
from berth.contracts.grants import VF, allocation_of
from berth.contracts.inventory import NodeInventory
from berth.contracts.ledger import Decision, GangRef, Victim
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.core.displacers.seam import Proposal
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.plan import Placement
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.seams import contends
from berth.rules.preemption import Budget, Budgets
from berth.rules.records import binds
from berth.rules.records.seam import Bound
from berth.rules.scheduler_config import FitArgs, Profile, VolumeBindingArgs
from berth.transaction.claims import Claim

FIT: Final = "NodeResourcesFit"
ASKED_ONCE_MORE: Final = ("NodeUnschedulable", "TaintToleration", FIT)
"""Constraints that cluster-writer asks once more: the first two before it binds, all before it evicts."""

NO_GANG: Final = GangRef(name="", size=0)
BUDGETS_MAX: Final = 64
"""How many budgets a nomination stamps: a plan has to fit into one batch, however many select the same pod."""


class Basis(NamedTuple):
    """Through which versions the views were complete when the plan was made, when that was, and by which prices."""

    pods: int
    reservations: int
    now_ms: int
    prices: int = 0


def decisions_of(
    placements: Iterable[Placement], plan: str, basis: Basis, nodes: Nodes, quotas: Quotas, traces: Mapping[str, str]
) -> tuple[list[Decision], dict[str, int]]:
    """The decisions of a plan, and the revision used on each account. `traces` maps uid to trace context."""
    revisions: dict[str, int] = {}
    decisions = []
    unasked: dict[str, list[str]] = {}
    written: dict[tuple[object, ...], dict[str, str]] = {}
    uids: dict[str, str] = {}
    for placement in placements:
        charged = accounts_of(placement, quotas)
        revisions.update(charged)
        candidate, claim = placement.candidate, placement.claim
        profile = candidate.cls.rules.profile
        if profile.scheduler_name not in unasked:
            unasked[profile.scheduler_name] = _unasked(profile)
        gang = placement.gang or NO_GANG
        is_plain = not claim.grants and not claim.loans and not claim.surcharge
        alike = (claim.quota, placement.reservation, claim.reservation, gang.name, gang.size)
        annotations = written.get(alike) if is_plain else None
        if annotations is None:
            annotations = annotations_of(placement, plan, nodes)
            if is_plain:
                written[alike] = annotations
        namespace, name = candidate.name
        node_uid = uids.get(claim.node)
        if node_uid is None:
            node_uid = uids[claim.node] = _node_uid(nodes, claim.node)
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
                allocation=allocation_of(claim.amounts, claim.grants),
                accounts=list(charged),
                gang=placement.gang,
                quota=claim.quota,
                non_preemptible=claim.non_preemptible,
                reservation=placement.reservation,
                reservation_uid=claim.reservation,
                host_ports=list(claim.ports),
                annotations=dict(annotations),
                seen_ms=candidate.seen_ms,
                decided_ms=basis.now_ms,
                trace=traces.get(claim.uid, ""),
                node_uid=node_uid,
                before=list(claim.before),
                unasked=list(unasked[profile.scheduler_name]),
                bind_timeout_s=_bind_timeout_s(profile) if claim.before else None,
                loans=list(claim.loans),
                surcharge=claim.surcharge,
                offer=_offer(nodes, claim),
                prices=basis.prices,
            )
        )
    return decisions, revisions


def growth_decision(claim: Claim, reservation: Reservation, basis: Basis, nodes: Nodes, profile: Profile) -> Decision:
    """That a Reservation holds what the claim says instead of what it holds. It charges its node as every plan does."""
    return Decision(
        plan=claim.plan,
        namespace="",
        name=reservation.name,
        uid=reservation.uid,
        attempt=reservation.attempt,
        node=reservation.node,
        pod_version=reservation.version,
        basis=basis.reservations,
        other_basis=basis.pods,
        kind="reservation",
        allocation=allocation_of(claim.amounts, claim.grants),
        accounts=[subjects.node_account(reservation.node)],
        annotations={names.ANNOTATION_PLAN: claim.plan},
        decided_ms=basis.now_ms,
        node_uid=_node_uid(nodes, reservation.node),
        unasked=_unasked(profile),
        offer=_offer(nodes, claim),
        grows=reservation.plan,
    )


def _offer(nodes: Nodes, claim: Claim) -> int:
    """The revision of what its node offers to lend, where it borrows; 0: it does not, or nobody offers."""
    row = nodes.rows.get(claim.node)
    return 0 if row is None else nodes.lending.revision(nodes.states[row], claim.amounts)


def _bind_timeout_s(profile: Profile) -> int | None:
    return profile.args_of("VolumeBinding", VolumeBindingArgs).bind_timeout_seconds


def _unasked(profile: Profile) -> list[str]:
    """What the profile does not ask for; of the amounts, not for all of them."""
    found = [name for name in ASKED_ONCE_MORE if name not in profile.constraints]
    args = profile.args_of(FIT, FitArgs)
    if FIT not in found and (args.ignored_resources or args.ignored_resource_groups):
        found.append(FIT)
    return found


def nominating(
    decisions: Collection[Decision],
    proposal: Proposal,
    budgets: Iterable[Budget],
    gangs: Mapping[str, str],
    quotas: Iterable[str] = (),
) -> list[Decision]:
    """The decisions of a proposal as nominations: they wait until all its victims have left. Nothing is bound under
    them.

    They charge the budgets that select its victims, so that two plans do not spend the same disruption unseen, and the
    strict gangs of its victims (`gangs`, by uid), so that two plans do not each take what one gang can spare. Likewise
    the accounts `quotas`.
    """
    all_budgets = Budgets(budgets)
    selecting = {
        subjects.budget_account(each.namespace, each.name) for pod in proposal.victims for each in all_budgets.of(pod)
    }
    charged = {account for decision in decisions for account in decision.accounts}
    touched = [
        *sorted(selecting)[:BUDGETS_MAX],
        *sorted(map(subjects.gang_account, set(gangs.values()))),
        *sorted(set(quotas) - charged),
    ]
    victims = [
        Victim(namespace=each.namespace, name=each.name, uid=each.uid, version=each.version, node=each.node)
        for each in proposal.victims
    ]
    made = [
        msgspec.structs.replace(
            decision, nominates=True, annotations={}, victims=victims, eviction_reason=proposal.reason
        )
        for decision in decisions
    ]
    # One batch writes each account once, whichever of its decisions names it.
    return [msgspec.structs.replace(made[0], accounts=[*made[0].accounts, *touched]), *made[1:]]


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
    charged.update({subjects.reservation_account(loan.reservation): 0 for loan in placement.claim.loans})
    for constraint, query in placement.candidate.asked:
        if contends(constraint):
            charged.update(dict.fromkeys(constraint.accounts(query, placement.claim), 0))
    return charged


def annotations_of(placement: Placement, plan: str, nodes: Nodes) -> dict[str, str]:
    """What the bind writes onto the object."""
    claim, gang, candidate = placement.claim, placement.gang or NO_GANG, placement.candidate
    inventory = nodes.inventory(claim.node) if claim.grants else None
    return binds.annotations_of(
        Bound(
            plan=plan,
            grants=claim.grants,
            quota=claim.quota,
            surcharge=claim.surcharge,
            reservation=placement.reservation,
            reservation_uid=claim.reservation,
            gang=gang.name,
            gang_size=gang.size,
            uuids=_uuids(inventory) if inventory is not None else {},
            resource_spec=_resource_spec(placement, nodes) if claim.grants else "",
            template=PodTemplate() if candidate.is_reservation else candidate.object.template,
            loans=claim.loans,
        )
    )


def _resource_spec(placement: Placement, nodes: Nodes) -> str:
    cls, row = placement.candidate.cls, nodes.rows.get(placement.claim.node)
    query = next((query for allocator, query in cls.chosen if allocator.constraint == cls.rules.cores.name), None)
    if query is None or row is None or placement.candidate.is_reservation:
        return ""
    return cls.rules.cores.resource_spec(query, row, placement.candidate.object.template.annotations)


def _uuids(inventory: NodeInventory) -> dict[tuple[str, str], str]:
    """What the node calls its devices, and which minors its virtual functions have."""
    uuids = {(each.kind, str(each.minor)): each.uuid for each in inventory.devices}
    return uuids | {(VF, one.bus): str(one.minor) for each in inventory.devices for one in each.functions}
