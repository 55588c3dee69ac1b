"""Affinity to other pods and spread among them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.services.worlds.watcher.pod_items import PREFERRED, REQUIRED, fields, pod, read

from berth.contracts.kube import Affinity

TERM = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "namespaces": ["other"],
    "namespaceSelector": {},
    "matchLabelKeys": ["hash"],
    "mismatchLabelKeys": ["tenant"],
}
LABELS = "labelSelector.matchExpressions"


def test_affinity_to_other_pods_is_carried() -> None:
    affinity = {
        "podAffinity": {REQUIRED: [TERM, {"topologyKey": "kubernetes.io/hostname"}]},
        "podAntiAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": TERM}]},
    }
    seen = read(pod({"affinity": affinity}))
    assert (fields(seen), seen.template.constraints) == ([], [])
    assert json.loads(msgspec.json.encode(seen.template.affinity)) == affinity


@pytest.mark.parametrize(
    "affinity", [{"podAffinity": {}}, {"podAntiAffinity": {REQUIRED: [], PREFERRED: None}}, {"podAffinity": {"x": 1}}]
)
def test_affinity_without_terms_is_none(affinity: dict[str, Any]) -> None:
    seen = read(pod({"affinity": affinity}))
    assert (fields(seen), seen.template.affinity) == ([], Affinity())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"topologyKey": ""}, "topologyKey"),
        ({"topologyKey": "no key"}, "topologyKey"),
        ({"topologyKey": None}, "topologyKey"),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, LABELS + "[0].operator"),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, LABELS + "[0].values"),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
            LABELS + "[0].operator",
        ),
        ({"labelSelector": {"matchLabels": {f"k{i}": "v" for i in range(300)}}}, "labelSelector"),
        ({"namespaceSelector": {"matchLabels": {"a b": "v"}}}, "namespaceSelector.matchLabels"),
        ({"namespaces": ["n"] * 1025}, "namespaces"),
        ({"namespaces": [""]}, "namespaces"),
        ({"matchLabelKeys": ["a b"]}, "matchLabelKeys"),
        ({"mismatchLabelKeys": ["a"] * 65}, "mismatchLabelKeys"),
    ],
)
def test_a_term_that_cannot_be_honoured_is_named(change: dict[str, Any], field: str) -> None:
    seen = read(
        pod(
            {
                "affinity": {
                    "podAffinity": {REQUIRED: [TERM, TERM | change]},
                    "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM | change}]},
                }
            }
        )
    )
    assert fields(seen) == [
        f"spec.affinity.podAffinity.{REQUIRED}[1].{field}",
        f"spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.{field}",
    ]
    affinity = seen.template.affinity
    assert affinity is not None
    assert affinity.pod_affinity is not None
    assert len(affinity.pod_affinity.required_during_scheduling_ignored_during_execution or ()) == 1
    assert affinity.pod_anti_affinity is None


@pytest.mark.parametrize("weight", [0, 101, -1, None])
def test_a_weight_out_of_bounds(weight: int | None) -> None:
    term = {"podAffinityTerm": TERM} | ({} if weight is None else {"weight": weight})
    seen = read(pod({"affinity": {"podAffinity": {PREFERRED: [term]}}}))
    assert fields(seen) == [f"spec.affinity.podAffinity.{PREFERRED}[0].weight"]


def test_too_many_terms_are_left_out() -> None:
    seen = read(pod({"affinity": {"podAffinity": {REQUIRED: [TERM] * 257}}}))
    assert (fields(seen), seen.template.affinity) == ([f"spec.affinity.podAffinity.{REQUIRED}"], Affinity())


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "minDomains": 3,
    "nodeAffinityPolicy": "Ignore",
    "nodeTaintsPolicy": "Honor",
    "matchLabelKeys": ["hash"],
}


def test_topology_spread_is_carried() -> None:
    soft = {"maxSkew": 5, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    seen = read(pod({"topologySpreadConstraints": [SPREAD, soft]}))
    assert (fields(seen), seen.template.constraints) == ([], [])
    assert json.loads(msgspec.json.encode(seen.template.topology_spread)) == [SPREAD, soft]
    assert read(pod({"topologySpreadConstraints": []})).template.topology_spread == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"maxSkew": 0}, "maxSkew"),
        ({"maxSkew": -1}, "maxSkew"),
        ({"maxSkew": 1 << 40}, "maxSkew"),
        ({"topologyKey": ""}, "topologyKey"),
        ({"topologyKey": "a b"}, "topologyKey"),
        ({"whenUnsatisfiable": "Perhaps", "minDomains": None}, "whenUnsatisfiable"),
        ({"whenUnsatisfiable": None, "minDomains": None}, "whenUnsatisfiable"),
        ({"whenUnsatisfiable": "ScheduleAnyway"}, "minDomains"),
        ({"minDomains": 0}, "minDomains"),
        ({"nodeAffinityPolicy": "Never"}, "nodeAffinityPolicy"),
        ({"nodeTaintsPolicy": "Never"}, "nodeTaintsPolicy"),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, LABELS + "[0].operator"),
        ({"matchLabelKeys": [""]}, "matchLabelKeys"),
    ],
)
def test_a_spread_that_cannot_be_honoured_is_named(change: dict[str, Any], field: str) -> None:
    seen = read(pod({"topologySpreadConstraints": [SPREAD | change, SPREAD]}))
    assert fields(seen) == [f"spec.topologySpreadConstraints[0].{field}"]
    assert len(seen.template.topology_spread) == 1


def test_too_many_spread_constraints_are_left_out() -> None:
    seen = read(pod({"topologySpreadConstraints": [SPREAD] * 65}))
    assert (fields(seen), seen.template.topology_spread) == (["spec.topologySpreadConstraints"], [])
