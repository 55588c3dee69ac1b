"""Pods that ask for CPUs of their own and shares of NUMA nodes, and what they were given."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from berth.contracts import names
from berth.contracts.grants import CPU, ZONE, one
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Grant
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Reservation
from berth.placement_solver.core import explain
from berth.rules.cpus.cpuset import format_cpuset
from berth.testing.builders import PodBuilder, pod
from berth.transaction.claims import Claim

FULL, SPREAD = "FullPCPUs", "SpreadByPCPUs"


def pinned(name: str, cpus: int, *, qos: str = "LSR", memory: int = 0, **spec: str) -> PodBuilder:
    """A pod that asks for CPUs of its own."""
    builder = pod(name).requests(cpu=1000 * cpus, memory=memory).label(names.LABEL_QOS, qos)
    return builder.annotation(names.ANNOTATION_RESOURCE_SPEC, json.dumps(spec)) if spec else builder


def zoned(builder: PodBuilder, policy: str, exclusive: str = "Preferred") -> PodBuilder:
    """The same pod with a wish about NUMA nodes."""
    wish = {"numaTopologyPolicy": policy, "singleNUMANodeExclusive": exclusive}
    return builder.annotation(names.ANNOTATION_NUMA_SPEC, json.dumps(wish))


def cpus_of(grants: Iterable[Grant]) -> str:
    """The CPUs among what was given, as a set is written."""
    return format_cpuset(int(grant.id) for grant in grants if grant.kind == CPU)


def zones_of(grants: Iterable[Grant]) -> dict[int, dict[str, int]]:
    """The shares of NUMA nodes among what was given, by the number of the node."""
    return {int(grant.id): dict(grant.amounts) for grant in grants if grant.kind == ZONE}


def held(run: Any, name: str) -> tuple[Grant, ...]:
    """What the book says that a pod was given."""
    (claim,) = run.cluster.book.claims_of(("default", name))
    grants: tuple[Grant, ...] = claim.grants
    return grants


def told(run: Any) -> str:
    """What the last pod is told, as `berth why` has it."""
    (refusal,) = run.round().refusals
    return explain.message(refusal.reasons, int(run.cluster.nodes.alive.sum()))


def shown(nodes: Any, row: int) -> Any:
    """What a node has free, as far as it is anybody's business here."""
    zones = nodes.cores.zones(row)
    return (nodes.cores.free_cpus(row), zones.available, nodes.cores.status(row))


def mine(builder: PodBuilder) -> PodBuilder:
    """A pod that owns what `reserving` makes."""
    return builder.label("app", "mine")


def reserving(run: Any, builder: PodBuilder, policy: str = "") -> tuple[Grant, ...]:
    """A Reservation r for pods with the label app=mine that asks for what the builder does, placed and Available, its
    decision forgotten as after a restart; what it holds."""
    template = builder.build(1).template
    owners = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "mine"}))]
    run.reservation(Reservation(name="r", uid="uid-r", version=1, template=template, owners=owners))
    run.round()
    (claim,) = run.cluster.book.claims_of(("", "r"))
    decision = run.cluster.book.ledger.decisions["", "r"].decision
    bound = Reservation(
        name="r",
        uid="uid-r",
        version=1,
        template=template,
        annotations=decision.annotations,
        phase="Available",
        node="n",
        plan=decision.plan,
        allocatable=template.requests,
        owners=owners,
    )
    capacity = ReservedCapacity(
        name="r",
        uid="uid-r",
        revision=1,
        phase="Available",
        node="n",
        usable=True,
        amounts=template.requests,
        allocate_policy=policy,
        allocate_once=False,
        owners=owners,
    )
    run.reservation(bound, capacity)
    (read,) = run.cluster.book.claims_of(("", "r"))
    assert read.grants == claim.grants, "the record says what was decided"
    grants: tuple[Grant, ...] = read.grants
    return grants


def own(*cpus: int) -> tuple[Grant, ...]:
    """These CPUs, as they are given."""
    return tuple(one(CPU, str(cpu)) for cpu in cpus)


def share(zone: int, **amounts: int) -> Grant:
    """A share of a NUMA node, as it is given."""
    return Grant(kind=ZONE, id=str(zone), amounts=amounts)


class Planned:
    """A plan for pods, which the verifier accepts."""

    def __init__(self, run: Any, builders: list[PodBuilder]) -> None:
        self.run = run
        run.pods(builders)
        solution, trial = run.solve()
        trial.undo()
        assert solution.refusals == ()
        self.claims: list[Claim] = [placement.claim for placement in solution.placements]
        assert run.verifier.check(self.claims) == []

    def with_grants(self, *grants: Grant) -> list[str]:
        """What is wrong once the last claim has these grants."""
        problems: list[str] = self.run.verifier.check([*self.claims[:-1], self.claims[-1]._replace(grants=grants)])
        return problems
