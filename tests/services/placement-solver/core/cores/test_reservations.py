"""CPUs that a Reservation holds, and who gets them."""

from __future__ import annotations

from typing import Any

from tests.services.worlds.solver.cores import (
    Planned,
    cpus_of,
    held,
    mine,
    own,
    pinned,
    reserving,
    shown,
    zoned,
    zones_of,
)

from berth.contracts import names
from berth.contracts.grants import CPU
from berth.testing.builders import GI, node_topology


def test_a_reservation_has_cpus_of_its_own_that_nobody_else_gets(run: Any) -> None:
    exclusive = {"preferredCPUExclusivePolicy": "PCPULevel"}
    grants = reserving(run, pinned("t", 4, **exclusive))
    assert (cpus_of(grants), {grant.extension for grant in grants}) == ("0-3", {"PCPULevel"})
    run.pod(pinned("stranger", 12).label(names.LABEL_RESERVATION_IGNORED, "true"))
    run.round()
    assert cpus_of(held(run, "stranger")) == "4-15"


def test_a_user_gets_the_cpus_of_its_reservation_and_the_rest_from_the_node(run: Any) -> None:
    run.pod(pinned("x", 2).annotation(names.ANNOTATION_RESOURCE_STATUS, '{"cpuset":"0-1"}').on("n"))
    assert cpus_of(reserving(run, pinned("t", 4))) == "8-11"
    run.pods([mine(pinned("a", 2)), mine(pinned("b", 4)), pinned("c", 8)])
    solution = run.round()
    drawn = {each.candidate.name[1]: each.reservation for each in solution.placements}
    assert drawn == {"a": "r", "b": "r", "c": ""}
    assert cpus_of(held(run, "a")) == "8-9"
    assert {10, 11} < {int(grant.id) for grant in held(run, "b") if grant.kind == CPU}


def test_of_a_restricted_reservation_come_its_own_cpus_alone(run: Any) -> None:
    reserving(run, zoned(pinned("t", 4, memory=GI), "SingleNUMANode"), "Restricted")
    run.pods([mine(zoned(pinned("a", 3, memory=GI), "SingleNUMANode")), mine(pinned("b", 2)), mine(pinned("c", 1))])
    solution = run.round()
    drawn = {each.candidate.name[1]: (each.reservation, cpus_of(each.claim.grants)) for each in solution.placements}
    assert drawn == {"a": ("r", "0-2"), "b": ("", "8-9"), "c": ("r", "3")}
    assert zones_of(held(run, "a")) == {0: {names.CPU: 3000, names.MEMORY: GI}}


def test_the_verifier_finds_cpus_beside_a_restricted_reservation(run: Any) -> None:
    reserving(run, pinned("t", 4), "Restricted")
    plan = Planned(run, [mine(pinned("a", 2))])
    assert plan.claims[0].reservation == "uid-r"
    assert plan.with_grants(*own(4, 5)) == [
        "node n: default/a: reservation r holds 0 of cpu 4 count, its users take 1",
        "node n: default/a: reservation r holds 0 of cpu 5 count, its users take 1",
    ]


def test_books_of_a_reservation_and_its_users_are_the_same_after_a_restart(run: Any, solving: type[Any]) -> None:
    reserving(run, zoned(pinned("t", 4, memory=GI), "SingleNUMANode"))
    user = mine(zoned(pinned("a", 2, memory=GI), "SingleNUMANode"))
    run.pod(user)
    run.round()
    run.bind(user)
    assert run.cluster.nodes.cores.free_cpus(0) == frozenset(range(4, 16))
    before = shown(run.cluster.nodes, 0)
    again = solving()
    again.node("n", cpu=16_000)
    again.topology("n", node_topology(zones=2))
    again.reservation(run.cluster.book.reservations["", "r"], run.cluster.reservations.known["uid-r"].capacity)
    again.pod(user)
    assert shown(again.cluster.nodes, 0) == before
