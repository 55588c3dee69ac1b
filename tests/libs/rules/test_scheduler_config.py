"""KubeSchedulerConfiguration: what is read, how defaults are merged, what is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.scheduler_config import (
    DEFAULT,
    BerthArgs,
    DeviceShareArgs,
    FitArgs,
    FitPlusArgs,
    InterPodAffinityArgs,
    LoadAwareArgs,
    NodeAffinityArgs,
    NodeCostArgs,
    NumaArgs,
    PlusResource,
    PodTopologySpreadArgs,
    PreemptionArgs,
    Profile,
    Resource,
    ScarceArgs,
    SchedulerConfig,
    VolumeBindingArgs,
    read_scheduler_config,
)
from berth.rules.scheduler_config.plugins import DEFAULTS, KNOWN, POINTS, TOGETHER

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
FILTERS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
)


def config(**fields: Any) -> SchedulerConfig:
    found = read_scheduler_config(yaml.safe_dump({**HEAD, **fields}))
    assert isinstance(found, SchedulerConfig), found
    return found


def profile(plugins: dict[str, Any] | None = None, **args: dict[str, Any]) -> Profile:
    found = config(profiles=[shape(plugins, **args)])
    return found.profiles["s"]


def shape(plugins: dict[str, Any] | None = None, **args: dict[str, Any]) -> dict[str, Any]:
    return {
        "schedulerName": "s",
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": each} for name, each in args.items()],
    }


def problems(text: str | dict[str, Any]) -> dict[str, str]:
    found = read_scheduler_config(text if isinstance(text, str) else yaml.safe_dump({**HEAD, **text}))
    assert not isinstance(found, SchedulerConfig)
    assert found
    return {problem.field: problem.message for problem in found}


def on(*names: str, **weights: int) -> dict[str, Any]:
    return {"enabled": [{"name": name} for name in names] + [{"name": n, "weight": w} for n, w in weights.items()]}


def off(*names: str) -> dict[str, Any]:
    return {"disabled": [{"name": name} for name in names]}


def test_the_defaults_are_kube_schedulers() -> None:
    assert DEFAULT.constraints == FILTERS
    assert DEFAULT.weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert DEFAULT.decides == "native"
    assert DEFAULT.scheduler_name == "berth-scheduler"
    assert DEFAULT.points["postFilter"] == ("DynamicResources", "DefaultPreemption")


def test_a_text_without_profiles_has_the_default_one() -> None:
    found = config()
    assert list(found.profiles) == ["default-scheduler"]
    assert found.profiles["default-scheduler"] == DEFAULT._replace(scheduler_name="default-scheduler")
    assert (found.initial_back_off_s, found.max_back_off_s) == (1, 10)


def test_what_is_kube_schedulers_own_is_accepted() -> None:
    found = config(
        parallelism=16,
        leaderElection={"leaderElect": False, "leaseDuration": "15s", "resourceName": "x"},
        clientConnection={"kubeconfig": "/etc/k", "qps": 50, "burst": 100},
        enableProfiling=True,
        enableContentionProfiling=False,
        delayCacheUntilActive=True,
        percentageOfNodesToScore=30,
        podInitialBackoffSeconds=2,
        podMaxBackoffSeconds=20,
        extenders=[],
        profiles=[{"schedulerName": "a", "percentageOfNodesToScore": 100}, {"schedulerName": "b"}],
    )
    assert list(found.profiles) == ["a", "b"]
    assert (found.initial_back_off_s, found.max_back_off_s) == (2, 20)


def test_json_is_read_as_well() -> None:
    found = read_scheduler_config(json.dumps(HEAD))
    assert isinstance(found, SchedulerConfig)


# --- merging ---------------------------------------------------------------------------------------------------------


def test_a_weight_given_at_multi_point_replaces_the_default_in_place() -> None:
    found = profile({"multiPoint": on(NodeResourcesFit=7)})
    assert found.points == DEFAULT.points
    assert found.weights == {**DEFAULT.weights, "NodeResourcesFit": 7}


def test_a_weight_of_the_point_goes_before_that_of_multi_point() -> None:
    found = profile({"multiPoint": on(ImageLocality=7), "score": on(ImageLocality=5)})
    assert found.weights["ImageLocality"] == 5


def test_what_a_point_names_comes_first() -> None:
    found = profile({"score": on("ImageLocality", "NodeAffinity"), "filter": on("NodePorts")})
    assert found.points["score"][:3] == ("ImageLocality", "NodeAffinity", "TaintToleration")
    assert found.points["filter"] == ("NodePorts", *(name for name in FILTERS if name != "NodePorts"))
    assert found.weights["NodeAffinity"] == 1, "a point that names no weight means 1, not the default"


def test_a_point_without_a_plugin() -> None:
    found = profile({"score": off("TaintToleration"), "filter": off("NodePorts", "NodeName")})
    assert "TaintToleration" not in found.weights
    assert "TaintToleration" in found.constraints
    assert found.constraints == tuple(name for name in FILTERS if name not in ("NodePorts", "NodeName"))


def test_a_point_with_only_what_it_names() -> None:
    found = profile({"score": on(NodeResourcesFit=4) | off("*")})
    assert found.weights == {"NodeResourcesFit": 4}
    assert found.points["filter"] == FILTERS


def test_multi_point_without_a_plugin() -> None:
    found = profile({"multiPoint": off("InterPodAffinity")})
    assert all("InterPodAffinity" not in plugins for plugins in found.points.values())


def test_multi_point_with_only_what_it_names() -> None:
    found = profile(
        {"multiPoint": on("DefaultBinder", "NodeResourcesFit", "PrioritySort", "SchedulingGates") | off("*")}
    )
    assert found.constraints == ("NodeResourcesFit",)
    assert found.weights == {"NodeResourcesFit": 1}
    assert found.points["postFilter"] == ()


def test_disabled_everywhere_and_enabled_at_a_point() -> None:
    found = profile({"multiPoint": off("NodeAffinity"), "filter": on("NodeAffinity"), "preFilter": on("NodeAffinity")})
    assert found.constraints == (*(name for name in FILTERS if name != "NodeAffinity"), "NodeAffinity")
    assert "NodeAffinity" not in found.weights


def test_plugins_of_koordinator_that_berth_has() -> None:
    names = ["Coscheduling", "Reservation", "ElasticQuota"]
    found = profile({"multiPoint": on(*names), "score": on(Reservation=5000)})
    assert found.points == DEFAULT.points
    assert found.weights == DEFAULT.weights


@pytest.mark.parametrize("name", ["NodeNUMAResource", "DeviceShare"])
def test_a_plugin_that_is_always_on_may_rate_as_well(name: str) -> None:
    found = profile({"multiPoint": on(name), "score": on(**{name: 3})})
    assert found.weights == {**DEFAULT.weights, name: 3}
    found = profile({"multiPoint": on(name), "score": off(name)})
    assert found.weights == DEFAULT.weights
    plugins = {"filter": off(name), "score": on(name)}
    assert list(problems({"profiles": [shape(plugins)]})) == ["profiles[0].plugins.filter.disabled[0].name"]


def test_arguments_of_node_numa_resource() -> None:
    rates = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 7}, {"name": "memory"}]}
    given = {
        "defaultCPUBindPolicy": "SpreadByPCPUs",
        "numaScoringStrategy": rates,
        "scoringStrategy": {"resources": []},
    }
    args = profile(NodeNUMAResource=given).args_of("NodeNUMAResource", NumaArgs)
    assert args.default_cpu_bind_policy == "SpreadByPCPUs"
    assert (args.numa_scoring_strategy.type, args.numa_scoring_strategy.weights) == (
        "MostAllocated",
        {"cpu": 7, "memory": 1},
    )
    assert (args.scoring_strategy.type, args.scoring_strategy.weights) == ("LeastAllocated", {"cpu": 1, "memory": 1})
    for bad, field in (
        ({"defaultCPUBindPolicy": "None"}, "defaultCPUBindPolicy"),
        ({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "scoringStrategy.type"),
        (
            {"numaScoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "numaScoringStrategy.resources[0].weight",
        ),
        ({"amplifiedCPU": True}, ""),
    ):
        (place,) = problems({"profiles": [shape(NodeNUMAResource=bad)]})
        assert place == "profiles[0].pluginConfig[0].args" + (f".{field}" if field else "")


def test_arguments_of_device_share() -> None:
    """The reference's own example, and what is wrong with others."""
    weighed = {f"koordinator.sh/{name}": 1 for name in ("gpu-memory-ratio", "gpu-memory", "rdma", "fpga")}
    strategy = {"type": "LeastAllocated", "resources": [{"name": name, "weight": 1} for name in weighed]}
    place = {"configMapNamespace": "koordinator-system", "configMapName": "gpu-shared-resource-templates"}
    given = {
        "scoringStrategy": strategy,
        "disableDeviceNUMATopologyAlignment": False,
        "gpuSharedResourceTemplatesConfig": {**place, "matchedResources": ["huawei.com/npu-core"]},
        "gpuShareUnsupportedModels": [{"vendor": "huawei", "model": "Ascend-910A"}],
    }
    args = profile(DeviceShare=given).args_of("DeviceShare", DeviceShareArgs)
    assert args.scoring_strategy is not None
    assert (args.scoring_strategy.type, args.scoring_strategy.weights) == ("LeastAllocated", weighed)
    assert args.templates == DeviceShareArgs().templates
    assert profile(DeviceShare={}).args_of("DeviceShare", DeviceShareArgs).scoring_strategy is None
    for bad, field in (
        ({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "scoringStrategy.type"),
        (
            {"scoringStrategy": {"resources": [{"name": "koordinator.sh/rdma", "weight": 0}]}},
            "scoringStrategy.resources[0].weight",
        ),
        ({"scoringStrategy": {"resources": [{"name": "cpu"}]}}, "scoringStrategy.resources[0].name"),
        ({"gpuShareUnsupportedModels": [{"model": "A"}]}, "gpuShareUnsupportedModels[0]"),
        ({"gpuSharedResourceTemplatesConfig": {"configMapName": ""}}, "gpuSharedResourceTemplatesConfig"),
        ({"disableDeviceNUMATopologyAlignment": "yes"}, "disableDeviceNUMATopologyAlignment"),
    ):
        (found,) = problems({"profiles": [shape(DeviceShare=bad)]})
        assert found == f"profiles[0].pluginConfig[0].args.{field}"


def test_arguments_have_their_defaults() -> None:
    assert DEFAULT.args_of("NodeResourcesFit", FitArgs).scoring_strategy.type == "LeastAllocated"
    assert DEFAULT.args_of("VolumeBinding", VolumeBindingArgs).bind_timeout_seconds is None
    assert DEFAULT.args_of("InterPodAffinity", InterPodAffinityArgs).hard_pod_affinity_weight == 1
    assert DEFAULT.args_of("PodTopologySpread", PodTopologySpreadArgs).defaulting_type == "System"
    preemption = DEFAULT.args_of("DefaultPreemption", PreemptionArgs)
    assert (preemption.min_candidate_nodes_percentage, preemption.min_candidate_nodes_absolute) == (10, 100)


def test_arguments_of_every_plugin() -> None:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
    found = profile(
        None,
        NodeResourcesFit={
            "apiVersion": HEAD["apiVersion"],
            "kind": "NodeResourcesFitArgs",
            "ignoredResources": ["example.com/a"],
            "ignoredResourceGroups": ["example.org"],
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}],
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                },
            },
        },
        NodeResourcesBalancedAllocation={"resources": [{"name": "cpu", "weight": 1}]},
        NodeAffinity={
            "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        },
        PodTopologySpread={
            "defaultingType": "List",
            "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        },
        InterPodAffinity={"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True},
        DefaultPreemption={"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 7},
        VolumeBinding={"bindTimeoutSeconds": 5},
        DynamicResources={"filterTimeout": "10s"},
        Berth={"decides": "kube-scheduler"},
    )
    fit = found.args_of("NodeResourcesFit", FitArgs)
    assert fit.scoring_strategy.resources == (Resource(name="cpu", weight=3), Resource(name="memory"))
    assert fit.ignored_resource_groups == ("example.org",)
    assert found.args_of("NodeAffinity", NodeAffinityArgs).added_affinity is not None
    assert found.args_of("Berth", BerthArgs).decides == found.decides == "kube-scheduler"
    assert found.args_of("DefaultPreemption", PreemptionArgs).min_candidate_nodes_absolute == 7


@pytest.mark.parametrize(
    ("plugins", "points"),
    [
        ({"multiPoint": off("VolumeBinding")}, {"preFilter", "filter", "reserve", "preBind", "preScore", "score"}),
        ({"multiPoint": off("DefaultPreemption")}, {"preEnqueue", "postFilter"}),
        ({"postFilter": off("DefaultPreemption")}, {"postFilter"}),
        ({"filter": off("NodePorts")}, {"filter"}),
        ({"score": off("InterPodAffinity")}, {"score"}),
        ({"preBind": off("DynamicResources")}, {"preBind"}),
    ],
)
def test_a_plugin_that_may_be_off_there(plugins: dict[str, Any], points: set[str]) -> None:
    (name,) = {each["name"] for those in plugins.values() for each in those["disabled"]}
    found = profile(plugins)
    assert {point for point in POINTS if name in DEFAULT.points[point] and name not in found.points[point]} == points


def test_koordinators_order_of_the_queue_is_berths() -> None:
    found = profile({"queueSort": on("Coscheduling") | off("*")})
    assert found.points["queueSort"] == ("Coscheduling",)


def test_numbers_are_those_of_kube_schedulers_parser() -> None:
    """Base 60, and dates, are of an older YAML: there they are texts."""
    head = f"apiVersion: {HEAD['apiVersion']}\nkind: {HEAD['kind']}\n"
    for text in ("1:30", "2020-01-01", "1:30.5", "59:" * 20_000 + "59"):
        found = read_scheduler_config(f"{head}profiles: [{{schedulerName: {text[:200]}}}]")
        assert isinstance(found, SchedulerConfig), found
        assert list(found.profiles) == [text[:200]]
        assert "1:30" not in problems(f"{head}parallelism: {text}")["parallelism"]
    assert isinstance(read_scheduler_config(f"{head}parallelism: 1_6\nclientConnection: {{qps: 5e1}}"), SchedulerConfig)


def test_null_and_empty_mean_the_default() -> None:
    found = profile(None, NodeResourcesFit={"scoringStrategy": {"type": "MostAllocated", "resources": []}})
    assert (
        found.args_of("NodeResourcesFit", FitArgs).scoring_strategy.resources
        == DEFAULT.args_of("NodeResourcesFit", FitArgs).scoring_strategy.resources
    )
    assert profile(None, VolumeBinding={"bindTimeoutSeconds": None}) == profile()


# --- refused by name -------------------------------------------------------------------------------------------------


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


def test_plugins_that_no_default_has() -> None:
    plus = {"resources": {"nvidia.com/gpu": {"type": "MostAllocated", "weight": 2}, "cpu": {"weight": 0}}}
    scarce = {"resources": ["nvidia.com/gpu"]}
    found = profile(
        {"multiPoint": on(NodeResourcesFitPlus=2), "score": on("ScarceResourceAvoidance")},
        NodeResourcesFitPlus=plus,
        ScarceResourceAvoidance=scarce,
    )
    assert found.weights == {**DEFAULT.weights, "NodeResourcesFitPlus": 2, "ScarceResourceAvoidance": 1}
    assert found.args_of("NodeResourcesFitPlus", FitPlusArgs).resources == {
        "nvidia.com/gpu": PlusResource(type="MostAllocated", weight=2),
        "cpu": PlusResource(),
    }
    assert found.args_of("ScarceResourceAvoidance", ScarceArgs).resources == ("nvidia.com/gpu",)
    assert not {"NodeResourcesFitPlus", "ScarceResourceAvoidance"} & set(DEFAULT.weights)
    assert profile({"multiPoint": off("NodeResourcesFitPlus")}).weights == DEFAULT.weights


EVERY_LOAD_AWARE_OPTION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "LoadAwareSchedulingArgs",
    "filterExpiredNodeMetrics": False,
    "enableScheduleWhenNodeMetricsExpired": True,
    "nodeMetricExpirationSeconds": 300,
    "usageThresholds": {"cpu": 80},
    "prodUsageThresholds": {"cpu": 55},
    "prodUsageIncludeSys": True,
    "scoreAccordingProdUsage": True,
    "aggregated": {
        "usageThresholds": {"cpu": 70},
        "usageAggregationType": "p95",
        "usageAggregatedDuration": "5m0s",
        "scoreAggregationType": "p99",
        "scoreAggregatedDuration": "10m0s",
    },
    "resourceWeights": {"cpu": 1, "memory": 1},
    "dominantResourceWeight": 1,
    "estimator": "defaultEstimator",
    "estimatedScalingFactors": {"cpu": 80},
    "estimatedSecondsAfterPodScheduled": 60,
    "estimatedSecondsAfterInitialized": 30,
    "allowCustomizeEstimation": True,
    "supportedResources": ["nvidia.com/gpu"],
}


def test_load_aware_scheduling_is_off_until_a_profile_lists_it() -> None:
    name = "LoadAwareScheduling"
    assert name not in DEFAULT.constraints
    assert name not in DEFAULT.weights
    only_args = profile({}, LoadAwareScheduling=EVERY_LOAD_AWARE_OPTION)
    assert name not in only_args.constraints
    points = {point: on(name) for point in ("preFilter", "filter", "score", "reserve")}
    found = profile(points, LoadAwareScheduling=EVERY_LOAD_AWARE_OPTION)
    assert name in found.constraints
    assert found.weights[name] == 1
    args = found.args_of(name, LoadAwareArgs)
    assert args.usage_thresholds == {"cpu": 80}
    assert args.estimated_scaling_factors == {"cpu": 80, "memory": 70}
    assert args.aggregated.score_aggregated_duration == "10m0s"


def test_defaults_of_load_aware_scheduling_depend_on_what_is_said() -> None:
    for found in (profile({"filter": on("LoadAwareScheduling")}), DEFAULT):
        args = found.args_of("LoadAwareScheduling", LoadAwareArgs)
        assert args.usage_thresholds == {"cpu": 65, "memory": 95}
        assert args.resource_weights == {"cpu": 1, "memory": 1}


@pytest.mark.parametrize(
    ("args", "word"),
    [({"usageThreshold": {}}, "usageThreshold"), ({"aggregated": {"usageType": "p95"}}, "usageType")],
)
def test_an_unknown_option_of_load_aware_scheduling_is_named(args: dict[str, Any], word: str) -> None:
    assert f"`{word}`" in " ".join(problems({"profiles": [shape(LoadAwareScheduling=args)]}).values())


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


# --- laws ------------------------------------------------------------------------------------------------------------

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


names = [plugin.name for plugin in DEFAULTS]
subsets = st.lists(st.sampled_from(names), unique=True)


@given(subsets, subsets)
def test_merging_keeps_each_plugin_at_the_points_it_has(multi_off: list[str], point_off: list[str]) -> None:
    """Nothing runs twice at a point, nothing where it has nothing, and what is off is off; PrioritySort and
    DefaultBinder stay."""
    multi = [name for name in multi_off if name not in ("PrioritySort", "DefaultBinder", "SchedulingGates")]
    point_off = [name for name in point_off if name not in TOGETHER]
    found = profile({"multiPoint": off(*multi), "filter": off(*point_off)})
    for point in POINTS:
        gone = set(multi) | (set(point_off) if point == "filter" else set())
        expected = [plugin.name for plugin in DEFAULTS if point in plugin.points and plugin.name not in gone]
        assert list(found.points[point]) == expected
    assert list(found.weights) == list(found.points["score"])


def test_weights_of_the_node_cost() -> None:
    weights = {"filling": {"gpusLeft": -1.5, "coresShort": [1, 2, 3, 4]}, "turningOver": {"stranded": 60}, "scarce": 8}
    cost = profile(Berth={"nodeCost": weights}).args_of("Berth", BerthArgs).node_cost
    assert (cost.filling.gpus_left, cost.filling.cores_short) == (-1.5, (1.0, 2.0, 3.0, 4.0))
    assert (cost.turning_over.stranded, cost.turning_over.gpus_left, cost.scarce) == (60.0, None, 8.0)
    assert profile().args_of("Berth", BerthArgs).node_cost == NodeCostArgs()


@pytest.mark.parametrize(
    ("weights", "field"),
    [
        ({"filling": {"stranded": 1}}, "filling"),
        ({"filling": {"gpusLeft": 501}}, "filling.gpusLeft"),
        ({"turningOver": {"gpusLeft": float("nan")}}, "turningOver.gpusLeft"),
        ({"turningOver": {"step": 0}}, "turningOver.step"),
        ({"filling": {"coresShort": [1, 2, 3]}}, "filling.coresShort"),
        ({"filling": {"coresShort": [1, 2, -900, 3]}}, "filling.coresShort[2]"),
        ({"wholeReserve": 1.5}, "wholeReserve"),
        ({"wholeReserveOfAsked": -0.1}, "wholeReserveOfAsked"),
        ({"scarce": -1}, "scarce"),
    ],
)
def test_weights_that_can_be_none_are_named(weights: dict[str, Any], field: str) -> None:
    found = problems({"profiles": [shape(Berth={"nodeCost": weights})]})
    assert list(found) == [f"profiles[0].pluginConfig[0].args.nodeCost.{field}"]
