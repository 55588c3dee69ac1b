"""Every kind of record: what is written is read, what cannot be read blocks its kind, and no record proves too much."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from berth.contracts import names
from berth.contracts.grants import COUNT, CPU, VF, ZONE, device, function, one
from berth.contracts.ledger import Grant, Loan
from berth.contracts.state import BatchContainer, Device, DeviceContainer, DeviceFunction, DeviceInfo, PodTemplate
from berth.rules.devices.kubelet_counts import NUMBER
from berth.rules.records import registry
from berth.rules.records.binds import annotations_of, names_of_records, written_over
from berth.rules.records.evidence import blocked, broken, called, held_by_pod, held_by_reservation, whole, within
from berth.rules.records.seam import RECORD_LENGTH_MAX, Bound, GrantRecord
from berth.testing.builders import pod

AMOUNTS = st.dictionaries(
    st.sampled_from([names.GPU_CORE, names.GPU_MEMORY_RATIO, names.GPU_MEMORY, names.RDMA]),
    st.integers(0, 200),
    max_size=3,
)


@st.composite
def devices(draw: st.DrawFn) -> list[Grant]:
    """Devices, some of them with virtual functions, and NPUs of a size."""
    kinds = st.sampled_from(["fpga", "gpu", "rdma"])
    plain = st.builds(device, kinds, st.integers(0, 12), AMOUNTS)
    sized = st.builds(device, st.just("gpu"), st.integers(0, 12), AMOUNTS, st.sampled_from(["vir01", "vir02"]))
    found = draw(st.lists(st.one_of(plain, sized), max_size=4, unique_by=lambda grant: (grant.kind, grant.id)))
    counts = draw(st.lists(st.integers(0, 2), min_size=len(found), max_size=len(found)))
    functions = [
        function(f"0000:{at:02x}:00.{number}", each.kind, each.minor)
        for at, (each, count) in enumerate(zip(found, counts, strict=True))
        for number in range(count)
    ]
    return [*found, *functions]


GRANTED: dict[str, st.SearchStrategy[list[Grant]]] = {
    "devices": devices(),
    "cores": st.lists(
        st.one_of(
            st.builds(lambda cpu: one(CPU, str(cpu)), st.integers(0, 200)),
            st.builds(
                lambda zone, amounts: Grant(kind=ZONE, id=str(zone), amounts=amounts),
                st.integers(0, 900),
                st.dictionaries(st.sampled_from([names.CPU, names.MEMORY, "hugepages-2Mi"]), st.integers(0, 10**12)),
            ),
        ),
        max_size=6,
        unique_by=lambda grant: (grant.kind, grant.id),
    ),
}
"""What may be granted, by the name of the kind of record."""
ASKS: dict[str, PodTemplate] = {
    "devices": pod("p").gpus(2).build(1).template,
    "cores": pod("p")
    .requests(cpu=2000)
    .label(names.LABEL_QOS, "LSR")
    .annotation(names.ANNOTATION_RESOURCE_STATUS, '{"cpuset":"0,1"}')
    .build(1)
    .template,
}
"""A pod that is granted some."""
GARBAGE = [
    "{",
    "[]",
    "7",
    "null",
    '"x"',
    "\udcff",
    "[" * 2000 + "]" * 2000,
    "{}" + " " * RECORD_LENGTH_MAX,
]
GARBAGE_OF = {
    "devices": [
        '{"gpu":7}',
        '{"gpu":[{"minor":-1}]}',
        '{"rdma":[{"minor":0,"extension":{"vfs":[{"busID":""}]}}]}',
        '{"rdma":[{"minor":0,"extension":{"vfs":[{"minor":1}]}}]}',
        '{"gpu":[{"minor":0,"extension":{"gpuSharedResourceTemplate":7}}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"many"}}]}',
    ],
    "cores": [
        '{"cpuset":"0-99999999"}',
        '{"cpuset":"1-0"}',
        '{"cpuset":["0"]}',
        '{"numaNodeResources":[{"node":-1}]}',
        '{"numaNodeResources":[{"node":0,"resources":{"cpu":"many"}}]}',
    ],
}


def _which(grant: Grant) -> tuple[str, str]:
    return grant.kind, grant.id


def noted(record: GrantRecord, text: str) -> dict[str, str]:
    return dict.fromkeys(record.annotations, text)


@pytest.mark.parametrize("record", registry.GRANTS, ids=lambda record: record.name)
def test_each_kind_of_grants_is_tried_here(record: GrantRecord) -> None:
    assert record.name in GRANTED, f"{record.name}: no row of GRANTED"
    assert record.name in ASKS, f"{record.name}: no row of ASKS"
    assert record.asks(ASKS[record.name])
    assert not record.asks(pod("p").requests(cpu=1).build(1).template)


def test_kinds_have_nothing_in_common() -> None:
    assert len(set(names_of_records())) == len(names_of_records())
    assert len({each.name for each in registry.GRANTS}) == len(registry.GRANTS)
    for first, other in combinations(registry.GRANTS, 2):
        assert not first.kinds & other.kinds
        assert not first.resources & other.resources
    assert all(each in registry.RECORDS for each in registry.GRANTS)


@pytest.mark.parametrize("record", registry.GRANTS, ids=lambda record: record.name)
@given(data=st.data())
def test_what_is_written_is_read(record: GrantRecord, data: st.DataObject) -> None:
    grants = data.draw(GRANTED[record.name])
    foreign = Grant(kind="nobody's", id="0")
    written = record.write(Bound("plan", (*grants, foreign)))
    assert set(written) <= set(record.annotations)
    assert bool(written) == bool(grants)
    read = record.read(written)
    assert read is not None
    assert sorted(read, key=_which) == sorted(grants, key=_which)
    assert record.write(Bound("plan", tuple(reversed(grants)))) == record.write(Bound("plan", tuple(grants)))
    assert record.read({}) == record.read(noted(record, record.nothing)) == ()


@pytest.mark.parametrize(
    ("record", "text"),
    [
        pytest.param(record, text, id=f"{record.name}-{place}")
        for record in registry.GRANTS
        for place, text in enumerate([*GARBAGE, *GARBAGE_OF[record.name]])
    ],
)
def test_what_cannot_be_read_blocks_its_kind(record: GrantRecord, text: str) -> None:
    assert record.read(noted(record, text)) is None
    template = ASKS[record.name]
    bound = PodTemplate(requests=template.requests, labels=template.labels, annotations=noted(record, text))
    unknown = record.unknown(template.requests)
    assert held_by_pod(bound, None).unreadable == (unknown,)
    assert held_by_reservation(noted(record, text), PodTemplate()).unreadable == (record.name,)
    plain = PodTemplate(requests={"cpu": 1}, annotations=noted(record, text))
    assert held_by_pod(plain, None)[:2] == ((), ()), "who asks for nothing of it holds nothing of it"
    (kind, *_) = sorted(record.kinds)
    assert blocked([Grant(kind=kind, id="0")], [record.name]) == record.name
    assert blocked([Grant(kind="nobody's", id="0")], [record.name]) == ""
    assert record.blocks(record.name) == record.kinds
    assert record.blocks(unknown) <= record.kinds
    assert blocked([Grant(kind=kind, id="0")], []) == ""


@pytest.mark.parametrize("record", registry.GRANTS, ids=lambda record: record.name)
@given(data=st.data())
def test_no_record_proves_more_than_it_says(record: GrantRecord, data: st.DataObject) -> None:
    grants = tuple(data.draw(GRANTED[record.name]))
    counted = within(grants, ASKS[record.name])
    said = {(each.kind, each.id): each.amounts for each in grants}
    for each in counted:
        assert all(amount <= said[each.kind, each.id].get(name, 0) for name, amount in each.amounts.items())
    assert within(counted, ASKS[record.name]) == counted


def cards(*noted: dict[str, object]) -> dict[str, str]:
    return {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": list(noted)})}


def bound(requests: dict[str, int], notes: dict[str, str]) -> PodTemplate:
    return PodTemplate(requests=requests, annotations=notes)


HALF = {names.GPU_CORE: 50, names.GPU_MEMORY_RATIO: 50}
FULL = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}


@pytest.mark.parametrize("resources", [{}, {names.GPU_CORE: "1"}, {names.GPU_CORE: "0", names.GPU_MEMORY_RATIO: "7"}])
def test_a_card_that_is_named_counts_for_all_that_is_asked_of_it(resources: dict[str, str]) -> None:
    held = held_by_pod(bound(HALF, cards({"minor": 3, "resources": resources})), None)
    assert held[:2] == ((device("gpu", 3, HALF),), ())
    two = bound({names.NVIDIA_GPU: 2}, cards(*({"minor": minor, "resources": resources} for minor in (0, 4))))
    assert held_by_pod(two, None)[:2] == ((device("gpu", 0, FULL), device("gpu", 4, FULL)), ())


@pytest.mark.parametrize(
    "notes",
    [{}, cards(), cards({"minor": 0}), cards({"minor": 0}, {"minor": 0}), cards({"minor": 0}, {"minor": 10**18})],
    ids=["none", "empty", "one", "one-twice", "no-minor"],
)
def test_a_record_of_fewer_cards_than_asked_for_is_none(notes: dict[str, str]) -> None:
    assert held_by_pod(bound({names.NVIDIA_GPU: 2}, notes), None)[:2] == ((), (NUMBER,))


def test_a_record_of_one_family_of_two_is_none() -> None:
    both = {names.NVIDIA_GPU: 1, names.RDMA: 100}
    card, interface = [{"minor": 0}], [{"minor": 1}]
    for noted_of in ({"gpu": card}, {"rdma": interface}):
        notes = {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(noted_of)}
        assert held_by_pod(bound(both, notes), None)[:2] == ((), ("devices",))
    notes = {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": card, "rdma": interface})}
    assert held_by_pod(bound(both, notes), None)[:2] == (
        (device("gpu", 0, FULL), device("rdma", 1, {names.RDMA: 100})),
        (),
    )


@pytest.mark.parametrize(("minor", "reads"), [(10**18 - 1, True), (10**18, False), (10**30, False)])
def test_a_minor_of_too_many_digits_cannot_be_read(minor: int, reads: bool) -> None:
    held = held_by_pod(bound(HALF, cards({"minor": minor})), None)
    assert held[:2] == (((device("gpu", minor, HALF),), ()) if reads else ((), ("devices",)))


def test_memory_that_was_not_asked_for_in_its_unit_counts_as_noted() -> None:
    gi = 1 << 30
    noted_as = {"minor": 0, "resources": {names.GPU_MEMORY: "8Gi", names.GPU_MEMORY_RATIO: "33"}}
    by_bytes = held_by_pod(bound({names.GPU_MEMORY: 8 * gi}, cards(noted_as)), None)
    assert by_bytes.grants == (device("gpu", 0, {names.GPU_MEMORY: 8 * gi, names.GPU_MEMORY_RATIO: 33}),)
    by_percent = held_by_pod(bound({names.GPU_MEMORY_RATIO: 34}, cards(noted_as)), None)
    assert by_percent.grants == (device("gpu", 0, {names.GPU_MEMORY: 8 * gi, names.GPU_MEMORY_RATIO: 34}),)
    assert held_by_pod(bound({names.GPU_MEMORY: 9 * gi}, cards(noted_as)), None).grants == (
        device("gpu", 0, {names.GPU_MEMORY: 9 * gi, names.GPU_MEMORY_RATIO: 33}),
    )


def interfaces(*noted: dict[str, object]) -> dict[str, str]:
    return {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"rdma": list(noted)})}


def with_functions(*buses: str, minor: int = 0) -> dict[str, object]:
    return {"minor": minor, "extension": {"vfs": [{"minor": 1, "busID": bus} for bus in buses]}}


HINT = {names.ANNOTATION_DEVICE_HINT: '{"rdma":{"vfSelector":{}}}'}
ONE = device("rdma", 0, {names.RDMA: 1})


def test_a_virtual_function_counts_where_the_pod_takes_one() -> None:
    requests = {names.RDMA: 1}
    noted_one = interfaces(with_functions("0000:09:00.3"))
    assert held_by_pod(bound(requests, HINT | noted_one), None)[:2] == ((ONE, function("0000:09:00.3", "rdma", 0)), ())
    assert held_by_pod(bound(requests, noted_one), None)[:2] == ((ONE,), ()), "it asks for none"
    several = interfaces(with_functions("a", "b"))
    assert held_by_pod(bound(requests, HINT | several), None)[:2] == ((ONE, function("a", "rdma", 0)), ())
    for fewer in (interfaces({"minor": 0}), interfaces(with_functions())):
        assert held_by_pod(bound(requests, HINT | fewer), None)[:2] == ((), ("devices",)), "it holds one"
    everywhere = {names.ANNOTATION_DEVICE_HINT: '{"rdma":{"allocateStrategy":"ApplyForAll","vfSelector":{}}}'}
    twice = interfaces(with_functions("a"), with_functions("a", minor=1))
    assert held_by_pod(bound(requests, everywhere | twice), None)[:2] == ((), ("devices",)), (
        "one function of two devices"
    )


@pytest.mark.parametrize(
    ("hint", "amount", "count", "each"),
    [
        ({}, 1, 1, 1),
        ({}, 300, 3, 100),
        ({"allocateStrategy": "RequestsAsCount"}, 3, 3, 1),
        ({"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "DeviceLevel"}, 3, 3, 100),
        ({"allocateStrategy": "ApplyForAll"}, 7, 4, 7),
    ],
)
def test_a_hint_says_of_how_many_devices_a_record_is_believed(
    hint: dict[str, str], amount: int, count: int, each: int
) -> None:
    notes = {names.ANNOTATION_DEVICE_HINT: json.dumps({"rdma": hint})}
    template = bound({names.RDMA: amount}, notes | interfaces(*({"minor": minor} for minor in range(4))))
    held = held_by_pod(template, None)
    assert held[:2] == (tuple(device("rdma", minor, {names.RDMA: each}) for minor in range(count)), ())


def test_an_interface_more_is_believed_for_each_card_of_a_joint_request() -> None:
    joint = {names.ANNOTATION_DEVICE_JOINT: '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'}
    content = {"gpu": [{"minor": minor} for minor in range(2)], "rdma": [{"minor": minor} for minor in range(3)]}
    notes = joint | {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(content)}
    held = held_by_pod(bound({names.NVIDIA_GPU: 2, names.RDMA: 1}, notes), None)
    assert [(each.kind, each.id) for each in held.grants] == [("gpu", "0"), ("gpu", "1"), ("rdma", "0"), ("rdma", "1")]


@pytest.mark.parametrize(("shares", "counts"), [((60, 30), True), ((60, 20), False), ((80, 70), False), ((90,), True)])
def test_unequal_shares_are_believed_if_they_are_what_is_asked_for(shares: tuple[int, ...], counts: bool) -> None:
    requests = {names.GPU_SHARED: 2, names.GPU_CORE: 90, names.GPU_MEMORY_RATIO: 90}
    given = [device("gpu", at, {names.GPU_CORE: part, names.GPU_MEMORY_RATIO: part}) for at, part in enumerate(shares)]
    record = registry.GRANTS[0]
    notes = record.write(Bound("p", tuple(given))) | {names.ANNOTATION_GPU_SPLIT: "uneven"}
    assert held_by_pod(bound(requests, notes), None)[:2] == ((tuple(given), ()) if counts else ((), ("devices",)))


def test_a_virtual_function_is_as_healthy_as_its_device() -> None:
    there = [DeviceFunction(bus="a")]
    entries = [
        DeviceInfo(kind="rdma", minor=0, healthy=True, functions=there),
        DeviceInfo(kind="rdma", minor=1, functions=[DeviceFunction(bus="b")]),
    ]
    seen = Device(name="n", uid="u", version=1, devices=entries)
    assert broken(function("a", "rdma", 0), seen) == ""
    assert broken(function("a", "rdma", 1), seen) == "is not there any more"
    assert broken(function("b", "rdma", 1), seen) == "is not healthy"
    assert broken(function("a", "rdma", 0), None) == "is not there any more"
    assert (called(function("a", "rdma", 0)), whole(VF, COUNT)) == ("virtual function a", 1)


def test_a_decision_outweighs_what_is_noted() -> None:
    record = registry.GRANTS[0]
    template = ASKS[record.name]
    liar = PodTemplate(requests=template.requests, annotations=noted(record, '{"gpu":[{"minor":9}]}'))
    assert held_by_pod(liar, (device("gpu", 1, {}),)).grants == (device("gpu", 1, {}),)
    unknown = record.unknown(template.requests)
    assert held_by_pod(liar, ()).unreadable == (unknown,), "one that grants none, though the pod asks"


BOUND = Bound(
    "p1",
    (device("gpu", 10, {names.GPU_CORE: 100}), device("gpu", 2, {names.GPU_CORE: 50})),
    quota="tree/group",
    surcharge={"licences.example.com/seat": 1500},
    reservation="r",
    reservation_uid="u",
    gang="ml/train",
    gang_size=3,
    loans=(Loan(reservation="l", reservation_uid="v", amounts={"cpu": 1}),),
    uuids={("gpu", "10"): "GPU-10"},
    template=PodTemplate(
        requests={names.GPU_CORE: 150},
        device_containers=[DeviceContainer(name="a", requests={names.GPU_CORE: 150}), DeviceContainer(name="b")],
        batch_containers=[
            BatchContainer(name="b", requests={names.BATCH_CPU: 500}, limits={names.BATCH_CPU: 1000}),
            BatchContainer(name="c", limits={names.BATCH_MEMORY: 4096}),
        ],
    ),
)


def test_a_bind_writes_a_record_of_each_kind() -> None:
    written = annotations_of(BOUND)
    assert set(written) == set(names_of_records()) - {names.ANNOTATION_RESOURCE_STATUS}, "no CPUs were granted"
    assert json.loads(written[names.ANNOTATION_DEVICE_ALLOCATED]) == {
        "gpu": [
            {"minor": 2, "resources": {names.GPU_CORE: "50"}},
            {"minor": 10, "resources": {names.GPU_CORE: "100"}, "id": "GPU-10"},
        ]
    }
    assert json.loads(written[names.ANNOTATION_CONTAINER_DEVICES]).keys() == {"a"}
    assert json.loads(written[names.ANNOTATION_EXTENDED_RESOURCE_SPEC]) == {
        "containers": {
            "b": {"limits": {names.BATCH_CPU: "1000"}, "requests": {names.BATCH_CPU: "500"}},
            "c": {"limits": {names.BATCH_MEMORY: "4096"}},
        }
    }
    assert registry.RESERVATION.read(written) == "u"
    assert registry.QUOTA.read(written) == "tree/group"
    assert registry.BORROWED.read(written) == BOUND.loans
    assert registry.QUOTA.read_surcharge(written) == BOUND.surcharge
    assert annotations_of(Bound("p1")) == {names.ANNOTATION_PLAN: "p1"}


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("", {}),
        ("{", {}),
        ("7", {}),
        ('{"a.example/x":"x"}', {}),
        ('{"a.example/x":-1}', {}),
        ('{"a.example/x":"0"}', {}),
        ('{"a.example/x":1e400}', {}),
        ('{"a.example/x":"2k","b.example/y":-1}', {"a.example/x": 2000}),
    ],
)
def test_of_a_surcharge_what_can_be_read_counts(text: str, amounts: dict[str, int]) -> None:
    assert registry.QUOTA.read_surcharge({names.ANNOTATION_QUOTA_SURCHARGE: text}) == amounts


@pytest.mark.parametrize("name", names_of_records())
def test_a_bind_leaves_no_record_of_others(name: str) -> None:
    forged = {name: '{"gpu":[{"minor":0}],"uid":"u"}', "example.com/mine": "x"}
    (written,) = written_over({}, forged).items()
    assert written[0] == name
    assert written[1] in ("", "{}")
    assert written_over({name: "ours"}, forged) == {name: "ours"}
    assert written_over({}, {name: ""}) == {}


@pytest.mark.parametrize("text", ["", "{", "7", '{"uid":7}', "\udcff"])
def test_a_reservation_that_cannot_be_read_is_none(text: str) -> None:
    assert registry.RESERVATION.read({names.ANNOTATION_RESERVATION_ALLOCATED: text}) == ""


def test_a_device_is_broken_that_is_not_there_or_not_healthy() -> None:
    entries = [DeviceInfo(kind="gpu", minor=0, healthy=True), DeviceInfo(kind="gpu", minor=1)]
    seen = Device(name="n", uid="u", version=1, devices=entries)
    assert [broken(device("gpu", minor, {}), seen) for minor in range(3)] == [
        "",
        "is not healthy",
        "is not there any more",
    ]
    assert broken(device("gpu", 0, {}), None) == "is not there any more"
    assert broken(Grant(kind="nobody's", id="0"), None) == ""


# --- CPUs and NUMA nodes ----------------------------------------------------------------------------------------------


def cores(text: str, cpu: int = 2000, **labels: str) -> PodTemplate:
    """A pod with a record."""
    qos = {names.LABEL_QOS: labels.pop("qos", "LSR")}
    return PodTemplate(
        requests={names.CPU: cpu, names.MEMORY: 4096},
        labels=qos,
        annotations={names.ANNOTATION_RESOURCE_STATUS: text},
    )


def own(*cpus: int, extension: str = "") -> tuple[Grant, ...]:
    return tuple(one(CPU, str(cpu), extension) for cpu in cpus)


def test_a_bind_writes_what_koordinator_does() -> None:
    grants = (*own(9, 8, 3), Grant(kind=ZONE, id="1", amounts={names.MEMORY: 8 << 30, names.CPU: 3000}))
    assert annotations_of(Bound("p", grants))[names.ANNOTATION_RESOURCE_STATUS] == (
        '{"cpuset":"3,8-9","numaNodeResources":[{"node":1,"resources":{"cpu":"3","memory":"8Gi"}}]}'
    )


def test_a_pod_holds_the_cpus_of_its_record_and_no_more_than_it_asks_for() -> None:
    assert held_by_pod(cores('{"cpuset":"4-5"}'), None)[:2] == (own(4, 5), ())
    assert held_by_pod(cores('{"cpuset":"4-7"}'), None)[:2] == (own(4, 5), ())
    assert held_by_pod(cores('{"cpuset":"4"}'), None)[:2] == ((), ("cores",)), "fewer than it asks for"
    exclusive = cores('{"cpuset":"4-5"}')
    exclusive.annotations[names.ANNOTATION_RESOURCE_SPEC] = '{"preferredCPUExclusivePolicy":"PCPULevel"}'
    assert held_by_pod(exclusive, None).grants == own(4, 5, extension="PCPULevel")


def test_a_pod_without_a_record_shares() -> None:
    for text in ("", "{}"):
        assert held_by_pod(cores(text), None)[:2] == ((), ())


def test_a_node_may_have_given_cpus_to_a_pod_that_does_not_ask() -> None:
    assert held_by_pod(cores('{"cpuset":"4-7"}', 2500, qos="LS"), None)[:2] == (own(4, 5), ())
    assert held_by_pod(cores("{", qos="LS"), None)[:2] == ((), ())


def test_what_runs_beside_the_containers_has_no_cpus_of_its_own() -> None:
    with_overhead = structs.replace(cores('{"cpuset":"4-5"}', 2250), overhead={names.CPU: 250})
    assert held_by_pod(with_overhead, None)[:2] == (own(4, 5), ())


def test_zones_count_for_no_more_than_the_request() -> None:
    shares = [{"node": zone, "resources": {"cpu": "1500m", "memory": "3Ki"}} for zone in (1, 0, 1)]
    found = held_by_pod(cores(json.dumps({"numaNodeResources": shares}), qos="LS"), None)
    assert found.grants == (
        Grant(kind=ZONE, id="0", amounts={names.CPU: 1500, names.MEMORY: 3072}),
        Grant(kind=ZONE, id="1", amounts={names.CPU: 500, names.MEMORY: 1024}),
    )
