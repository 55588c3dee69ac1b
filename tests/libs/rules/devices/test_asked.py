"""What pods and nodes write about devices, and what is wrong with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.hints import Hint, read_hints
from berth.rules.devices.joint_request import JointRequest, read_joint
from berth.rules.devices.partition_spec import PartitionSpec, read_partition_spec
from berth.rules.devices.partitions import BUILT_IN, Partition, feasible, partition_rules, read_table
from berth.rules.devices.request import DeviceRequest, read_request
from berth.rules.devices.slots import NoCapacity
from berth.rules.devices.templates import matching, read_templates
from berth.rules.devices.topology import SCOPES

HINT = names.ANNOTATION_DEVICE_HINT
JOINT = names.ANNOTATION_DEVICE_JOINT
SPEC = names.ANNOTATION_GPU_PARTITION_SPEC


@pytest.mark.parametrize(
    ("annotation", "text", "field"),
    [
        (HINT, "{", ""),
        (HINT, "[]", ""),
        (HINT, '{"gpu":{"selector":5}}', ""),
        (HINT, '{"gpu":{"requiredTopologyScope":"Rack"}}', ".gpu.requiredTopologyScope"),
        (HINT, '{"rdma":{"allocateStrategy":"Some"}}', ".rdma.allocateStrategy"),
        (HINT, '{"rdma":{"exclusivePolicy":"Node"}}', ".rdma.exclusivePolicy"),
        (HINT, '{"rdma":{"selector":{"matchLabels":{"a b":"c"}}}}', ".rdma.selector.matchLabels"),
        (
            HINT,
            '{"rdma":{"vfSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}',
            ".rdma.vfSelector.matchExpressions[0].operator",
        ),
        (JOINT, "gpu,rdma", ""),
        (JOINT, '{"deviceTypes":["gpu","disk"]}', ".deviceTypes[1]"),
        (JOINT, '{"deviceTypes":["gpu"],"requiredScope":"SameRack"}', ".requiredScope"),
        (SPEC, '{"allocatePolicy":"Any"}', ".allocatePolicy"),
        (SPEC, '{"ringBusBandwidth":"fast"}', ".ringBusBandwidth"),
        (SPEC, '{"ringBusBandwidth":"-1"}', ".ringBusBandwidth"),
    ],
)
def test_what_cannot_be_read_is_named(annotation: str, text: str, field: str) -> None:
    answer = read_request({names.NVIDIA_GPU: 1}, {annotation: text})
    assert isinstance(answer, Problem)
    assert answer.field == f"metadata.annotations[{annotation}]{field}"


def test_hints_are_read_and_what_is_not_known_is_left_out() -> None:
    text = json.dumps(
        {
            "gpu": {"requiredTopologyScope": "PCIe", "later": True},
            "rdma": {"selector": {}, "vfSelector": None, "allocateStrategy": "ApplyForAll"},
            "disk": {},
        }
    )
    hints = read_hints({HINT: text})
    assert not isinstance(hints, Problem)
    assert hints["gpu"] == Hint(scope=SCOPES["PCIe"])
    assert hints["rdma"].functions is None
    assert hints["rdma"].selector is not None
    assert hints["rdma"].selector({"any": "thing"})
    assert set(hints) == {"gpu", "rdma"}
    assert read_hints({}) == {}


def test_a_type_twice_counts_once() -> None:
    assert read_joint({JOINT: '{"deviceTypes":["gpu","rdma","gpu"]}'}) == JointRequest(("gpu", "rdma"))
    assert read_joint({}) is None


def test_a_partition_spec() -> None:
    assert read_partition_spec({SPEC: '{"ringBusBandwidth":"2Ki"}'}) == PartitionSpec("BestEffort", 2048)
    assert read_partition_spec({}) is None


def test_both_forms_of_a_table_say_the_same() -> None:
    plain = '{"2":[{"minors":[0,1],"gpuLinkType":"NVLink","ringBusBandwidth":"400Gi","allocationScore":1}]}'
    nested = '{"2":[{"NVLink":[{"minors":[0,1],"ringBusBandwidth":"400Gi","allocationScore":"1"}]}]}'
    assert read_table(plain) == read_table(nested) == {2: [Partition((0, 1), 1, 400 << 30, "NVLink")]}


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        '{"two":[]}',
        '{"0":[]}',
        '{"2":[{"minors":[]}]}',
        '{"2":[{"minors":[0,true]}]}',
        '{"2":[{"minors":[-1,0]}]}',
        '{"2":[{"minors":[0,1],"allocationScore":"best"}]}',
        '{"2":[{"minors":[0,1],"ringBusBandwidth":"fast"}]}',
        '{"2":[{"NVLink":7}]}',
        json.dumps({"1": [{"minors": [0]}] * 5000}),
    ],
)
def test_a_broken_table_is_none(text: str) -> None:
    table = read_table(text)
    assert isinstance(table, Problem)
    rules = partition_rules({names.LABEL_GPU_MODEL: "H100"}, {}, {names.ANNOTATION_GPU_PARTITIONS: text})
    assert rules.table is None
    assert rules.problem == table


def test_known_models_have_a_table_of_their_own() -> None:
    model, vendor = names.LABEL_GPU_MODEL, names.LABEL_GPU_VENDOR
    assert partition_rules({model: "H20"}, {}, {}).table is BUILT_IN
    assert partition_rules({model: "H20", vendor: "nvidia"}, {}, {}).table is BUILT_IN
    assert partition_rules({model: "H20", vendor: "other"}, {}, {}).table is None
    assert partition_rules({model: "L20"}, {}, {}).table is None
    policy = {names.LABEL_GPU_PARTITION_POLICY: "Honor"}
    assert partition_rules(policy, {}, {}).honors
    assert not partition_rules(policy, {}, {names.ANNOTATION_GPU_PARTITIONS: '{"1":[{"minors":[0]}]}'}).honors


@given(
    st.lists(st.lists(st.integers(0, 70), min_size=1, max_size=3).map(tuple), max_size=8),
    st.sets(st.integers(0, 70)),
    st.sets(st.integers(0, 70)),
    st.integers(1, 3),
)
def test_a_partition_is_whole_and_free(
    groups: list[tuple[int, ...]], able: set[int], used: set[int], count: int
) -> None:
    table = {size: [Partition(each) for each in groups] for size in (1, 2, 3)} if groups else {}
    found = feasible(table, count, able=able, used=used)
    legal = [each for each in groups if len(each) == len(set(each)) == count and set(each) <= able - used]
    assert isinstance(found, NoCapacity) == (not legal)
    if not isinstance(found, NoCapacity):
        assert sorted(each.minors for each in found) == sorted(legal)


def test_templates_that_cannot_be_read_are_left_out() -> None:
    text = "huawei-A: {small: {huawei.com/npu-core: 1}, bad: {huawei.com/npu-core: x}, none: {}}\nB: 5\n"
    table, problems = read_templates(text)
    assert table == {"huawei-A": {"small": {names.NPU_CORE: 1}}}
    assert [each.field for each in problems] == [
        "data[data.yaml].huawei-A.bad[huawei.com/npu-core]",
        "data[data.yaml].B",
    ]
    assert read_templates("- 1")[0] == {}
    assert read_templates("a: &x {b: *x}")[1]
    assert read_templates("") == ({}, ())


def test_a_shared_npu_without_a_size_is_refused_and_a_whole_one_is_not() -> None:
    table, _ = read_templates("huawei-A: {small: {huawei.com/npu-core: 1, koordinator.sh/gpu-memory: 1Gi}}")
    share = {names.GPU_SHARED: 1, names.NPU_CORE: 2, names.NPU_CPU: 1, names.GPU_MEMORY: 1 << 30}
    refused = read_request(share, {}, table)
    assert isinstance(refused, Problem)
    assert refused.message == "no matched GPU shared resource template"
    whole = read_request({names.NPU_CORE: 8, names.GPU_MEMORY_RATIO: 100}, {}, table)
    assert isinstance(whole, DeviceRequest)
    assert whole.templates is None
    assert matching(table, {names.NPU_CORE: 1}, strict=False) == {"huawei-A": ("small",)}
    assert matching(table, {names.NPU_CORE: 1}) == {}


@given(st.dictionaries(st.sampled_from([HINT, JOINT, SPEC]), st.text(max_size=40)))
def test_no_text_raises(annotations: dict[str, str]) -> None:
    answer = read_request({names.NVIDIA_GPU: 1}, annotations)
    assert isinstance(answer, DeviceRequest | Problem)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["2", "minors", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_no_table_raises(content: object) -> None:
    table = read_table(json.dumps(content))
    if not isinstance(table, Problem):
        feasible(table, 2, able={0, 1}, used=())
