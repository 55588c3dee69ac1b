"""Pods that a profile selects and that came without it are told, and nobody else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.libs.invariants.story import Story
from tests.services.auditor.looks import event_of, ledger_of, lists_of, reconciler, result, told

from berth.auditor.core.objects import Lists
from berth.auditor.core.unprofiled import STEP, Unprofiled
from berth.contracts import kube, names
from berth.rules.webhooks import entry_of_profile

ETL = {"selector": {"matchLabels": {"app": "etl"}}}


def time(minute: int) -> str:
    return f"2026-11-27T10:{minute:02}:00Z"


def lists(*pods: dict[str, Any], spec: dict[str, Any] | None = None, entry: str = "etl", generation: int = 1) -> Lists:
    profile = {"metadata": {"name": "etl", "uid": "p", "creationTimestamp": time(10), "generation": generation}}
    configuration = {"metadata": {"name": names.WEBHOOKS}, "webhooks": [{"name": entry_of_profile(entry)}]}
    return lists_of(Story())._replace(
        pods=[msgspec.convert(each, kube.Pod) for each in pods],
        webhooks=[msgspec.convert(configuration, kube.WebhookConfiguration)],
        profiles=[msgspec.convert({**profile, "spec": spec or ETL}, kube.ClusterColocationProfile)],
        namespaces=[msgspec.convert({"metadata": {"name": "team", "labels": {"lends": "yes"}}}, kube.AnyObject)],
    )


def pod(name: str, minute: int = 20, **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team", "uid": name, "creationTimestamp": time(minute), "labels": {"app": "etl"}}
    return {"metadata": {**meta, **metadata}}


def found(seen: Lists) -> list[str]:
    return [each.text for each in result(Unprofiled().looking(seen))]


def test_pods_are_named_with_their_profile() -> None:
    (text,) = found(lists(*(pod(f"p{number}") for number in range(7))))
    assert text == ("profile etl selects pods of team that were created without it, 7 of them: p0, p1, p2, p3, p4, ...")


@pytest.mark.parametrize(
    "metadata",
    [
        {"minute": 10},
        {"labels": {"app": "web"}},
        {"labels": None},
        {"annotations": {names.ANNOTATION_PROFILES: "{}"}},
        {"annotations": {names.ANNOTATION_MIRROR: "x"}},
        {"deletionTimestamp": time(21)},
        {"namespace": "kube-system"},
    ],
)
def test_nobody_else_is(metadata: dict[str, Any]) -> None:
    assert found(lists(pod("p", **metadata))) == []


def test_a_profile_counts_for_what_it_has_to_do_alone() -> None:
    assert found(lists(pod("p"), spec={**ETL, "probability": "99%"})) == []
    assert found(lists(pod("p"), spec={"probability": "150%"})) == []
    assert found(lists(pod("p"), entry="another")) == [], "nobody asks us for it"
    assert len(found(lists(pod("p"), spec={}))) == 1, "without a selector it selects all"
    here = {"namespaceSelector": {"matchLabels": {"lends": "yes"}}}
    assert len(found(lists(pod("p"), spec=here))) == 1
    assert found(lists(pod("p", namespace="other"), spec=here)) == []


@pytest.mark.parametrize(
    ("expression", "selects"),
    [
        ({"key": "app", "operator": "In", "values": ["etl", "etl", "web"]}, True),
        ({"key": "app", "operator": "In", "values": ["web"]}, False),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "app", "operator": "NotIn", "values": ["web"]}, True),
        ({"key": "other", "operator": "DoesNotExist"}, True),
    ],
)
def test_selectors_may_be_expressions(expression: dict[str, Any], selects: bool) -> None:
    seen = lists(pod("p"), spec={"selector": {"matchExpressions": [expression]}})
    assert [text.partition(", ")[2] for text in found(seen)] == (["1 of them: p"] if selects else [])
    with_label = {"matchExpressions": [expression], "matchLabels": {"app": "etl"}}
    assert bool(found(lists(pod("p"), spec={"selector": with_label}))) is selects


def test_many_pods_are_looked_at_in_steps() -> None:
    pods = [pod(f"p{number}") for number in range(1_000)]
    seen = lists(*pods, spec={"selector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}})
    seen = seen._replace(profiles=seen.profiles * 9)
    steps = list(Unprofiled().looking(seen))
    assert len(steps) == pytest.approx(10 * len(pods) / STEP, abs=1)


def test_a_changed_profile_is_held_against_those_who_came_after_it_was_seen() -> None:
    memory, early, late = Unprofiled(), pod("early", 20), pod("late", 40)
    assert result(memory.looking(lists(early, generation=2))) == []
    assert result(memory.looking(lists(early, pod("between", 30), generation=2))) == []
    (finding,) = result(memory.looking(lists(early, pod("between", 30), late, generation=2)))
    assert finding.text.endswith("1 of them: late")
    assert result(memory.looking(lists(early, late, generation=3))) == []


def test_it_is_told_after_two_looks_and_once_more_when_they_are_gone() -> None:
    at, story = reconciler(), Story()

    def look(seen: Lists) -> list[str]:
        story.wait(30)
        events = result(at.looking(seen, ledger_of(story), story.now_s))
        assert all(event_of(each).title == "profiled-once" for each in events)
        return told(events)

    assert look(lists(pod("p"))) == []
    assert at.wants_another
    assert look(lists(pod("p"))) == ["found I41"]
    assert look(lists(pod("p"), pod("q"))) == []
    assert look(lists()) == ["gone I41"]
