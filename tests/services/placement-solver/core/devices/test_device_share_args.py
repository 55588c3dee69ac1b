"""DeviceShareArgs of a profile: how devices and nodes are rated, which sizes NPUs have, and whose GPUs are shared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from berth.contracts import names, subjects
from berth.contracts.grants import device
from berth.contracts.inventory import DeviceSlot
from berth.contracts.state import ConfigMap
from berth.placement_solver.core import explain
from berth.testing.builders import GI, gpu_grant, gpu_slots, node_topology, pod

MOST = {"scoringStrategy": {"type": "MostAllocated"}}
LEAST = {"scoringStrategy": {"type": "LeastAllocated"}}


def configured(solving: type[Any], args: dict[str, Any], *, rates: bool = False) -> Any:
    """A solver with a profile of these arguments; `rates`: nodes are chosen by DeviceShare's score alone."""
    run = solving()
    config = [{"name": "DeviceShare", "args": args}]
    plugins: dict[str, Any] = {}
    if rates:
        config.append({"name": "Berth", "args": {"decides": "kube-scheduler"}})
        plugins = {"score": {"enabled": [{"name": "DeviceShare", "weight": 1}], "disabled": [{"name": "*"}]}}
    assert run.configure(plugins=plugins, pluginConfig=config)
    return run


def gpus_of(run: Any, name: str) -> list[str]:
    (claim,) = run.cluster.book.claims_of(("default", name))
    return [grant.id for grant in claim.grants if grant.kind == "gpu"]


def message(solution: Any) -> str:
    (refusal,) = solution.refusals
    return explain.message(refusal.reasons, 1)


@pytest.mark.parametrize(("args", "minor"), [({}, "0"), (MOST, "0"), (LEAST, "1")])
def test_within_a_node_devices_that_serve_are_rated_by_the_strategy(
    solving: type[Any], args: dict[str, Any], minor: str
) -> None:
    run = configured(solving, args)
    run.node("n")
    run.devices("n", gpu_slots(2))
    run.pod(pod("other").share(30).on("n", [gpu_grant(0, 30)]))
    run.pod(pod("a").share(30))
    run.round()
    assert gpus_of(run, "a") == [minor]


@pytest.mark.parametrize(("args", "node"), [({}, "idle"), (LEAST, "idle"), (MOST, "used")])
def test_nodes_are_rated_by_it_where_scores_decide(solving: type[Any], args: dict[str, Any], node: str) -> None:
    run = configured(solving, args, rates=True)
    for name in ("used", "idle"):
        run.node(name)
        run.devices(name, gpu_slots(2))
    run.pod(pod("other").share(30).on("used", [gpu_grant(0, 30)]))
    run.pod(pod("a").share(30))
    assert run.nodes_of(run.round()) == {"a": node}


def test_the_score_is_koordinators(solving: type[Any]) -> None:
    """Totals and what is free are summed over the devices, types are added up, and the best node has 100."""
    run = configured(solving, MOST, rates=True)
    for name, used in (("a", 50), ("b", 0)):
        run.node(name)
        slots = [*gpu_slots(2), DeviceSlot(kind="rdma", minor=0, amounts={names.RDMA: 100})]
        run.devices(name, slots)
        if used:
            run.pod(pod("other").share(used).on(name, [gpu_grant(0, used)]))
    run.pod(pod("p").requests({names.KOORD_GPU: 50, names.RDMA: 20}))
    ((unit,), _) = run.cluster.batch(1)
    (candidate,) = unit.candidates
    (rating,) = candidate.cls.ratings
    run.cluster.solver.picker._of_class(candidate.cls)
    assert rating.values is not None
    # The memory in bytes is not asked for, and counts by what others hold of it: (50 + 25) / 2 and (25 + 0) / 2.
    assert rating.values.tolist() == [37 + 20, 12 + 20]
    assert rating.score.normalise(rating.query, rating.values, None).tolist() == [100, 56]


