"""Hand-off, locks and containers beyond the reference cases."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.vendors.fake_probe import FakeProbe
from tests.libs.vendors.of_record import edits_of_record

from berth.contracts import names
from berth.contracts.base import Problem
from berth.runtime.shared_settings import HAND_OFF
from berth.vendors.handing_off import hand_off, is_held_by, judge_lock, lock_value, read_lock
from berth.vendors.registry import REGISTRY
from berth.vendors.vendor import Bind, Container, Edits, Given, HandOff

MI = 1 << 20
NOW_NS = 1_700_000_000 * 10**9
HALF = {names.GPU_CORE: 50, names.GPU_MEMORY: 8192 * MI, names.GPU_MEMORY_RATIO: 50}
ISOLATED = {names.LABEL_GPU_ISOLATION: "hami-core"}


def bind(*given: Given, **more: Any) -> Bind:
    return Bind(**({"node": "n", "namespace": "d", "pod": "p", "time_ns": NOW_NS, "given": given} | more))


def card(minor: int = 0, **more: Any) -> Given:
    return Given(**({"kind": "gpu", "minor": minor, "id": f"u{minor}", "amounts": HALF} | more))


def written(vendor: str, *given: Given, **more: Any) -> HandOff:
    hand = hand_off(bind(*given, **more), vendor)
    assert isinstance(hand, HandOff)
    return hand


def test_metax() -> None:
    hand = written("metax", card(), card(3))
    assert hand.annotations["metax-tech.com/gpu-devices-allocated"] == (
        '[[{"uuid":"u0","compute":50,"vRam":8192},{"uuid":"u3","compute":50,"vRam":8192}]]'
    )
    assert hand.lock == "hami.io/mutex.lock"


def test_ascend_of_two_chips() -> None:
    hand = written("huawei", card(), card(1), model="Ascend-310P3-300I-DUO")
    assert hand.annotations["huawei.com/Ascend310P"] == "Ascend310P-0,Ascend310P-1"
    assert names.NPU_CORE not in hand.annotations


@pytest.mark.parametrize("vendor", ["kunlun", "baidu", "amd", "hygon", "", "nobody"])
def test_others_get_what_all_get(vendor: str) -> None:
    assert written(vendor, card()).annotations.keys() == {
        names.ANNOTATION_GPU_MINORS,
        names.ANNOTATION_BIND_TIMESTAMP,
    }


def test_without_an_accelerator_nothing_is_written() -> None:
    assert written("cambricon", Given(kind="rdma", minor=0)) == HandOff()


@pytest.mark.parametrize("vendor", ["cambricon", "metax"])
@pytest.mark.parametrize("lacks", [names.GPU_CORE, names.GPU_MEMORY])
def test_what_a_plugin_cannot_use_keeps_the_pod_from_being_bound(vendor: str, lacks: str) -> None:
    less = {name: amount for name, amount in HALF.items() if name != lacks}
    problem = hand_off(bind(card(amounts=less)), vendor)
    assert isinstance(problem, Problem)
    assert lacks in problem.field


MINE = lock_value(bind(card()))


@pytest.mark.parametrize(
    ("text", "holder_exists", "may_take"),
    [
        ("", True, True),
        (MINE, True, True),
        ("2023-11-14T22:13:00Z,d,other", True, False),
        ("2023-11-14T22:13:00Z,d,other", False, True),
        ("2023-11-14T22:08:20Z,d,other", True, False),
        ("2023-11-14T22:08:19Z,d,other", True, True),
        ("2030-01-01T00:00:00Z,d,other", True, True),
        ("2023-11-14T22:13:00Z,d", True, True),
        ("yesterday,d,other", True, True),
        ("2023-11-14T22:13:00Z,,", True, True),
        ("x" * 100_000, True, True),
    ],
)
def test_lock(text: str, holder_exists: bool, may_take: bool) -> None:
    verdict = judge_lock("lock", text, bind(card()), holder_exists=holder_exists)
    assert verdict.may_take is may_take
    assert (verdict.problem is not None) is (not may_take or (bool(text) and read_lock(text) is None))


def test_whose_lock_it_is() -> None:
    assert is_held_by(MINE, "d", "p")
    assert not is_held_by(MINE, "d", "q")
    assert not is_held_by("torn", "d", "p")


def container(**labels: str) -> Container:
    return Container(pod_uid="u", name="c", pod_labels=labels)


def edits(record: str, probe: FakeProbe | None = None, vendor: str = "", **labels: str) -> Edits | Problem:
    return edits_of_record(record, container(**labels), probe or FakeProbe(), gpu_vendor=vendor)


def test_uuids_where_all_ids_are_such() -> None:
    both = edits('{"gpu":[{"minor":0,"id":"GPU-a"},{"minor":1,"id":"GPU-b"}]}')
    assert isinstance(both, Edits)
    assert both.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
    one = edits('{"gpu":[{"minor":0,"id":"GPU-a"},{"minor":1,"id":"1"}]}')
    assert isinstance(one, Edits)
    assert one.env == {"NVIDIA_VISIBLE_DEVICES": "0,1"}


def test_unequal_shares_have_limits_of_their_own() -> None:
    share = '{"minor":%d,"resources":{"koordinator.sh/gpu-memory":"%dMi","koordinator.sh/gpu-memory-ratio":"%d"}}'
    found = edits('{"gpu":[' + share % (0, 100, 100) + "," + share % (1, 50, 50) + "]}", **ISOLATED)
    assert isinstance(found, Edits)
    assert found.env["CUDA_DEVICE_MEMORY_LIMIT"] == found.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == str(100 * MI)
    assert found.env["CUDA_DEVICE_MEMORY_LIMIT_1"] == str(50 * MI)


def test_whole_cards_are_not_limited() -> None:
    whole = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory-ratio":"100"}}]}'
    found = edits(whole, **ISOLATED)
    assert isinstance(found, Edits)
    assert found.env == {"NVIDIA_VISIBLE_DEVICES": "0"}


@pytest.mark.parametrize("vendor", ["huawei", "cambricon", "metax"])
def test_plugins_prepare_their_containers_themselves(vendor: str) -> None:
    assert edits('{"gpu":[{"minor":0}]}', vendor=vendor) == Edits()


def paths(found: Edits | Problem) -> list[str]:
    assert isinstance(found, Edits), found
    return [node.path for node in found.nodes]


def test_device_files() -> None:
    gpu = '{"gpu":[{"minor":1}]}'
    amd = FakeProbe(devices={"/dev/kfd": (234, 0), "/dev/dri/renderD129": (226, 129)})
    assert paths(edits(gpu, amd, "amd")) == paths(edits(gpu, amd, "hygon")) == ["/dev/kfd", "/dev/dri/renderD129"]
    amd.devices["/dev/mkfd"] = (235, 0)
    assert paths(edits(gpu, amd, "hygon")) == ["/dev/kfd", "/dev/mkfd", "/dev/dri/renderD129"]
    xpu = FakeProbe(devices={"/dev/xpuctrl": (240, 0), "/dev/xpu1": (240, 1)})
    assert paths(edits(gpu, xpu, "baidu")) == ["/dev/xpuctrl", "/dev/xpu1"]


@pytest.mark.parametrize("vendor", ["amd", "hygon", "kunlun"])
def test_a_device_file_that_is_gone_is_named(vendor: str) -> None:
    control = FakeProbe(devices={"/dev/kfd": (234, 0), "/dev/xpuctrl": (240, 0)})
    problem = edits('{"gpu":[{"minor":1}]}', control, vendor)
    assert isinstance(problem, Problem)
    assert "[minor 1]" in problem.field


def verbs(bus: str, at: int) -> FakeProbe:
    name = f"uverbs{at}"
    return FakeProbe(
        {f"/sys/bus/pci/devices/{bus}/infiniband_verbs/{name}/dev": ""},
        devices={"/dev/infiniband/rdma_cm": (10, 58), f"/dev/infiniband/{name}": (231, 192 + at)},
    )


def test_verbs_devices_of_functions_or_else_of_the_interface() -> None:
    own, function = verbs("0000:09:00.0", 0), verbs("0000:09:00.3", 7)
    own.files |= function.files
    own.devices |= function.devices
    whole = '{"rdma":[{"minor":1,"id":"0000:09:00.0"}]}'
    part = '{"rdma":[{"minor":1,"id":"0000:09:00.0","extension":{"vfs":[{"minor":1,"busID":"0000:09:00.3"}]}}]}'
    assert paths(edits(whole, own)) == ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"]
    assert paths(edits(part, own)) == ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs7"]
    del own.files["/sys/bus/pci/devices/0000:09:00.3/infiniband_verbs/uverbs7/dev"]
    problem = edits(part, own)
    assert isinstance(problem, Problem)
    assert "0000:09:00.3 has no verbs device" in problem.message


def test_an_id_never_becomes_a_path() -> None:
    problem = edits('{"rdma":[{"minor":0,"id":"../../../../dev"}]}', verbs("0000:09:00.0", 0))
    assert isinstance(problem, Problem)
    assert "is no PCI address" in problem.message


@pytest.mark.parametrize(
    "record",
    [
        "{",
        "[]",
        '{"gpu":{}}',
        '{"gpu":[{"minor":-1}]}',
        '{"gpu":[{"minor":"0"}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"x"}}]}',
        '{"gpu":[{"minor":0,"extension":{"vfs":7}}]}',
    ],
)
def test_a_record_that_cannot_be_read_is_a_problem(record: str) -> None:
    problem = edits(record)
    assert isinstance(problem, Problem)
    assert names.ANNOTATION_DEVICE_ALLOCATED in problem.field


def test_kinds_that_nobody_knows_get_nothing() -> None:
    assert edits('{"quantum":[{"minor":0}]}') == Edits()
    assert edits("") == Edits()


def test_the_hand_off_is_on_for_the_vendors_that_say_so() -> None:
    assert {each.name for each in REGISTRY if each.hands_off} == set(HAND_OFF)
