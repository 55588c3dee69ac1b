"""Berth in worlds that kube-scheduler has decided before (README.md): no binary is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.parity.__main__ import judge
from tests.parity.comparing import Difference, compare
from tests.parity.generator import FEATURES
from tests.parity.report import Report, told
from tests.parity.traces import read_traces
from tests.parity.world import Trace

RECORDED = Path(__file__).with_name("recorded.json.xz")


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    return read_traces(RECORDED)


def test_nothing_differs_that_is_not_explained(traces: list[Trace]) -> None:
    report = Report()
    found = [told(trace.world, difference) for trace in traces for difference in judge(trace, report)]
    assert not found, "\n".join(found)
    assert not report.not_yet
    assert report.explained.total() < report.pods / 10


def test_every_feature_and_every_way_to_end_is_recorded(traces: list[Trace]) -> None:
    assert {feature for trace in traces for feature in trace.world.features} >= {*FEATURES} - {"owners"}
    outcomes = [step.outcome for trace in traces for step in trace.steps]
    assert {outcome.verdict for outcome in outcomes} >= {"bound", "unschedulable", "gated"}
    assert sum(1 for outcome in outcomes if outcome.victims) >= 50
    assert any(step.pod["spec"].get("preemptionPolicy") == "Never" for trace in traces for step in trace.steps)


def test_a_world_without_who_has_to_leave_is_another_one(traces: list[Trace]) -> None:
    """What is compared depends on what was recorded: victims that are not in the world can be nobody's."""
    trace = next(each for each in traces if each.steps[0].outcome.victims)
    victims = set(trace.steps[0].outcome.victims)
    kept = tuple(
        each
        for each in trace.objects
        if each["kind"] != "Pod" or f"{each['metadata']['namespace']}/{each['metadata']['name']}" not in victims
    )
    first = Trace(trace.world, kept, trace.steps[:1])
    assert any(isinstance(each, Difference) for each in compare(first))