@pytest.mark.parametrize(
    ("label", "there", "asked", "reason"),
    [
        ("hami-core", "HAMi-core", {names.KOORD_GPU: 30}, ""),
        ("HAMi-core", "", {names.KOORD_GPU: 30}, "GPUIsolationProviderHAMICore not found on the node"),
        ("other", "HAMi-core", {names.KOORD_GPU: 30}, "GPUIsolationProviderHAMICore not found on the node"),
        ("HAMi-core", "", {names.NVIDIA_GPU: 1}, ""),
        ("", "", {names.KOORD_GPU: 30}, ""),
        ("", "", {names.GPU_SHARED: 2, names.GPU_MEMORY_RATIO: 100}, ""),
    ],
)
def test_parts_of_gpus_are_isolated_where_that_is_asked_for(
    solving: type[Any], label: str, there: str, asked: dict[str, int], reason: str
) -> None:
    run = solving()
    run.node("n", labels={names.LABEL_GPU_ISOLATION: there} if there else {})
    run.devices("n", gpu_slots(2))
    builder = pod("a").requests(asked)
    run.pod(builder.label(names.LABEL_GPU_ISOLATION, label) if label else builder)
    solution = run.round()
    assert (reason in message(solution)) if reason else len(solution.placements) == 1


def test_models_that_are_not_shared_are_given_whole(solving: type[Any]) -> None:
    labels = {names.LABEL_GPU_VENDOR: "huawei", names.LABEL_GPU_MODEL: "Ascend-910A"}
    run = configured(solving, {"gpuShareUnsupportedModels": [{"vendor": "huawei", "model": "Ascend-910A"}]})
    run.node("n", labels=labels)
    run.devices("n", gpu_slots(1))
    run.pod(pod("a").share(50))
    assert "1 node(s) whose GPU model is not shared. To repair: ask for whole GPUs." in message(run.round())
    run.pod(pod("b").gpus(1))
    assert run.nodes_of(run.round()) == {"b": "n"}


def test_sizes_of_npus_come_from_the_profiles_config_map(solving: type[Any]) -> None:
    config = {"configMapNamespace": "x", "configMapName": "sizes", "matchedResources": [names.NPU_CPU]}
    run = configured(solving, {"gpuSharedResourceTemplatesConfig": config})
    text = "huawei-A: {half: {huawei.com/npu-core: 4, huawei.com/npu-cpu: 3, koordinator.sh/gpu-memory: 8Gi}}"
    table = ConfigMap(namespace="x", name="sizes", version=1, data={"data.yaml": text})
    run.state(subjects.namespaced_key("configmap", "x", "sizes"), table)
    run.node("n", labels={names.LABEL_GPU_VENDOR: "huawei", names.LABEL_GPU_MODEL: "A"})
    chip = {names.NPU_CORE: 8, names.NPU_CPU: 7, names.GPU_MEMORY: 16 * GI, names.GPU_MEMORY_RATIO: 100}
    run.devices("n", [DeviceSlot(kind="gpu", minor=0, amounts=chip)], gpu_vendor="huawei")
    half = {names.NPU_CORE: 4, names.NPU_CPU: 3, names.GPU_MEMORY: 8 * GI}
    run.pod(pod("a").requests({names.GPU_SHARED: 1, **half}))
    run.round()
    (claim,) = run.cluster.book.claims_of(("default", "a"))
    assert claim.grants == (device("gpu", 0, half | {names.GPU_MEMORY_RATIO: 50}, "half"),)


@pytest.mark.parametrize(("args", "is_placed"), [({}, False), ({"disableDeviceNUMATopologyAlignment": True}, True)])
def test_devices_may_be_left_out_of_a_numa_policy(solving: type[Any], args: dict[str, Any], is_placed: bool) -> None:
    run = configured(solving, args)
    run.node("n")
    run.topology("n", node_topology(zones=2, cores=4))
    run.devices("n", [structs.replace(each, numa_node=each.minor, pcie=f"pci{each.minor}") for each in gpu_slots(2)])
    run.pod(pod("other").gpus(1).on("n", [gpu_grant(0)]))
    run.pod(
        pod("busy")
        .requests(cpu=8000)
        .template(scheduler="x")
        .label(names.LABEL_QOS, "LSR")
        .annotation(names.ANNOTATION_RESOURCE_STATUS, json.dumps({"cpuset": "8-15"}))
        .on("n")
    )
    wish = json.dumps({"numaTopologyPolicy": "SingleNUMANode"})
    run.pod(pod("a").requests(cpu=2000).gpus(1).annotation(names.ANNOTATION_NUMA_SPEC, wish))
    solution = run.round()
    assert bool(solution.placements) is is_placed, message(solution)
