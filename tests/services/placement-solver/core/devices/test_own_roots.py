"""`exclusivePolicy: PCIeLevel`: nobody else has a device of the kind on the PCIe root of one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from berth.contracts import names, subjects
from berth.contracts.grants import OWN_ROOT, device
from berth.contracts.inventory import NPU_TEMPLATES, DeviceSlot
from berth.contracts.ledger import Grant
from berth.contracts.state import ConfigMap
from berth.placement_solver.core import explain
from berth.rules.records.device_allocated import DeviceAllocated
from berth.rules.records.seam import Bound
from berth.testing.builders import PodBuilder, gpu_grant, gpu_slots, pod
from berth.transaction.claims import of_decision


def alone(name: str, kind: str = "gpu", requests: dict[str, int] | None = None) -> PodBuilder:
    hint = json.dumps({kind: {"exclusivePolicy": "PCIeLevel"}})
    return pod(name).requests(requests or {names.KOORD_GPU: 30}).annotation(names.ANNOTATION_DEVICE_HINT, hint)


def machine(run: Any, gpus: int = 4, per_root: int = 2, name: str = "n") -> None:
    run.node(name)
    slots = [structs.replace(each, numa_node=0, pcie=f"pci{each.minor // per_root}") for each in gpu_slots(gpus)]
    run.devices(name, slots)


def cards(run: Any, name: str) -> list[str]:
    (claim,) = run.cluster.book.claims_of(("default", name))
    return [grant.id for grant in claim.grants if grant.kind == "gpu"]


def told(solution: Any) -> str:
    (refusal,) = solution.refusals
    return explain.message(refusal.reasons, 1)


def test_its_root_is_for_nobody_else(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    run.pod(pod("other").share(30).on("n", [gpu_grant(0, 30)]))
    run.pod(alone("a"))
    run.round()
    assert cards(run, "a") == ["2"], "the first root has somebody on it"
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    assert OWN_ROOT not in decision.annotations[names.ANNOTATION_DEVICE_ALLOCATED]
    run.bind(alone("a"))
    (bound,) = run.cluster.book.claims_of(("default", "a"))
    assert bound.takes_as(of_decision(decision))
    run.pods([pod("b").gpus(2), pod("c").share(60), alone("d")])
    solution = run.round()
    assert set(run.nodes_of(solution)) == {"c"}, "one card of the other root is whole"
    assert cards(run, "c") in (["0"], ["1"])
    run.delete_pod("a")
    run.cluster.now += 1000
    assert "b" in run.nodes_of(run.round())


def test_what_has_to_become_free_for_it_is_told(solving: type[Any]) -> None:
    run = solving()
    machine(run, gpus=2)
    run.pod(pod("other").share(30).on("n", [gpu_grant(0, 30)]))
    run.pod(alone("a"))
    assert told(run.round()).endswith("To repair: free GPU 0 on node n.")
    run.delete_pod("other")
    run.cluster.now += 1000
    run.round()
    run.pod(pod("b").share(30))
    assert told(run.round()).endswith(f"To repair: free GPU {cards(run, 'a')[0]} on node n.")


def test_rdma_devices_as_well_and_only_among_their_own_kind(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    nics = [DeviceSlot(kind="rdma", minor=minor, pcie="pci0", amounts={names.RDMA: 100}) for minor in range(2)]
    run.devices("n", [*(structs.replace(each, pcie="pci0") for each in gpu_slots(1)), *nics])
    run.pod(alone("a", "rdma", {names.RDMA: 10}))
    run.round()
    run.pods([pod("b").requests({names.RDMA: 10}), pod("c").gpus(1)])
    assert set(run.nodes_of(run.round())) == {"c"}


def test_a_device_whose_root_is_unknown_serves_nobody_beside_it(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    first, second = gpu_slots(2)
    run.devices("n", [structs.replace(first, pcie="pci0"), structs.replace(second, pcie="")])
    run.pod(alone("a"))
    run.round()
    assert cards(run, "a") == ["0"]
    run.pod(pod("b").gpus(1))
    assert not run.round().placements
    run.delete_pod("a")
    run.pod(pod("c").share(10).on("n", [gpu_grant(1, 10)]))
    run.pod(alone("d"))
    run.cluster.now += 1000
    run.delete_pod("b")
    assert not run.round().placements


def test_a_plan_that_breaks_it_is_rejected(solving: type[Any]) -> None:
    run = solving()
    machine(run, gpus=2)
    run.pods([alone("a"), pod("b").share(30)])
    solution, _ = run.solve()
    (placed,) = solution.placements
    claims = {}
    for name in "ab":
        mark = OWN_ROOT if name == "a" else ""
        (minor,) = ("0",) if name == "a" else ("1",)
        grant = structs.replace(gpu_grant(int(minor), 30), extension=mark)
        seen = run.cluster.book.pods["default", name]
        amounts = dict(seen.template.requests)
        claims[name] = placed.claim._replace(name=("default", name), uid=seen.uid, amounts=amounts, grants=(grant,))
    assert run.verifier.check([claims["a"]]) == []
    assert run.verifier.check([claims["b"]]) == []
    for order in ("ab", "ba"):
        problems = run.verifier.check([claims[name] for name in order])
        assert any("which is one pod's own" in text for text in problems), problems
    unmarked = claims["a"]._replace(grants=(gpu_grant(0, 30),))
    assert any("is not what is asked for" in text for text in run.verifier.check([unmarked]))


def test_the_mark_is_read_off_the_hint_and_stands_in_no_record() -> None:
    record = DeviceAllocated()
    grants = (device("gpu", 0, {names.GPU_CORE: 30}, OWN_ROOT),)
    written = record.write(Bound(plan="p", grants=grants))
    assert "extension" not in written[names.ANNOTATION_DEVICE_ALLOCATED]
    assert record.read(written) == (structs.replace(grants[0], extension=""),)
    template = alone("a").build(1).template
    assert record.completed(record.read(written) or (), template) == grants
    unreadable = structs.replace(template, annotations={names.ANNOTATION_DEVICE_HINT: "{"})
    assert record.completed(record.read(written) or (), unreadable)[0].extension == ""


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([10, 60, 100])), min_size=1, max_size=6), st.data())
def test_whatever_comes_and_goes_no_root_is_shared(
    solving: type[Any], asked: list[tuple[bool, int]], data: st.DataObject
) -> None:
    run = solving()
    machine(run, gpus=6)
    for at, (is_alone, percent) in enumerate(asked):
        requests = {names.KOORD_GPU: percent}
        run.pod(alone(f"p{at}", requests=requests) if is_alone else pod(f"p{at}").requests(requests))
        run.round()  # the verifier agrees
        if data.draw(st.booleans()):
            run.delete_pod(f"p{data.draw(st.integers(0, at))}")
    holders: dict[int, list[Grant]] = {}
    for claim in run.cluster.book.claims_on("n"):
        for grant in claim.grants:
            holders.setdefault(grant.minor // 2, []).append(grant)
    for mine in holders.values():
        assert len(mine) == 1 or not any(grant.extension for grant in mine)


def test_it_is_refused_beside_a_size_of_a_virtual_npu(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    namespace, _, name = NPU_TEMPLATES.partition("/")
    text = "huawei-A: {v: {huawei.com/npu-core: 2, huawei.com/npu-cpu: 1, koordinator.sh/gpu-memory: 1Gi}}"
    table = ConfigMap(namespace=namespace, name=name, version=1, data={"data.yaml": text})
    run.state(subjects.namespaced_key("configmap", namespace, name), table)
    asked = {names.GPU_SHARED: 1, names.NPU_CORE: 2, names.NPU_CPU: 1, names.GPU_MEMORY: 1 << 30}
    run.pod(alone("a", requests=asked))
    assert f"metadata.annotations[{names.ANNOTATION_DEVICE_HINT}].gpu.exclusivePolicy" in told(run.round())
