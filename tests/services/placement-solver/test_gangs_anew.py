"""Gangs when STATE begins anew: what was known of them before counts for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from berth.testing.builders import PodBuilder, pod


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n1")
    return made


def member(index: int) -> PodBuilder:
    return pod(f"g-{index}").requests(cpu=1000).gang("g", 2)


def begin_anew(run: Any) -> None:
    run.cluster.reset_state()
    run.node("n1")


def held_back(run: Any) -> list[str]:
    units, held = run.cluster.batch(100)
    assert units == []
    return [reason.message for _, reason in held]


def test_members_that_are_not_shown_again_are_not_counted(run: Any) -> None:
    run.pods(member(index) for index in range(2))
    begin_anew(run)
    run.pod(member(0))
    run.complete()
    assert held_back(run) == ["gang default/g has 1 of 2 members"]


def test_a_gang_whose_bound_members_are_not_shown_again_has_not_begun(run: Any) -> None:
    run.pods(member(index) for index in range(2))
    run.round()
    for index in range(2):
        run.bind(member(index))
    begin_anew(run)
    run.pod(member(2))
    run.complete()
    assert held_back(run) == ["gang default/g has 1 of 2 members"]


def test_a_pod_group_that_is_not_shown_again_says_nothing(run: Any) -> None:
    run.pod_group("g", 1)
    run.pod(pod("g-0").gang("g"))
    begin_anew(run)
    run.pod(pod("g-0").gang("g"))
    run.complete()
    assert held_back(run) == ["gang default/g has no PodGroup yet"]
