"""NPUs through the whole solver: whole, or cut to a size that a ConfigMap lists."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from berth.contracts import names, subjects
from berth.contracts.grants import device
from berth.contracts.inventory import DeviceSlot
from berth.contracts.state import ConfigMap
from berth.placement_solver.core import explain
from berth.placement_solver.core.npu_templates import NpuTemplates, place_of
from berth.placement_solver.core.verify.laws.devices import cut_problems
from berth.rules.devices.templates import NO_MATCH
from berth.rules.scheduler_config import DeviceShareArgs
from berth.testing.builders import GI, PodBuilder, pod
from berth.transaction.claims import of_decision

SYSTEM = place_of(DeviceShareArgs())
MODEL = "Ascend-310P3"
LABELS = {names.LABEL_GPU_VENDOR: "huawei", names.LABEL_GPU_MODEL: MODEL}
CHIP = {
    names.NPU_CORE: 8,
    names.NPU_CPU: 7,
    names.NPU_DVPP: 100,
    names.GPU_MEMORY: 24 * GI,
    names.GPU_MEMORY_RATIO: 100,
}
VIR02 = {names.NPU_CORE: 2, names.NPU_CPU: 2, names.NPU_DVPP: 25, names.GPU_MEMORY: 6 * GI}
VIR04_3C = {names.NPU_CORE: 4, names.NPU_CPU: 3, names.NPU_DVPP: 50, names.GPU_MEMORY: 12 * GI}
TABLE = """
huawei-Ascend-310P3:
  vir02: {koordinator.sh/gpu-memory: 6Gi, huawei.com/npu-core: 2, huawei.com/npu-cpu: 2, huawei.com/npu-dvpp: 25}
  vir04_3c: {koordinator.sh/gpu-memory: 12Gi, huawei.com/npu-core: 4, huawei.com/npu-cpu: 3, huawei.com/npu-dvpp: 50}
