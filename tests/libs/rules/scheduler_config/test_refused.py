"""What cannot be is named by its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.libs.rules.scheduler_config.written import HEAD, off, on, problems, shape

from berth.rules.scheduler_config import SchedulerConfig, read_scheduler_config
from berth.rules.scheduler_config.plugins import KNOWN


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "document"),
        ("a: [", "document"),
        ("[]", "document"),
        ("a: 1\n---\nb: 2", "document"),
        ("a: &x 1\nb: *x", "document"),
        ("kind: a\nkind: b", "document"),
        ("1: a", "document"),
        ("[" * 5000, "document"),
        ("a: " + "x" * 65_533, "document"),
        ("a: 0x" + "f" * 100, "document"),
        ('a: !!int "1:30"', "document"),
        ('a: !!float "1:30.5"', "document"),
        ("a: !!bool foo", "document"),
        ("a: !!int ''", "document"),
        ("a: !!float ''", "document"),
        ("a: !!timestamp foo", "document"),
        ("a:\n  b: 1\n  b: 2", "document"),
        ("<<: {a: 1}", "document"),
        ("a: !!python/object:os.system x", "document"),
    ],
)
def test_a_text_that_is_none(text: str, field: str) -> None:
    assert list(problems(text)) == [field]


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "apiVersion"),
        ({"kind": "Pod"}, "kind"),
        ({"extenders": [{"urlPrefix": "http://x"}]}, "extenders"),
        ({"parallelism": 0}, "parallelism"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds"),
        ({"podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 4}, "podMaxBackoffSeconds"),
        ({"profiles": [{}, {"schedulerName": "b"}]}, "profiles[0].schedulerName"),
        ({"profiles": [{"schedulerName": "b"}, {"schedulerName": "b"}]}, "profiles[1].schedulerName"),
        ({"profiles": [{"percentageOfNodesToScore": -1}]}, "profiles[0].percentageOfNodesToScore"),
    ],
)
def test_a_bad_value_is_named(document: dict[str, Any], field: str) -> None:
    assert list(problems(document)) == [field]


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({"parallelismm": 1}, "parallelismm"),
        ({"leaderElection": {"leader": True}}, "leader"),
        ({"profiles": [{"scheduler": "a"}]}, "scheduler"),
        ({"profiles": [{"plugins": {"scores": {}}}]}, "scores"),
        ({"profiles": [{"plugins": {"score": {"enable": []}}}]}, "enable"),
        ({"profiles": [{"pluginConfig": [{"name": "NodeAffinity", "arg": {}}]}]}, "arg"),
    ],
)
def test_an_unknown_field_is_named(document: dict[str, Any], word: str) -> None:
    assert f"`{word}`" in " ".join(problems(document).values())


@pytest.mark.parametrize(
    ("plugins", "field", "word"),
    [
        ({"score": on("NodeFit")}, "score.enabled[0].name", "NodeFit"),
        ({"filter": off("SelectorSpread")}, "filter.disabled[0].name", "SelectorSpread"),
        ({"filter": on("*")}, "filter.enabled[0].name", "*"),
        ({"filter": on("ImageLocality")}, "filter.enabled[0].name", "ImageLocality"),
        ({"filter": on("NodeName", "NodeName")}, "filter.enabled[1].name", "NodeName"),
        ({"multiPoint": on("NodeName", "NodeName")}, "multiPoint.enabled", "NodeName"),
        ({"bind": on("LoadAwareScheduling")}, "bind.enabled[0].name", "LoadAwareScheduling has nothing at bind"),
        ({"multiPoint": off("Reservation")}, "multiPoint.disabled[0].name", "Reservation"),
        ({"queueSort": off("PrioritySort")}, "queueSort", "PrioritySort"),
        ({"queueSort": on("Coscheduling")}, "queueSort", "exactly one"),
        ({"preEnqueue": off("SchedulingGates")}, "preEnqueue", "SchedulingGates"),
        ({"multiPoint": off("SchedulingGates")}, "preEnqueue", "SchedulingGates"),
        ({"preFilter": off("NodeResourcesFit")}, "preFilter", "NodeResourcesFit is off here, and its part at filter"),
        ({"preScore": off("TaintToleration")}, "preScore", "TaintToleration is off here, and its part at score"),
        ({"preEnqueue": off("DefaultPreemption")}, "preEnqueue", "its part at postFilter needs it"),
        ({"filter": off("NodeAffinity")}, "filter", "NodeAffinity is off here and on at preFilter"),
        ({"filter": on("VolumeZone"), "multiPoint": off("VolumeZone")}, "preFilter", "on at filter"),
        (
            {"reserve": off("VolumeBinding")},
            "reserve",
            "VolumeBinding is off here and on at preFilter, filter, preBind",
        ),
        ({"preBind": off("*")}, "preBind", "VolumeBinding"),
        ({"permit": on("NodePorts")}, "permit.enabled[0].name", "NodePorts has nothing at permit"),
        ({"postBind": on("DefaultBinder")}, "postBind.enabled[0].name", "nothing at postBind"),
        ({"bind": off("*")}, "bind", "DefaultBinder"),
        ({"score": on(NodeAffinity=-1)}, "score.enabled[0].weight", "negative"),
        ({"score": on(NodeAffinity=2**60)}, "score", "overflows"),
    ],
)
def test_a_plugin_that_cannot_be_is_named(plugins: dict[str, Any], field: str, word: str) -> None:
    found = problems({"profiles": [shape(plugins)]})
    assert list(found) == [f"profiles[0].plugins.{field}"]
    assert word in found[f"profiles[0].plugins.{field}"]


@pytest.mark.parametrize(
    ("plugin", "args", "field"),
    [
        ("NodeResourcesFit", {"scoringStrategy": {"type": "Best"}}, "scoringStrategy.type"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"requestedToCapacityRatio": {"shape": []}}},
            "scoringStrategy.requestedToCapacityRatio.shape",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"requestedToCapacityRatio": {"shape": [{"utilization": 5, "score": 11}]}}},
            "scoringStrategy.requestedToCapacityRatio.shape[0].score",
        ),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 5, "score": 1}, {"utilization": 5, "score": 1}]
                    }
                }
            },
            "scoringStrategy.requestedToCapacityRatio.shape[1].utilization",
        ),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, "ignoredResourceGroups[0]"),
        ("NodeResourcesFit", {"kind": "NodeAffinityArgs"}, "kind"),
        ("NodeResourcesFit", {"apiVersion": "v1"}, "apiVersion"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, "resources[0].weight"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": "cpu"}]}, "resources[1].name"),
        ("NodeAffinity", {"addedAffinity": {"preferred": []}}, "addedAffinity.preferred"),
        (
            "NodeAffinity",
            {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "preference": {}}]}},
            "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
        ),
        (
            "NodeAffinity",
            {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]
                    }
                }
            },
            "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]},
            "defaultConstraints",
        ),
        ("PodTopologySpread", {"defaultingType": "All"}, "defaultingType"),
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, "hardPodAffinityWeight"),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 101}, "minCandidateNodesPercentage"),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "minCandidateNodesAbsolute",
        ),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds"),
        ("VolumeBinding", {"bindTimeoutSeconds": 86_401}, "bindTimeoutSeconds"),
        ("DynamicResources", {"filterTimeout": "5s"}, "filterTimeout"),
        ("VolumeBinding", {"shape": [{"utilization": 0, "score": 0}]}, "shape"),
        ("NodeResourcesFitPlus", {"resources": {"cpu": {"weight": -1}}}, "resources[cpu].weight"),
        ("NodeResourcesFitPlus", {"resources": {"cpu": {"type": "Best"}}}, "resources[...].type"),
        ("NodeResourcesFitPlus", {"resources": {f"r{at}": {} for at in range(257)}}, "resources"),
        ("ScarceResourceAvoidance", {"resources": ["r"] * 257}, "resources"),
        ("ScarceResourceAvoidance", {"resources": [1]}, "resources[0]"),
        ("FragmentationGradientDescent", {"typicalPods": [{"gpuPercent": 0}]}, "typicalPods[0].gpuPercent"),
        ("FragmentationGradientDescent", {"typicalPods": [{}, {"count": 0}]}, "typicalPods[1].count"),
        ("LoadAwareScheduling", {"usageThresholds": {"cpu": 101}}, "usageThresholds[cpu]"),
        ("LoadAwareScheduling", {"resourceWeights": {"example.com/x": 1}}, "estimatedScalingFactors"),
        ("LoadAwareScheduling", {"aggregated": {"usageAggregatedDuration": "5"}}, "aggregated.usageAggregatedDuration"),
        ("LoadAwareScheduling", {"aggregated": {"usageAggregationType": "p42"}}, "aggregated.usageAggregationType"),
        ("LoadAwareScheduling", {"estimator": "other"}, "estimator"),
        ("LoadAwareScheduling", {"apiVersion": "v1"}, "apiVersion"),
        ("Berth", {"decides": "nobody"}, "decides"),
    ],
)
def test_an_argument_that_cannot_be_is_named(plugin: str, args: dict[str, Any], field: str) -> None:
    assert list(problems({"profiles": [shape(**{plugin: args})]})) == [f"profiles[0].pluginConfig[0].args.{field}"]


def test_default_constraints_are_checked() -> None:
    bad = {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "", "labelSelector": {}}
    args = {"defaultingType": "List", "defaultConstraints": json.loads(json.dumps([bad, bad]))}
    found = problems({"profiles": [shape(PodTopologySpread=args)]})
    place = "profiles[0].pluginConfig[0].args.defaultConstraints"
    names = ("maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector")
    assert set(found) == {f"{place}[{at}].{name}" for at in (0, 1) for name in names} | {f"{place}[1]"}


def test_default_constraints_are_checked_as_those_of_pods() -> None:
    bad = {"maxSkew": 1, "topologyKey": "a b", "whenUnsatisfiable": "DoNotSchedule", "minDomains": -1}
    args = {"defaultingType": "List", "defaultConstraints": [{**bad, "nodeTaintsPolicy": "Foo"}]}
    place = "profiles[0].pluginConfig[0].args.defaultConstraints[0]"
    found = problems({"profiles": [shape(PodTopologySpread=args)]})
    assert set(found) == {f"{place}.{name}" for name in ("topologyKey", "minDomains", "nodeTaintsPolicy")}


@pytest.mark.parametrize(
    ("plugin", "args", "field"),
    [
        ("NodeName", {"a": 1}, "name"),
        ("SelectorSpread", {"a": 1}, "name"),
        ("Coscheduling", {"defaultTimeout": "1s"}, ""),
    ],
)
def test_arguments_that_nobody_reads(plugin: str, args: dict[str, Any], field: str) -> None:
    (found,) = problems({"profiles": [shape(**{plugin: args})]})
    assert found == "profiles[0].pluginConfig[0]" + (f".{field}" if field else "")


def test_a_plugin_configured_twice() -> None:
    two = {"schedulerName": "s", "pluginConfig": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}
    assert list(problems({"profiles": [two]})) == ["profiles[0].pluginConfig[1].name"]


def test_all_that_is_wrong_is_told() -> None:
    found = problems({"parallelism": 0, "profiles": [shape({"score": on("X")}, Berth={"decides": "x"})]})
    assert len(found) == 3


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
fields = st.sampled_from(["profiles", "extenders", "leaderElection", "parallelism", "podMaxBackoffSeconds"])


@given(st.dictionaries(st.one_of(fields, st.text(max_size=5)), plain, max_size=3))
def test_nothing_raises(document: dict[str, Any]) -> None:
    found = read_scheduler_config(json.dumps({**HEAD, **document}))
    assert isinstance(found, SchedulerConfig) or all(problem.field and problem.message for problem in found)


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    assert not isinstance(read_scheduler_config(text), SchedulerConfig)


@given(st.sampled_from(sorted(KNOWN)), st.text(max_size=4), plain)
def test_no_argument_raises(plugin: str, name: str, value: Any) -> None:
    document = {**HEAD, "profiles": [shape(**{plugin: {name: value}})]}
    read_scheduler_config(json.dumps(document))
