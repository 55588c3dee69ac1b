"""A fault stops the clock of those readers that it touches: what the others do not see in time is held against them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from unittest.mock import patch

import pytest
from tests.libs.invariants.stage import stage
from tests.libs.invariants.story import Story
from tests.simulation.blinding import hinders_binds
from tests.simulation.fault_injection import FaultInjector
from tests.simulation.faults import KINDS, Fault
from tests.simulation.harness import Harness, build

WATCHER, WRITER, SOLVER = "cluster-watcher", "cluster-writer", "placement-solver"
STATE = "berth_state"


@pytest.fixture
def harness() -> Iterator[Harness]:
    """Nothing runs in it."""
    harness = build(1, (), {}, log_level="error", specs=())
    with closing(harness.world):
        yield harness


def card_breaks(story: Story) -> None:
    story.health("n1", False, True)


def card_is_given(story: Story) -> None:
    story.place("a", minors={0: 50})


def card_is_bound(story: Story) -> None:
    story.bind("b")


def node_closes(story: Story) -> None:
    story.change("nodes", "n1", {"spec": {"unschedulable": True}})


def is_decided(story: Story) -> None:
    story.place("a")


def node_shrinks(story: Story) -> None:
    story.change("nodes", "n1", {"status": {"allocatable": {"cpu": "0"}}})


def quota_sinks(story: Story) -> None:
    story.quota("blue", "0", parent="company")


def is_charged(story: Story) -> None:
    story.place("a", quota="/blue")


def struck(
    harness: Harness, fault: Fault, change: Callable[[Story], None], act: Callable[[Story], None]
) -> tuple[list[str], Story]:
    """What is broken when something changes at the moment of a fault, and is acted against 15 s later."""
    story = stage()
    story.place("b", minors={0: 50})
    harness.observer = story.observer
    injector = FaultInjector(harness)
    with patch.object(injector, "_" + fault.kind.replace(" ", "_"), lambda _: None):
        injector._strike(fault)
    change(story)
    story.wait(15)
    act(story)
    return story.broken, story


@pytest.mark.parametrize(
    ("kind", "target", "change", "act", "law"),
    [
        ("pause", "quota-manager", card_breaks, card_is_given, "I1e"),
        ("pause", "quota-manager", node_closes, is_decided, "I1f"),
        ("pause", "quota-manager", node_shrinks, is_decided, "I1b"),
        ("pause", "device-inventory", quota_sinks, is_charged, "I2"),
        ("pause", "device-inventory", node_closes, is_decided, "I1f"),
        ("pause", "reservation-manager", quota_sinks, is_charged, "I2"),
        ("pause", "slo-manager", card_breaks, card_is_given, "I1e"),
        ("pause", WRITER, card_breaks, card_is_given, "I1e"),
        ("pause", WRITER, quota_sinks, is_charged, "I2"),
        ("pause", SOLVER, card_breaks, card_is_bound, "I1e"),
        ("api cut", WRITER, node_closes, is_decided, "I1f"),
        ("conflicts", "", node_closes, is_decided, "I1f"),
        ("bucket remade", "berth_quota", card_breaks, card_is_given, "I1e"),
        ("bucket remade", "berth_inventory", quota_sinks, is_charged, "I2"),
        ("bucket remade", "berth_ledger", node_closes, is_decided, "I1f"),
        ("group gone", "", node_closes, is_decided, "I1f"),
    ],
)
def test_a_fault_excuses_nobody_whom_it_does_not_touch(
    harness: Harness, kind: str, target: str, change: Callable[[Story], None], act: Callable[[Story], None], law: str
) -> None:
    broken, _ = struck(harness, Fault(0.0, kind, target, for_s=20.0), change, act)
    assert broken == [law]


@pytest.mark.parametrize(
    ("kind", "target", "change", "act"),
    [
        ("pause", "quota-manager", quota_sinks, is_charged),
        ("pause", "device-inventory", card_breaks, card_is_given),
        ("pause", SOLVER, card_breaks, card_is_given),
        ("pause", SOLVER, node_closes, is_decided),
        ("pause", SOLVER, quota_sinks, is_charged),
        ("pause", WRITER, card_breaks, card_is_bound),
        ("pause", WATCHER, card_breaks, card_is_bound),
        ("pause", WATCHER, card_breaks, card_is_given),
        ("pause", WATCHER, quota_sinks, is_charged),
        ("api cut", WATCHER, node_closes, is_decided),
        ("api cut", WRITER, card_breaks, card_is_bound),
        ("conflicts", "", card_breaks, card_is_bound),
        ("bucket remade", "berth_quota", quota_sinks, is_charged),
        ("bucket remade", "berth_lease", quota_sinks, is_charged),
        ("bucket remade", STATE, node_closes, is_decided),
        ("tail lost", "berth_quota", node_closes, is_decided),
        ("bus slow", "", quota_sinks, is_charged),
        ("watches fail", "silent", node_closes, is_decided),
    ],
)
def test_a_fault_excuses_whom_it_touches(
    harness: Harness, kind: str, target: str, change: Callable[[Story], None], act: Callable[[Story], None]
) -> None:
    assert kind in KINDS
    broken, _ = struck(harness, Fault(0.0, kind, target, for_s=20.0), change, act)
    assert broken == []


@pytest.mark.parametrize(
    ("fault", "hinders"),
    [
        (Fault(0.0, "kill", WRITER), True),
        (Fault(0.0, "late view", f"{WRITER}:{STATE}", 2.0, 5.0), True),
        (Fault(0.0, "bus slow", amount=2.0, for_s=5.0), True),
        (Fault(0.0, "api away", for_s=5.0), True),
        (Fault(0.0, "led anew", "", 3.0), True),
        (Fault(0.0, "leader moved", STATE, 3.0), True),
        (Fault(0.0, "tail lost", "berth_quota", 3.0), True),
        (Fault(0.0, "leader moved", "berth_quota", 3.0), False),
        (Fault(0.0, "bucket full", "berth_reservation", for_s=5.0), False),
        (Fault(0.0, "kill", SOLVER), False),
        (Fault(0.0, "pause", WATCHER, for_s=5.0), False),
        (Fault(0.0, "late view", f"{SOLVER}:berth_quota", 60.0, 23.0), False),
        (Fault(0.0, "group gone", for_s=5.0), False),
    ],
)
def test_who_carries_nothing_out_hinders_nobody_from_it(fault: Fault, hinders: bool) -> None:
    assert hinders_binds(fault) is hinders