"""


def sizes(run: Any, text: str | None = TABLE, key: str = "data.yaml") -> None:
    namespace, name = SYSTEM
    at = subjects.namespaced_key("configmap", namespace, name)
    if text is None:
        run.delete(at)
        return
    run.version += 1
    run.state(at, ConfigMap(namespace=namespace, name=name, version=run.version, data={key: text}))


def machine(run: Any, name: str = "n", chips: int = 1, labels: dict[str, str] = LABELS) -> None:
    run.node(name, labels=labels)
    slots = [DeviceSlot(kind="gpu", minor=minor, uuid=f"npu-{minor}", amounts=CHIP) for minor in range(chips)]
    run.devices(name, slots, gpu_vendor="huawei", gpu_model=MODEL)


def virtual(name: str, size: dict[str, int] = VIR02) -> PodBuilder:
    return pod(name).requests({names.GPU_SHARED: 1, **size})


def grants(run: Any, name: str) -> list[tuple[str, str]]:
    (claim,) = run.cluster.book.claims_of(("default", name))
    return [(grant.id, grant.extension) for grant in claim.grants]


def message(solution: Any) -> str:
    (refusal,) = solution.refusals
    return explain.message(refusal.reasons, 1)


def test_a_virtual_npu_is_cut_to_a_size_and_read_back(solving: type[Any]) -> None:
    run = solving()
    sizes(run)
    machine(run, chips=2)
    run.pods([virtual("a"), virtual("b", VIR04_3C)])
    assert len(run.round().placements) == 2
    assert (grants(run, "a"), grants(run, "b")) == ([("0", "vir02")], [("0", "vir04_3c")])
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    record = decision.annotations[names.ANNOTATION_DEVICE_ALLOCATED]
    assert '"extension":{"gpuSharedResourceTemplate":"vir02"}' in record
    run.bind(virtual("a"))
    (bound,) = run.cluster.book.claims_of(("default", "a"))
    assert bound.takes_as(of_decision(decision))


def test_sizes_share_a_chip_as_long_as_each_of_their_sums_is_there(solving: type[Any]) -> None:
    run = solving()
    sizes(run)
    machine(run)
    # Eight cores would do for a fourth, seven AI CPUs do not.
    run.pods([virtual(name) for name in "abcd"])
    solution = run.round()
    assert len(solution.placements) == 3
    assert "1 Insufficient gpu devices" in message(solution)


def test_whole_npus_need_no_size(solving: type[Any]) -> None:
    run = solving()
    machine(run, chips=2)
    run.pod(pod("a").requests({names.NPU_CORE: 16, names.GPU_MEMORY_RATIO: 200}))
    run.round()
    assert grants(run, "a") == [("0", ""), ("1", "")]


def test_a_chip_is_cut_or_shared_in_another_way_never_both(solving: type[Any]) -> None:
    run = solving()
    sizes(run)
    machine(run)
    run.pod(virtual("a"))
    run.round()
    run.pod(pod("b").requests({names.GPU_MEMORY_RATIO: 25}))
    assert not run.round().placements
    run.delete_pod("a")
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"b": "n"}
    run.pod(virtual("c"))
    assert not run.round().placements
    (claim,) = run.cluster.book.claims_of(("default", "b"))
    arriving = [claim._replace(grants=(device("gpu", 0, VIR02, "vir02"),), name=("default", "c"), uid="c")]
    assert list(cut_problems(run.cluster.nodes.inventory("n"), [claim], arriving)) == [
        "gpu 0 is cut into virtual NPUs and given out otherwise, to default/b"
    ]


@pytest.mark.parametrize(
    ("labels", "size"),
    [
        (LABELS | {names.LABEL_GPU_MODEL: "Ascend-910"}, VIR02),
        ({names.LABEL_GPU_VENDOR: "huawei"}, VIR02),
        (LABELS, VIR02 | {names.GPU_MEMORY: 9 * GI}),
    ],
)
def test_what_is_no_size_of_the_model_goes_nowhere(solving: type[Any], labels: Any, size: Any) -> None:
    run = solving()
    sizes(run)
    machine(run, labels=labels)
    run.pod(virtual("a", size))
    assert NO_MATCH in message(run.round())


def test_other_sizes_count_at_once_and_touch_nobody_who_runs(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    told = []
    run.cluster.on_npu_templates = lambda: told.append(len(run.cluster.facts.npu_templates.problems))
    run.pod(virtual("a"))
    assert NO_MATCH in message(run.round())
    run.cluster.now += 1000
    sizes(run)
    assert run.cluster.has_news
    run.cluster.wake()
    assert run.nodes_of(run.round()) == {"a": "n"}
    sizes(run, "huawei-Ascend-310P3: {vir02: 7}")
    assert (grants(run, "a"), told) == ([("0", "vir02")], [0, 1])
    run.pod(virtual("b"))
    assert NO_MATCH in message(run.round())
    sizes(run)
    sizes(run, None)
    run.cluster.now += 1000
    run.cluster.wake()
    assert NO_MATCH in message(run.round())


def test_a_plan_with_a_wrong_size_is_rejected(solving: type[Any]) -> None:
    run = solving()
    sizes(run)
    machine(run)
    run.pods([virtual("a"), pod("b").requests({names.GPU_MEMORY_RATIO: 100, names.NPU_CORE: 8})])
    solution, _ = run.solve()
    (claim,) = [each.claim for each in solution.placements if each.claim.name[1] == "a"]
    for size, problem in (
        ("", "was cut to no size, which its model has not"),
        ("vir99", "was cut to vir99, which its model has not"),
        ("vir04_3c", "was cut to vir04_3c, which is not what is asked for"),
    ):
        (grant,) = claim.grants
        changed = claim._replace(grants=(structs.replace(grant, extension=size),))
        assert any(problem in text for text in run.verifier.check([changed])), size
    whole = claim._replace(
        name=("default", "b"),
        uid=run.cluster.book.pods["default", "b"].uid,
        amounts={names.GPU_MEMORY_RATIO: 100, names.NPU_CORE: 8},
        grants=(
            device("gpu", 0, {names.NPU_CORE: 8, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 24 * GI}, "vir02"),
        ),
    )
    problems = run.verifier.check([whole])
    assert any("was cut to vir02, and a size is not asked for" in text for text in problems), problems


@pytest.mark.parametrize(
    ("data", "field", "models"),
    [
        ({}, "data[data.yaml]", []),
        ({"data.yaml": "{"}, "data[data.yaml]", []),
        ({"data.yaml": "a: [1]\n" + TABLE}, "data[data.yaml].a", ["huawei-Ascend-310P3"]),
        (
            {"data.yaml": "a: {v: {huawei.com/npu-core: many}}\n" + TABLE},
            "data[data.yaml].a.v",
            ["huawei-Ascend-310P3"],
        ),
        ({"data.yaml": "a: {v: {huawei.com/npu-core: 2}, w: {huawei.com/npu-core: 2}}"}, "data[data.yaml].a.w", ["a"]),
    ],
)
def test_what_cannot_be_used_is_named_and_the_rest_counts(data: dict[str, str], field: str, models: list[str]) -> None:
    tables = NpuTemplates()
    assert tables.of(SYSTEM) == {}
    assert tables.see(SYSTEM, data)
    assert sorted(tables.of(SYSTEM)) == models
    (problem,) = tables.problems
    assert problem.field.startswith(field)
    tables.reset()
    assert tables.problems
    assert tables.end()
    assert tables.problems == ()


# --- vendors whose device plugins can be told some choices only -------------------------------------------------------

MLU = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 48 * GI}


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ({names.KOORD_GPU: 100}, ""),
        ({names.GPU_CORE: 25, names.GPU_MEMORY: 12 * GI}, ""),
        ({names.KOORD_GPU: 200}, "node(s) of cambricon give out 1 device(s) per pod"),
        ({names.GPU_MEMORY: 12 * GI}, "node(s) of cambricon give out devices with a share of their cores only"),
        ({names.GPU_CORE: 5, names.GPU_MEMORY: GI >> 3}, "Insufficient gpu devices"),
    ],
)
def test_what_a_device_plugin_cannot_be_told_is_not_chosen(
    solving: type[Any], requests: dict[str, int], reason: str
) -> None:
    run = solving(handed_off=frozenset({"cambricon"}))
    run.node("n")
    slots = [DeviceSlot(kind="gpu", minor=minor, uuid=f"mlu-{minor}", amounts=MLU) for minor in range(2)]
    run.devices("n", slots, gpu_vendor="Cambricon")
    run.pod(pod("a").requests(requests))
    solution = run.round()
    if reason:
        assert reason in message(solution)
    else:
        assert len(grants(run, "a")) == 1


def test_without_a_hand_off_any_of_them_are(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    slots = [DeviceSlot(kind="gpu", minor=minor, uuid=f"mlu-{minor}", amounts=MLU) for minor in range(2)]
    run.devices("n", slots, gpu_vendor="cambricon")
    run.pod(pod("a").requests({names.KOORD_GPU: 200}))
    assert len(run.round().placements) == 1


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ({names.GPU_SHARED: 1, names.GPU_MEMORY_RATIO: 30}, "of huawei share devices by sizes with a name only"),
        ({names.NPU_CORE: 8, names.GPU_MEMORY_RATIO: 100}, ""),
        ({names.GPU_SHARED: 1, **VIR02}, ""),
    ],
)
def test_a_chip_is_shared_by_its_sizes_alone(solving: type[Any], requests: dict[str, int], reason: str) -> None:
    run = solving(handed_off=frozenset({"huawei"}))
    sizes(run)
    machine(run)
    run.pod(pod("a").requests(requests))
    solution = run.round()
    assert reason in message(solution) if reason else len(grants(run, "a")) == 1
