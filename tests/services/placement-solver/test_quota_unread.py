"""A pod that names a quota which is not known yet: it waits a moment, not for ever, and is charged to the right one."""

from __future__ import annotations

from typing import Any

import pytest

from berth.placement_solver.picture import QUOTA_UNREAD_S
from berth.testing.builders import pod

DEFAULT = "koordinator-default-quota"


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n1", cpu=10_000)
    made.quota(DEFAULT)
    return made


def charged(run: Any) -> list[str]:
    return [placement.claim.quota for placement in run.round().placements]


def test_a_quota_that_comes_right_after_its_pod_is_charged(run: Any) -> None:
    run.pod(pod("p").requests(cpu=1000).quota("team"))
    assert charged(run) == []
    (waiting,) = run.picture.queue.waiting.values()
    assert waiting.message == "quota team is not known yet"
    run.quota("team", max={"cpu": 4000})
    run.picture.queue.wake(run.picture.now)
    assert charged(run) == ["/team"]


def test_a_quota_that_never_comes_holds_nobody_up_for_long(run: Any) -> None:
    run.pod(pod("p").requests(cpu=1000).quota("nowhere"))
    assert charged(run) == []
    run.picture.now += QUOTA_UNREAD_S
    assert charged(run) == [f"/{DEFAULT}"]


def test_a_known_quota_costs_no_time(run: Any) -> None:
    run.quota("team", max={"cpu": 4000})
    run.pod(pod("p").requests(cpu=1000).quota("team"))
    assert charged(run) == ["/team"]
