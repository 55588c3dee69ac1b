"""Each planted fault is named by the observer at its moment, alone and in the midst of others' work."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.libs.invariants.planted import FAULTS
from tests.libs.invariants.stage import stage
from tests.libs.invariants.story import Good, Story

from berth.invariants import PROMISES


@pytest.mark.parametrize(("promise", "fault"), FAULTS, ids=lambda each: getattr(each, "__name__", each))
def test_a_planted_fault_is_named(promise: str, fault: Callable[[Story], None]) -> None:
    story = stage()
    fault(story)
    assert story.broken == [promise], [str(each) for each in story.observer.violations]
    assert promise in story.finish()


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(FAULTS), st.integers(0, 1 << 30))
def test_a_fault_is_found_in_the_midst_of_others_work(planted: tuple[str, Callable[[Story], None]], seed: int) -> None:
    promise, fault = planted
    story = stage()
    good = Good(seed)
    good.story, good.cpu, good.free = story, {"m1": 8}, {("m1", 0): 100, ("m1", 1): 100}
    good.left = {"company": 0, "blue": 0, "red": 0}
    story.node("m1")
    good.run(60)
    if "epoch" in fault.__name__ or story.current > 1:
        return
    for name in ("a", "b"):
        story.objects["pods"].pop(name, None)
        story.pod(name, uid=f"uid-{name}-again")
    fault(story)
    assert promise in story.broken


def test_every_promise_that_is_watched_has_a_fault() -> None:
    elsewhere = {"I1c", "I1d", "I7", "I8"}  # node reports, replays and rebuilds have tests of their own
    elsewhere |= {
        "I11",
        "I11b",
        "I11c",
        "I11d",
        "I11e",
        "I11f",
        "I11g",
        "I11h",
        "I34",
    }  # evictions as well: test_evictions
    elsewhere |= {"I19", "I19b", "I20", "I21", "I22"}  # and volumes: test_observer_volumes
    elsewhere |= {"I1g", "I23", "I23b", "I24", "I25", "I26", "I27"}  # and what is within a node: test_inside
    elsewhere |= {"I32"}  # and pools of quota trees: test_observer_pools
    elsewhere |= {"I31", "I35"}  # and shares of quota groups: test_observer_shares, test_observer_reclaims
    elsewhere |= {"I36"}  # and what nodes lend: test_observer_lent
    elsewhere |= {"I42"}  # and on which reports: test_observer_news
    elsewhere |= {"I40"}  # and how that is divided: test_observer_divided
    elsewhere |= {"I37"}  # and who leaves for a node's sake: test_observer_pressed
    elsewhere |= {"I30"}  # and windows of schedules: test_observer_windows
    elsewhere |= {"I30b"}  # and pods that Reservations take over: test_observer_take_overs
    elsewhere |= {"I30c"}  # and Reservations that grow: test_observer_growths
    elsewhere |= {"I33"}  # and gangs in the network: test_gathered
    elsewhere |= {"I41"}  # and pods without their profile, for which the auditor looks: test_unprofiled
    elsewhere |= {"I29", "I29b"}  # and how Reservations are used: test_observer_reservations
    assert {promise for promise, _ in FAULTS} == set(PROMISES) - elsewhere
