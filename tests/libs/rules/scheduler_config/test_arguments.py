"""The arguments of each plugin, and what they are where nobody says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.rules.scheduler_config.written import HEAD, problems, profile, shape

from berth.rules.scheduler_config import (
    DEFAULT,
    BerthArgs,
    DeviceShareArgs,
    FitArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeCostArgs,
    NumaArgs,
    PodTopologySpreadArgs,
    PreemptionArgs,
    Resource,
    VolumeBindingArgs,
)


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
