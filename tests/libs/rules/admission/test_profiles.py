"""Profiles: once for a pod, whoever calls and however often."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.libs.rules.admission.cluster import ask, container, mutated, pod, profile, rules_of, views

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.quantity import parse_milli, parse_units
from berth.rules.admission.gates import DEFAULT, RESERVATION_MUTATING
from berth.rules.admission.profiles import read_profile
from berth.rules.admission.seal import Seal

BATCH = {"qosClass": "BE", "priorityClassName": "koord-batch"}
FULL = {"cpu": "1500m", "memory": "2Gi"}
LENT = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"}


def resources(item: dict[str, Any], place: int = 0) -> dict[str, Any]:
    return item["spec"]["containers"][place]["resources"]


def test_labels_are_those_before_any_profile_in_every_call() -> None:
    known = views(
        profile("a", {"selector": {"matchLabels": {"app": "x"}}, "labels": {"app": "y"}, "labelSuffixes": {"q": "-b"}}),
        profile("b", {"selector": {"matchLabels": {"app": "y"}}, "labels": {"b": "applied"}}),
    )
    first = mutated(pod(container(), labels={"app": "x", "q": "team"}), known)
    second = mutated(first, known)
    assert first["metadata"]["labels"] == {"app": "y", "q": "team-b"}
    assert second == first


def test_one_draw_counts_for_all_calls() -> None:
    known = views(
        profile("a", {"probability": "30%", "labels": {"z": "1"}}),
        profile("b", {"labels": {"always": "1"}}),
    )
    passed_over = mutated(pod(container()), known, draw=31)
    assert "z" not in passed_over["metadata"]["labels"]
    assert mutated(passed_over, known, draw=1) == passed_over
    applied = mutated(pod(container()), known, draw=30)
    assert applied["metadata"]["labels"]["z"] == "1"
    assert mutated(applied, known, draw=100) == applied


@pytest.mark.parametrize("probability", [0, 1, 30, 99, 100])
def test_a_probability_is_a_share_of_all_draws(probability: int) -> None:
    known = views(profile("a", {"probability": probability, "labels": {"z": "1"}}))
    hits = sum("z" in mutated(pod(container()), known, draw=draw)["metadata"]["labels"] for draw in range(1, 101))
    assert hits == probability


@pytest.mark.parametrize("seal", ["", "x", "0" * 24, "é"])
def test_the_mark_of_a_user_counts_for_nothing(seal: str) -> None:
    known = views(profile("a", {**BATCH, "probability": 50}))
    plain = pod(container(requests=FULL))
    forged = copy.deepcopy(plain)
    content = {"profiles": ["a"], "draw": 100, "labels": {"app": [None, "x"]}, "seal": seal}
    forged["metadata"]["annotations"] = {names.ANNOTATION_PROFILES: json.dumps(content)}
    assert mutated(forged, known, draw=7) == mutated(plain, known, draw=7)
    answer = ask("/mutate-pod", forged, known, draw=7)
    assert answer.problems[0].field == f"metadata.annotations[{names.ANNOTATION_PROFILES}]"
    assert answer.counts["foreign marks"] == 1


def test_a_mark_is_of_its_namespace_and_of_any_known_key() -> None:
    known = views(profile("a", {"labelSuffixes": {"q": "-b"}}))
    marked = mutated(pod(container(), labels={"q": "t"}), known)
    assert mutated(marked, views(*known.profiles, seal=Seal([b"new", b"key"])))["metadata"]["labels"] == {"q": "t-b"}
    assert mutated(marked, known, namespace="other")["metadata"]["labels"] == {"q": "t-b-b"}
    assert mutated(marked, views(*known.profiles, seal=Seal([b"new"])))["metadata"]["labels"] == {"q": "t-b-b"}


def test_a_label_that_is_written_after_profiles_is_what_it_is() -> None:
    known = views(profile("a", {"labelSuffixes": {"q": "-b"}}))
    marked = mutated(pod(container(), labels={"q": "t"}), known)
    marked["metadata"]["labels"]["q"] = "other"
    assert mutated(marked, known)["metadata"]["labels"]["q"] == "other-b"


def test_sidecars_that_come_later_are_converted() -> None:
    known = views(profile("a", BATCH))
    first = mutated(pod(container(requests=FULL)), known)
    first["spec"]["containers"].append(container("sidecar", {"cpu": "100m", "memory": "64Mi"}, {"cpu": "200m"}))
    second = mutated(first, known)
    assert resources(second) == {"requests": LENT}
    assert resources(second, 1) == {
        "requests": {"kubernetes.io/batch-cpu": "100", "kubernetes.io/batch-memory": "64Mi"},
        "limits": {"kubernetes.io/batch-cpu": "200"},
    }
    spec = json.loads(second["metadata"]["annotations"][names.ANNOTATION_EXTENDED_RESOURCE_SPEC])
    assert spec["containers"].keys() == {"main", "sidecar"}
    assert mutated(second, known) == second


def test_defaults_that_a_limit_range_puts_back_are_taken_off() -> None:
    known = views(profile("a", BATCH))
    first = mutated(pod(container(requests=FULL, limits=FULL)), known)
    with_defaults = copy.deepcopy(first)
    resources(with_defaults)["requests"].update(cpu="250m", memory="128Mi")
    resources(with_defaults)["limits"].update(cpu="500m", memory="256Mi")
    assert mutated(with_defaults, known) == first
    assert ask("/mutate-pod", with_defaults, known).counts["defaults taken off"] == 4


def test_amounts_of_the_pod_itself_stay_native_and_are_told() -> None:
    known = views(profile("a", BATCH))
    item = pod(container(requests=FULL), resources={"limits": {"cpu": "2"}})
    assert mutated(item, known)["spec"]["resources"] == {"limits": {"cpu": "2"}}
    assert "spec.resources" in ask("/mutate-pod", item, known).warnings[0]


def test_overhead_stays_what_its_runtime_class_says() -> None:
    item = pod(container(requests=FULL), overhead={"cpu": "250m"})
    assert mutated(item, views(profile("a", BATCH)))["spec"]["overhead"] == {"cpu": "250m"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"probability": 101}, "spec.probability"),
        ({"probability": "NaN%"}, "spec.probability"),
        ({"probability": -1}, "spec.probability"),
        ({"selector": {"matchLabels": {"a b": "x"}}}, "spec.selector.matchLabels"),
        ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "operator"),
        ({"koordinatorPriority": 2**40}, "spec.koordinatorPriority"),
        ({"labels": ["a"]}, "spec"),
        ({"qosClass": "GOLD"}, "spec"),
    ],
)
def test_a_profile_that_cannot_be_used_says_why(spec: dict[str, Any], field: str) -> None:
    problem = read_profile("a", {}, spec)
    assert isinstance(problem, Problem)
    assert field in problem.field


def test_what_cannot_be_applied_is_refused_by_name() -> None:
    absent = ask("/mutate-pod", pod(container()), views(profile("a", {"priorityClassName": "nope"})))
    assert rules_of(absent) == ["noPriorityClass"]
    assert absent.patch == ()
    broken = profile("a", {"patch": {"spec": {"containers": [{"image": "x"}]}}})
    assert rules_of(ask("/mutate-pod", pod(container()), views(broken))) == ["badPatch"]


def test_a_reservation_reserves_what_its_pod_will_ask_for() -> None:
    known = views(
        profile("a", {**BATCH, "selector": {"matchLabels": {"app": "x"}}, "schedulerName": "berth-scheduler"}),
        profile("b", {"namespaceSelector": {"matchLabels": {"team": "a"}}, "labels": {"b": "1"}}),
    )
    item = {
        "metadata": {"name": "r", "labels": {"app": "x"}},
        "spec": {"template": {"spec": {"containers": [container(requests=FULL)]}}},
    }
    gates = DEFAULT | {RESERVATION_MUTATING}
    stored = mutated(item, known, "/mutate-reservation", gates=gates, namespace="")
    template = stored["spec"]["template"]["spec"]
    assert stored["metadata"]["labels"] == {"app": "x", names.LABEL_QOS: "BE"}
    assert (template["schedulerName"], template["priority"]) == ("berth-scheduler", 5000)
    assert template["containers"][0]["resources"] == {"requests": LENT}
    assert mutated(stored, known, "/mutate-reservation", gates=gates, namespace="") == stored
    assert ask("/mutate-reservation", item, known).patch == ()


KEYS = st.sampled_from(["a", "b", "c", "koordinator.sh/priority-class"])
VALUES = st.sampled_from(["", "1", "2", "koord-mid", "koord-batch"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "kubernetes.io/batch-cpu", "example.com/card"]),
    st.sampled_from(["0", "1", "100m", "1500m", "3", "1Gi", "1e3", "2500000"]),
    max_size=3,
)
CONTAINERS = st.lists(st.builds(lambda r, lim: (r, lim), AMOUNTS, AMOUNTS), min_size=1, max_size=3)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "selector": st.builds(lambda labels: {"matchLabels": labels}, LABELS),
        "probability": st.sampled_from([0, 50, "100%"]),
        "qosClass": st.sampled_from(["BE", "LS"]),
        "priorityClassName": st.sampled_from(["koord-batch", "koord-mid", "koord-prod"]),
        "koordinatorPriority": st.integers(-5, 5),
        "labels": LABELS,
        "annotations": LABELS,
        "labelKeysMapping": st.dictionaries(KEYS, KEYS, max_size=2),
        "annotationKeysMapping": st.dictionaries(KEYS, KEYS, max_size=2),
        "labelSuffixes": st.dictionaries(KEYS, VALUES, max_size=2),
        "patch": st.sampled_from(
            [
                {"spec": {"terminationGracePeriodSeconds": 30}},
                {"metadata": {"labels": {"a": None}}},
                {"spec": {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "2"}}}]}},
            ]
        ),
    },
)


@given(st.lists(SPECS, max_size=3), LABELS, LABELS, CONTAINERS, st.integers(1, 100), st.integers(1, 100))
def test_a_review_of_what_was_reviewed_changes_nothing(
    specs: list[dict[str, Any]],
    labels: dict[str, str],
    annotations: dict[str, str],
    containers: list[Any],
    draw: int,
    later: int,
) -> None:
    known = views(*(profile(f"p{place}", spec) for place, spec in enumerate(specs)))
    item = pod(*(container(f"c{place}", *each) for place, each in enumerate(containers)), labels=labels)
    item["metadata"]["annotations"] = annotations
    first = mutated(item, known, draw=draw)
    again = ask("/mutate-pod", first, known, draw=later)
    assert again.patch == ()
    assert not again.problems


@given(st.sampled_from(["koord-batch", "koord-mid"]), CONTAINERS, st.integers(1, 2))
def test_what_is_converted_is_what_was_asked_for(name: str, containers: list[Any], calls: int) -> None:
    lent = {"koord-batch": "batch", "koord-mid": "mid"}[name]
    known = views(profile("a", {"priorityClassName": name}))
    item = pod(*(container(f"c{place}", *each) for place, each in enumerate(containers)))
    stored = item
    for _ in range(calls):
        stored = mutated(stored, known)
    for before, after in zip(item["spec"]["containers"], stored["spec"]["containers"], strict=True):
        for part in ("requests", "limits"):
            asked, given_to = (each["resources"].get(part, {}) for each in (before, after))
            assert not {"cpu", "memory"} & given_to.keys()
            if "cpu" in asked:
                assert parse_units(given_to[f"kubernetes.io/{lent}-cpu"]) == parse_milli(asked["cpu"])
            if "memory" in asked:
                assert parse_units(given_to[f"kubernetes.io/{lent}-memory"]) == parse_units(asked["memory"])
            assert given_to.get("example.com/card") == asked.get("example.com/card")
