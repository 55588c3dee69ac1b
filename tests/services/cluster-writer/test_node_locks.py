"""What a bind hands to device plugins, and the lock of a node under which it does."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.services.worlds.writer import plain_solver
from tests.services.worlds.writer.bind_bench import BindBench
from tests.services.worlds.writer.decisions import make_decision
from tests.services.worlds.writer.objects import pod_path

from berth.contracts import names, state, subjects
from berth.contracts.codec import encode
from berth.contracts.grants import allocation_of, device
from berth.contracts.ledger import Decision
from berth.kube.answer import Answer
from berth.simcluster import Fault
from berth.simcluster.store import Path
from berth.testing.views import eventually

LOCK = "cambricon.com/dsmlu.lock"
NOW = "2023-11-14T22:13:20Z"
EARLIER = "2023-11-14T22:12:20Z"
LONG_AGO = "2023-11-14T22:08:19Z"
HALF = {names.GPU_CORE: 50, names.GPU_MEMORY_RATIO: 50, names.GPU_MEMORY: 24 << 30}
RECORD = {"gpu": [{"minor": 0, "id": "mlu-0", "resources": {name: str(amount) for name, amount in HALF.items()}}]}
GRANTED = {
    "allocation": allocation_of({}, [device("gpu", 0, HALF)]),
    "annotations": {names.ANNOTATION_PLAN: "p", names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(RECORD)},
}


def devices(desk: BindBench, vendor: str = "cambricon", uuid: str = "mlu-0", **labels: str) -> None:
    labels = {names.LABEL_GPU_VENDOR: vendor, **labels}
    listed = [state.DeviceInfo(kind="gpu", minor=0, uuid=uuid, healthy=True)]
    desk.put(
        subjects.named_key("device", "n"), state.Device(name="n", uid="d", version=1, labels=labels, devices=listed)
    )
    desk.put(subjects.synced_key("devices"), state.Synced(kind="devices", version=1, complete=True))


@pytest.fixture
async def handing(api):
    desk = BindBench(api, cards=0, vendors=frozenset({"huawei", "cambricon", "nvidia"}))
    task = asyncio.create_task(desk.binds.run())
    yield desk
    task.cancel()
    await asyncio.wait([task])


def lock_of(desk: BindBench) -> str | None:
    return (node(desk)["metadata"].get("annotations") or {}).get(LOCK)


def node(desk: BindBench) -> dict:
    return json.loads(bytes(desk.api.store.get(Path("", "v1", "nodes", "", "n")).body))


def lock(desk: BindBench, text: str) -> None:
    reply = desk.api.store.patch(Path("", "v1", "nodes", "", "n"), {"metadata": {"annotations": {LOCK: text}}})
    assert reply.status == 200


def begin(desk: BindBench, name: str = "a") -> Decision:
    return desk.begin(name, **GRANTED)


async def test_the_plugin_reads_what_was_chosen_and_the_lock_is_the_pods(handing):
    devices(handing)
    begin(handing)
    await handing.over()
    notes = handing.api.raw("a")["metadata"]["annotations"]
    assert {key: notes[key] for key in notes if not key.startswith("scheduling.berth.sh/")} == {
        names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(RECORD),
        names.ANNOTATION_BIND_TIMESTAMP: "1700000000000000000",
        names.ANNOTATION_GPU_MINORS: "0",
        "CAMBRICON_DSMLU_ASSIGHED": "false",
        "CAMBRICON_DSMLU_PROFILE": "0_50_96",
    }
    assert lock_of(handing) == f"{NOW},default,a"


@pytest.mark.parametrize("vendor", ["nvidia", "huawei", "metax", ""])
async def test_other_vendors_lock_nothing(handing, vendor):
    devices(handing, vendor)
    begin(handing)
    await eventually(lambda: handing.withdrawn or handing.landed or handing.binds.has_parked())
    handing.end()
    await handing.over()
    assert lock_of(handing) is None
    notes = (handing.api.raw("a")["metadata"].get("annotations") or {}).keys()
    # A share of an NPU without a size would be the whole chip; the hand-off to MetaX is off here.
    assert (names.ANNOTATION_GPU_MINORS in notes) == (vendor in ("nvidia", ""))
    assert bool(handing.withdrawn) == (vendor == "huawei")


async def test_isolated_pods_are_labelled_before_the_bind(handing, api):
    devices(handing, "nvidia")
    pod = api.pod("a")
    api.store.patch(pod_path("a"), {"metadata": {"labels": {names.LABEL_GPU_ISOLATION: "hami-core"}}})
    handing.show("a")
    handing.binds.begin(handing.decide(pod, **GRANTED))
    await handing.over()
    assert api.raw("a")["metadata"]["labels"]["hami.io/vgpu-node"] == "n"
    assert handing.node_of() == "n"


async def test_one_pod_of_a_node_at_a_time(handing):
    devices(handing)
    begin(handing)
    begin(handing, "b")
    await eventually(lambda: handing.landed, what="the first is bound")
    (first,) = handing.landed
    await asyncio.sleep(0.05)
    assert handing.landed == [first], "the plugin has not taken the lock off"
    lock(handing, "")
    await handing.over()
    assert sorted(handing.landed) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "holder", "binds"),
    [
        (f"{EARLIER},default,other", {}, False),
        (f"{LONG_AGO},default,other", {}, True),
        (f"{EARLIER},default,other", None, True),
        (f"{EARLIER},default,other", {"status": {"phase": "Running"}, "node": "n"}, True),
        (f"{EARLIER},default,other", {"status": {"phase": "Pending"}, "node": "n"}, False),
        (f"{EARLIER},default,other", {"status": {"phase": "Pending"}, "node": "elsewhere"}, True),
        (f"{EARLIER},default,other", {"status": {"phase": "Failed"}}, True),
        (f"{EARLIER},default,other", {"withdrawn": True}, True),
        (f"{EARLIER},default,a", {}, True),
        ("garbage", {}, True),
    ],
)
async def test_a_lock_stands_in_the_way_only_while_its_pod_may_need_it(handing, api, text, holder, binds):
    devices(handing)
    lock(handing, text)
    if holder is not None:
        api.pod("other")
        if holder.get("node"):
            body = {"metadata": {"name": "other"}, "target": {"kind": "Node", "name": holder["node"]}}
            assert api.store.bind("default", "other", body).status == 201
        if holder.get("withdrawn"):
            api.store.patch(pod_path("other"), {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "1"}}})
        if "status" in holder:
            reply = api.store.patch(Path("", "v1", "pods", "default", "other", "status"), {"status": holder["status"]})
            assert reply.status == 200
    begin(handing)
    if binds:
        await handing.over()
        assert (handing.landed, lock_of(handing)) == (["a"], f"{NOW},default,a")
    else:
        await asyncio.sleep(0.05)
        assert (handing.landed, lock_of(handing)) == ([], text)


async def test_a_lock_is_freed_when_the_bind_is_withdrawn(handing):
    devices(handing)
    handing.api.on("bind", lambda name: Answer(400, reason="BadRequest"))
    begin(handing)
    await handing.over()
    assert [name for name, _ in handing.withdrawn] == ["a"]
    assert lock_of(handing) is None


async def test_who_follows_a_killed_writer_frees_its_lock_or_goes_on_under_it(handing, api):
    devices(handing)
    pod = api.pod("a")
    lock(handing, f"{EARLIER},default,a")
    handing.show("a")
    handing.binds.give_up(handing.decide(pod, **GRANTED), "its gang is broken")
    await handing.over()
    assert lock_of(handing) is None
    lock(handing, f"{EARLIER},default,b")
    begin(handing, "b")
    await handing.over()
    assert handing.landed == ["b"]


async def test_an_attempt_that_ends_late_leaves_the_lock_of_the_next_one(handing, api):
    devices(handing)
    pod = api.pod("a")
    handing.show("a")
    late = handing.decide(pod, **GRANTED)
    api.store.patch(pod_path("a"), {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "1"}}})
    handing.show("a")
    is_away = asyncio.Event()
    is_away.set()
    handing.api.on("bind", *[lambda name: Answer(503) if is_away.is_set() else None] * 1000)
    handing.binds.begin(handing.decide(handing.cluster.book.pods["default", "a"], plan="q", **GRANTED))
    await eventually(lambda: handing.api.calls["bind"] >= 2, what="the bind is repeated under its lock")
    assert lock_of(handing) == f"{NOW},default,a"
    handing.binds.begin(late)
    await eventually(lambda: len(handing.binds) == 1, what="the attempt that was withdrawn is over")
    assert lock_of(handing) == f"{NOW},default,a"
    is_away.clear()
    await handing.over()
    assert (handing.landed, lock_of(handing)) == (["a"], f"{NOW},default,a")


async def test_the_lock_of_a_predecessors_bind_of_the_next_attempt_stays(handing, api):
    devices(handing)
    pod = api.pod("a")
    handing.show("a")
    late = handing.decide(pod, **GRANTED)
    api.store.patch(pod_path("a"), {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "1"}}})
    handing.show("a")
    handing.decide(handing.cluster.book.pods["default", "a"], plan="q", **GRANTED)
    lock(handing, f"{EARLIER},default,a")
    handing.binds.begin(late)
    await handing.over()
    assert lock_of(handing) == f"{EARLIER},default,a"


async def test_nothing_is_bound_before_it_is_known_whose_devices_they_are(handing):
    begin(handing)
    await eventually(handing.binds.has_parked)
    devices(handing)
    await handing.over()
    assert lock_of(handing) == f"{NOW},default,a"


async def test_a_card_that_was_swapped_under_the_lock_is_not_bound_to(handing):
    devices(handing)

    def swap(name, body):
        devices(handing, uuid="mlu-9")

    handing.api.on("patch", swap)
    begin(handing)
    await eventually(lambda: handing.withdrawn or handing.binds.has_parked())
    handing.end()
    await handing.over()
    assert handing.withdrawn == [("a", "gpu minor 0 on n is mlu-9 now, and was mlu-0")]
    assert lock_of(handing) is None


@pytest.mark.parametrize("after", [{"vendor": "nvidia"}, {"uuid": "mlu-9", "vendor": "nvidia"}])
async def test_a_lock_is_given_up_also_when_the_devices_became_anothers_meanwhile(handing, after):
    devices(handing)

    def change(name, body):
        devices(handing, **after)

    handing.api.on("patch", change)
    begin(handing)
    await eventually(lambda: handing.withdrawn or handing.landed or handing.binds.has_parked())
    handing.end()
    await handing.over()
    assert [name for name, _ in handing.withdrawn] == ["a"] * ("uuid" in after)
    lock(handing, "")
    devices(handing)
    begin(handing, "b")
    await handing.over()
    assert handing.landed[-1] == "b"


async def test_a_node_that_cannot_be_written_is_tried_again(handing):
    devices(handing)
    handing.api.on("patch", *[lambda name, body: Answer(409, reason="Conflict")] * 7)
    begin(handing)
    await handing.over()
    assert (handing.landed, lock_of(handing)) == (["a"], f"{NOW},default,a")


async def test_what_a_vendor_cannot_be_told_is_refused_by_its_field(handing):
    devices(handing)
    record = {"gpu": [{"minor": 0, "id": "mlu-0", "resources": {names.GPU_MEMORY: "1Gi"}}]}
    handing.begin(**GRANTED | {"annotations": {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(record)}})
    await eventually(lambda: handing.withdrawn or handing.binds.has_parked())
    handing.end()
    await handing.over()
    ((_, reason),) = handing.withdrawn
    assert reason == (
        f"metadata.annotations[{names.ANNOTATION_DEVICE_ALLOCATED}].gpu[minor 0].resources[{names.GPU_CORE}]: "
        "Cambricon needs it"
    )
    assert lock_of(handing) is None


async def test_a_writer_is_killed_between_the_lock_and_the_bind(world, monkeypatch):
    monkeypatch.setattr(
        plain_solver, "make_decision", lambda pod, plan, node, **more: make_decision(pod, plan, node, **GRANTED)
    )
    listed = [state.DeviceInfo(kind="gpu", minor=0, uuid="mlu-0", healthy=True)]
    found = state.Device(name="n0", uid="d", version=1, labels={names.LABEL_GPU_VENDOR: "cambricon"}, devices=listed)
    await world.solver(nodes=1)
    world.mirror.owned.put(subjects.named_key("device", "n0"), encode(found))
    world.mirror.owned.put(
        subjects.synced_key("devices"), encode(state.Synced(kind="devices", version=1, complete=True))
    )
    place = Path("", "v1", "nodes", "", "n0")

    def locked() -> str:
        annotations = json.loads(bytes(world.sim.store.get(place).body))["metadata"].get("annotations") or {}
        return annotations.get(LOCK, "")

    world.sim.faults.set((Fault(kind="error", status=503, verbs=("bind",)),))
    first = await world.writer("first", hand_off=("cambricon",))
    world.pod("a")
    await eventually(lambda: locked().endswith(",default,a"), what="the lock stands")
    await world.kill(first)
    assert not world.is_bound("a")
    world.sim.faults.set(())
    await world.writer("second", hand_off=("cambricon",))
    await world.all_bound()
    assert locked().endswith(",default,a")
    world.pod("b")
    await asyncio.sleep(0.5)
    assert not world.is_bound("b"), "the device plugin has not seen to the first yet"
    world.delete("a")
    await eventually(lambda: world.is_bound("b"), what="the lock of a pod that is gone counts no longer")
    assert locked().endswith(",default,b")
    assert all(len(binds) == 1 for binds in world.bound.values())
