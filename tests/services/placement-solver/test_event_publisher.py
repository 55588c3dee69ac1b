"""A refusal that is not shown is told again: whatever has become of its command."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.rounds import Rounds

from berth.contracts import names
from berth.contracts.kube import ReservationCondition
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.event_publisher import LOST_AFTER_S, TELL_AGAIN_S
from berth.testing.builders import pod


@pytest.fixture
def rounds(solving: type[Any]) -> Rounds:
    run = solving()
    run.node("n0", cpu=4000)
    return Rounds(run)


async def after(rounds: Rounds, seconds: float) -> None:
    until = rounds.clock.time + seconds
    while rounds.clock.time < until:
        rounds.clock.time += 1.0
        await rounds.until_idle()


def too_big(**fields: Any) -> Reservation:
    return Reservation(name="r", uid="r", version=0, template=PodTemplate(requests={names.CPU: 9000}), **fields)


async def test_a_refusal_that_the_pod_never_shows_is_told_again(rounds: Rounds) -> None:
    """Its command has ended as a dead letter, as after minutes without an API server."""
    rounds.run.pod(pod("a").requests(cpu=9000))
    await rounds.until_idle()
    assert rounds.commands.refusals()
    rounds.commands.messages.clear()
    await after(rounds, LOST_AFTER_S / 2)
    assert not rounds.commands.messages
    await after(rounds, LOST_AFTER_S)
    assert rounds.commands.refusals()


async def test_a_refusal_of_a_reservation_that_changed_meanwhile_is_told_again(rounds: Rounds) -> None:
    """The command is guarded by the version that was seen, and dropped by cluster-writer."""
    rounds.run.reservation(too_big())
    await rounds.until_idle()
    assert rounds.commands.messages
    rounds.commands.messages.clear()
    rounds.run.reservation(too_big())
    await after(rounds, 2 * TELL_AGAIN_S)
    assert rounds.commands.messages


@pytest.mark.parametrize("more", [1, 5])
async def test_each_change_of_a_reservation_has_its_refusal_published_once(rounds: Rounds, more: int) -> None:
    for _ in range(1 + more):
        rounds.commands.messages.clear()
        rounds.run.reservation(too_big())
        await after(rounds, 2 * TELL_AGAIN_S)
        assert len(rounds.commands.messages) == 1


async def test_a_refusal_that_a_reservation_shows_is_not_told_again(rounds: Rounds) -> None:
    """As to a solver that has just started."""
    message = "0/1 nodes are available: 1 Insufficient cpu. To repair: ask for at most 4 cpu, which node n0 has free."
    shown = ReservationCondition(type="Scheduled", status="False", reason="Unschedulable", message=message)
    rounds.run.reservation(too_big(conditions=[shown]))
    await after(rounds, 2 * LOST_AFTER_S)
    assert not rounds.commands.messages
    rounds.run.node("n1", cpu=4000)
    await after(rounds, 2 * LOST_AFTER_S)
    assert rounds.commands.messages, "another reason is"
