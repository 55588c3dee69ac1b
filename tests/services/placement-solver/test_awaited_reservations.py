"""An owner of a Reservation whose capacity is not published yet is not placed beside it."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts import names
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.question import WhyQuestion
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.core.waits import WORKED_OUT_S
from berth.placement_solver.why import answer
from berth.testing.builders import PodBuilder, pod

OWNERS = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "a"}))]
AMOUNTS = {names.CPU: 4000}


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n1", cpu=9000)
    made.cluster.now = 1000.0
    return made


def owner(name: str = "p") -> PodBuilder:
    return pod(name).requests(cpu=4000).label("app", "a")


def available(run: Any, name: str = "r", *, is_published: bool = True) -> None:
    seen = Reservation(
        name=name,
        uid=name,
        version=0,
        template=PodTemplate(requests=AMOUNTS),
        owners=OWNERS,
        phase="Available",
        node="n1",
        allocatable=AMOUNTS,
    )
    capacity = ReservedCapacity(
        name=name, uid=name, revision=1, phase="Available", node="n1", amounts=AMOUNTS, owners=OWNERS, usable=True
    )
    run.reservation(seen, capacity if is_published else None)


def drawn_on(run: Any, after_s: float = 0.0) -> dict[str, str]:
    """The Reservation that each pod draws on which the next round places, so many seconds later."""
    run.cluster.now += after_s
    run.cluster.wake()
    return {placement.candidate.name[1]: placement.reservation for placement in run.round().placements}


def test_an_owner_waits_until_the_capacity_is_published(run: Any) -> None:
    available(run, is_published=False)
    run.pods([owner(), pod("other").requests(cpu=1000)])
    assert drawn_on(run) == {"other": ""}
    (waiting,) = run.cluster.queue.waiting.values()
    assert waiting.message == "reservation r has a node, its capacity is not published yet"
    available(run)
    assert drawn_on(run) == {"p": "r"}


def test_a_manager_that_is_away_holds_nobody_up_for_long(run: Any) -> None:
    available(run, is_published=False)
    run.pod(owner())
    assert drawn_on(run, 100.0) == {}, "time counts from when it could have been placed"
    assert drawn_on(run, WORKED_OUT_S - 0.01) == {}
    assert drawn_on(run, 0.01) == {"p": ""}


def test_one_reservation_after_the_other_holds_nobody_up_for_longer(run: Any) -> None:
    run.node("n2", cpu=32_000)
    run.pod(owner())
    for number in range(3):
        available(run, f"r{number}", is_published=False)
        assert drawn_on(run, 4.0 if number else 0.0) == {}
    available(run, "r3", is_published=False)
    assert drawn_on(run, 2.0) == {"p": ""}


def test_an_owner_that_was_tried_may_wait_again(run: Any) -> None:
    run.pod(pod("big").requests(cpu=9000))
    assert drawn_on(run) == {"big": ""}
    run.pod(owner())
    assert drawn_on(run) == {}
    (waiting,) = run.cluster.queue.waiting.values()
    assert not waiting.held
    run.delete_pod("big")
    available(run, is_published=False)
    assert drawn_on(run, 10.0) == {}
    told = answer(run.cluster, WhyQuestion(namespace="default", name="p"))
    assert (told.outcome, told.message) == ("waiting", "reservation r has a node, its capacity is not published yet")
    available(run)
    assert drawn_on(run, 1.0) == {"p": "r"}


def test_a_batch_of_owners_that_wait_is_no_larger_than_another(run: Any) -> None:
    available(run, is_published=False)
    run.pods(owner(f"p{number}") for number in range(7))
    assert run.cluster.batch(3) == ([], [])
    assert sum(waiting.held for waiting in run.cluster.queue.waiting.values()) == 3
    assert run.cluster.queue.has_ready(run.cluster.now)


def test_who_wants_no_reservation_does_not_wait(run: Any) -> None:
    available(run, is_published=False)
    run.pod(owner().label(names.LABEL_RESERVATION_IGNORED, "true"))
    assert drawn_on(run) == {"p": ""}


def test_a_lost_bucket_is_read_again_first(run: Any) -> None:
    available(run)
    run.cluster.reset_reserved()
    run.pod(owner())
    assert drawn_on(run) == {}
    available(run)
    assert drawn_on(run) == {"p": "r"}


def test_a_gang_waits_for_the_capacity_of_any_member(run: Any) -> None:
    available(run, is_published=False)
    run.pods([pod("g-0").requests(cpu=1000).gang("g", 2), owner("g-1").gang("g", 2)])
    assert drawn_on(run) == {}
    available(run)
    assert drawn_on(run) == {"g-0": "", "g-1": "r"}
