"""A refusal that is not shown is told again: whatever has become of its command."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.codec import decode
from berth.contracts.command import PatchObject
from berth.contracts.kube import ReservationCondition
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.event_publisher import REPEAT_FIRST_S, REPEAT_LOOK_S, REPEAT_MAX_S, REPORT_AGAIN_S
from berth.testing.builders import pod
from berth.testing.vectors import cases


@pytest.fixture
def bench(solving: type[Any]) -> SolverBench:
    run = solving()
    run.node("n0", cpu=4000)
    return SolverBench(run)


async def after(bench: SolverBench, seconds: float) -> None:
    until = bench.clock.time + seconds
    while bench.clock.time < until:
        bench.clock.time += 1.0
        await bench.until_idle()
        await bench.rounds.tidy()


def too_big(**fields: Any) -> Reservation:
    return Reservation(name="r", uid="r", version=0, template=PodTemplate(requests={names.CPU: 9000}), **fields)


async def test_a_refusal_that_the_pod_never_shows_is_told_again(bench: SolverBench) -> None:
    """Its command was lost with the bus, or has ended as a dead letter, as after minutes without an API server."""
    bench.run.pod(pod("a").requests(cpu=9000))
    await bench.until_idle()
    assert bench.commands.refusals()
    bench.commands.messages.clear()
    await after(bench, REPEAT_FIRST_S - 1)
    assert not bench.commands.messages
    await after(bench, 1 + REPEAT_LOOK_S)
    assert len(bench.commands.messages) == 1
    await after(bench, 4 * REPEAT_MAX_S)
    assert 5 <= len(bench.commands.messages) <= 7, "less and less often"
    bench.run.pod(pod("a").requests(cpu=9000).set(unschedulable=bench.commands.refusals()["a"]))
    bench.commands.messages.clear()
    await after(bench, 2 * REPEAT_MAX_S)
    assert not bench.commands.messages


async def test_a_refusal_is_told_again_in_another_epoch(bench: SolverBench) -> None:
    """What its command has come to may be lost with the bus."""
    bench.run.pod(pod("a").requests(cpu=9000))
    await bench.until_idle()
    assert bench.commands.refusals()
    bench.commands.messages.clear()
    bench.run.pod(pod("a").requests(cpu=9000).set(attempt=1))
    await after(bench, 2 * REPORT_AGAIN_S)
    assert len(bench.commands.refusals()) == 1


async def test_a_refusal_of_a_reservation_that_changed_meanwhile_is_told_again(bench: SolverBench) -> None:
    """The command is guarded by the version that was seen, and dropped by cluster-writer."""
    bench.run.reservation(too_big())
    await bench.until_idle()
    assert bench.commands.messages
    bench.commands.messages.clear()
    bench.run.reservation(too_big())
    await after(bench, 2 * REPORT_AGAIN_S)
    assert bench.commands.messages


@pytest.mark.parametrize("more", [1, 5])
async def test_each_change_of_a_reservation_has_its_refusal_published_once(bench: SolverBench, more: int) -> None:
    for _ in range(1 + more):
        bench.commands.messages.clear()
        bench.run.reservation(too_big())
        await after(bench, 2 * REPORT_AGAIN_S)
        assert len(bench.commands.messages) == 1


async def test_a_refusal_that_a_reservation_shows_is_not_told_again(bench: SolverBench) -> None:
    """As to a solver that has just started."""
    message = "0/1 nodes are available: 1 Insufficient cpu. To repair: ask for at most 4 cpu, which node n0 has free."
    shown = ReservationCondition(type="Scheduled", status="False", reason="Unschedulable", message=message)
    bench.run.reservation(too_big(conditions=[shown]))
    await after(bench, 2 * REPEAT_MAX_S)
    assert not bench.commands.messages
    bench.run.node("n1", cpu=4000)
    await after(bench, 2 * REPEAT_MAX_S)
    assert bench.commands.messages, "another reason is"


@pytest.mark.parametrize(
    "case", cases("reservation/conditions", lambda case: case["given"]["event"] == "unschedulable")
)
async def test_conditions_of_a_reservation_that_finds_no_node(bench: SolverBench, case: dict[str, Any]) -> None:
    """The words are Berth's own; type, status and reason are the protocol's."""
    given, expect = case["given"], case["expect"]
    shown = [ReservationCondition(**each) for each in given["conditions"]]
    bench.run.reservation(too_big(phase=given["phase"], conditions=shown))
    await bench.until_idle()
    (patch,) = [decode(payload, PatchObject) for _, payload in bench.commands.messages]
    assert patch.status is not None
    assert patch.status["phase"] == expect["phase"]
    told = [dict(each) for each in patch.status["conditions"]]
    assert all(each.pop("message").startswith("0/1 nodes are available") for each in told)
    assert told == [{field: each[field] for field in ("type", "status", "reason")} for each in expect["conditions"]]
