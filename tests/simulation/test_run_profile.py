"""A run is long enough for what it asks: others' pods are gone by then, and what was lost is told again."""

from __future__ import annotations

import random

from tests.simulation.profiles import SPECIAL
from tests.simulation.run_profile import ORDINARY
from tests.simulation.workload import Place

from berth.placement_solver.event_publisher import REPEAT_MAX_S
from berth.simcluster.kubelet import DURATION

SOME_S = 30.0
"""For a pod to start and for what it leaves to be noticed; for a refusal to be worked out and written."""


def ends_s(at_s: float, action: Place) -> float:
    return at_s + float(action.manifest["metadata"]["annotations"][DURATION].removesuffix("s"))


def test_pods_of_other_schedulers_end_before_it_is_asked_who_holds_what() -> None:
    size = ORDINARY.size._replace(end_s=ORDINARY.end_s)
    drawn = [timed for seed in range(100) for timed in ORDINARY.actions(random.Random(seed), size)]
    ends = [ends_s(timed.at_s, timed.action) for timed in drawn if isinstance(timed.action, Place)]
    assert max(ends) <= ORDINARY.whole_s - 10.0
    assert len(ends) > 100


def test_there_is_time_to_tell_again_what_was_lost() -> None:
    for profile in (ORDINARY, *SPECIAL.values()):
        told_s = profile.whole_s  # a refusal may be lost as late as that, to a conflict with no fault
        assert told_s + REPEAT_MAX_S + SOME_S <= profile.whole_s + profile.settle_s
