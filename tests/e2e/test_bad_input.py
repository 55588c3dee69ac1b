"""Malformed, absurd and hostile input: refused by the name of the field, counted, and nothing else suffers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.e2e.clusters import REAL
from tests.e2e.corner import Corner
from tests.e2e.objects import DEVICES, NODES, PODS, devices_of, gpu
from tests.e2e.recount import over_capacity
from tests.e2e.waiting import WAIT_S, until
from tests.e2e.whole import Whole

from berth.bus.errors import BusError
from berth.bus.port import Entry, Message
from berth.contracts import buckets, names, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.event import ObjectRefused
from berth.contracts.question import StatusQuestion
from berth.testing.views import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

GANG = names.GANG_PREFIX
SOLVER = "placement-solver"
REFUSED = "berth_solver_refused_total"


async def refused_and_counted(corner: Corner, field: str, *, door: bool = False, **pod: Any) -> None:
    """The pod is refused naming the field, here and to whoever asks, and counted; the next pod is placed."""
    whole = corner.whole
    await corner.node("n", gpus=1)
    before = await whole.counted(SOLVER, REFUSED)
    at_the_door = await whole.counted("cluster-watcher", "berth_cluster_malformed_total")
    await corner.pod("bad", **pod)
    said = await corner.refused("bad", field)
    assert "To repair" in said or "correct" in said or field in said
    why = await whole.why(corner.namespace, "bad")
    assert why.outcome in ("refused", "waiting")
    assert field in " ".join([why.message, *(f"{reason.field} {reason.message}" for reason in why.reasons)])
    if why.outcome == "refused":
        assert await whole.counted(SOLVER, REFUSED) > before
    if door:
        assert await whole.counted("cluster-watcher", "berth_cluster_malformed_total") > at_the_door
    await corner.placed_now()


# --- pods ------------------------------------------------------------------------------------------------------------

AMOUNTS: dict[str, tuple[dict[str, str], str]] = {
    "more than a node can ever have": ({"cpu": "9E"}, "cpu"),
    "half a GPU too many": ({names.GPU_CORE: "150", names.GPU_MEMORY_RATIO: "150"}, "resources.requests"),
    "names that do not go together": ({names.NVIDIA_GPU: "1", names.GPU_CORE: "50"}, "resources.requests"),
    "compute without memory": ({names.GPU_CORE: "50"}, "resources.requests"),
    "absurd GPU memory": ({names.GPU_MEMORY: "8Ei"}, "resources.requests"),
}


@pytest.mark.parametrize("what", AMOUNTS)
async def test_absurd_amounts(corner: Corner, what: str) -> None:
    requests, field = AMOUNTS[what]
    await refused_and_counted(corner, field, requests=requests)


@pytest.mark.parametrize("text", ["-1", "NaN", "1e", "0x10", ""])
async def test_what_the_api_server_would_refuse_never_comes_further(corner: Corner, text: str) -> None:
    status, answer = await corner.whole.try_call(
        "POST", PODS.format(corner.namespace), corner.manifest("bad", {"cpu": text})
    )
    assert status in (400, 422), answer
    await corner.node("n")
    await corner.placed_now()


BAD_NOTES: dict[str, tuple[dict[str, str], str]] = {
    "gang minimum in words": ({f"{GANG}name": "g", f"{GANG}min-available": "two"}, f"{GANG}min-available"),
    "gang minimum below zero": ({f"{GANG}name": "g", f"{GANG}min-available": "-3"}, f"{GANG}min-available"),
    "reservation affinity cut off": (
        {names.ANNOTATION_RESERVATION_AFFINITY: '{"name": '},
        names.ANNOTATION_RESERVATION_AFFINITY,
    ),
    "reservation affinity of another shape": (
        {names.ANNOTATION_RESERVATION_AFFINITY: '{"reservationSelector": [1, 2]}'},
        names.ANNOTATION_RESERVATION_AFFINITY,
    ),
}


@pytest.mark.parametrize("what", BAD_NOTES)
async def test_malformed_annotations(corner: Corner, what: str) -> None:
    annotations, field = BAD_NOTES[what]
    await refused_and_counted(corner, field, annotations=annotations)


async def test_a_malformed_attempt_is_named_and_does_not_stop_anybody(whole: Whole, corner: Corner) -> None:
    if whole.cluster.kind == REAL:  # the policy of the manifests lets nobody but cluster-writer write such a note
        manifest = corner.manifest("bad", annotations={names.ANNOTATION_ATTEMPT: "x"})
        status, answer = await whole.try_call("POST", PODS.format(corner.namespace), manifest)
        assert (status, answer["reason"]) == (422, "Invalid"), answer
        assert "belong to cluster-writer" in answer["message"]
        return
    await refused_and_counted(corner, names.ANNOTATION_ATTEMPT, door=True, annotations={names.ANNOTATION_ATTEMPT: "x"})


async def test_gang_groups_that_cannot_be_read(corner: Corner) -> None:
    notes = {f"{GANG}name": "g", f"{GANG}min-available": "1", f"{GANG}groups": "{not json"}
    await corner.node("n")
    await corner.pod("bad", annotations=notes)

    async def settled() -> str:
        why = await corner.whole.why(corner.namespace, "bad")
        return why.outcome if why.outcome in ("bound", "refused") or why.reasons else ""

    await until(settled, "a decision on the pod")
    await corner.placed_now()


async def test_a_bound_pod_whose_devices_cannot_be_read_blocks_its_node_only(whole: Whole, corner: Corner) -> None:
    broken = await corner.node("broken", gpus=2)
    sound = await corner.node("sound", gpus=2)
    await corner.until_counted(broken, 2)
    await corner.until_counted(sound, 2)
    notes = {names.ANNOTATION_DEVICE_ALLOCATED: "{broken"}
    request = {names.NVIDIA_GPU: "1"}
    await corner.pod("theirs", request, scheduler="koord-scheduler", annotations=notes, nodeName=broken)
    placed = await corner.bound(*[await corner.pod(f"p{i}", request) for i in range(2)])
    assert {pod["spec"]["nodeName"] for pod in placed} == {sound}
    await corner.pod("third", request)
    await corner.refused("third", "devices are unknown")
    await corner.placed_now(requests={"cpu": "6"})
    await corner.delete_pod("theirs")
    await corner.bound("third")


async def test_an_annotation_as_large_as_the_server_takes(corner: Corner) -> None:
    await corner.node("n")
    big = {"example.com/anything": "x" * 200_000}
    await corner.pod("p", annotations=big)
    await corner.bound("p")
    await corner.pod("q", annotations={f"{GANG}name": "g", f"{GANG}min-available": "9" * 200_000})
    await corner.refused("q", f"{GANG}min-available")
    await corner.placed_now()


async def test_a_megabyte_of_annotations_is_refused_at_the_server_or_by_name(corner: Corner) -> None:
    await corner.node("n")
    manifest = corner.manifest("p", annotations={f"{GANG}groups": "x" * (1 << 20), f"{GANG}name": "g"})
    status, _ = await corner.whole.try_call("POST", PODS.format(corner.namespace), manifest)
    if status < 300:
        await corner.refused("p", GANG)
    await corner.placed_now()


@pytest.mark.parametrize("length", [254, 5_000, 1 << 20])
async def test_names_that_are_too_long(corner: Corner, length: int) -> None:
    manifest = corner.manifest("n" * length)
    status, _ = await corner.whole.try_call("POST", PODS.format(corner.namespace), manifest)
    assert status in (400, 413, 422)
    await corner.node("n")
    await corner.placed_now()


async def test_an_affinity_with_an_unknown_operator(corner: Corner) -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "Resembles", "values": ["b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    manifest = corner.manifest("bad", affinity={"nodeAffinity": required})
    status, _ = await corner.whole.try_call("POST", PODS.format(corner.namespace), manifest)
    await corner.node("n")
    if status < 300:
        await corner.refused("bad", "spec.affinity")
    await corner.placed_now()


# --- other objects ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def quotas_refused(whole: Whole) -> AsyncIterator[set[str]]:
    """The names of quotas that are told to have problems meanwhile."""
    found: set[str] = set()

    async def hear(message: Message) -> None:
        found.add(decode(message.data, ObjectRefused).name)

    subscription = await whole.bus.subscribe("berth.v1.evt.object.refused.elasticquotas.>", hear)
    try:
        yield found
    finally:
        await subscription.unsubscribe()


async def test_a_cycle_of_quotas_concerns_its_groups_only(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    one, two = f"{corner.namespace}-one", f"{corner.namespace}-two"
    async with quotas_refused(whole) as refused:
        for name, parent in (("one", two), ("two", one)):
            await corner.quota(name, {"cpu": "1"}, {"cpu": "4"}, parent=parent, is_parent=True)
        await eventually(lambda: refused & {one, two}, what="the cycle to be told", deadline_s=WAIT_S)
    good = await corner.quota("good", {"cpu": "1"}, {"cpu": "4"})
    await corner.bound(await corner.pod("fine", labels={names.LABEL_QUOTA_NAME: good}))
    await corner.pod("caught", labels={names.LABEL_QUOTA_NAME: one})
    await corner.refused("caught", f"quota {one}")
    await corner.placed_now()


async def test_a_quota_with_a_minimum_below_zero(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    async with quotas_refused(whole) as refused:
        quota = await corner.quota("q", {"cpu": "-4"}, {"cpu": "2"})
        await eventually(lambda: quota in refused, what="the minimum to be told", deadline_s=WAIT_S)
    await corner.bound(await corner.pod("fine", labels={names.LABEL_QUOTA_NAME: quota}))
    non_preemptible = {names.LABEL_QUOTA_NAME: quota, names.LABEL_QUOTA_PREEMPTIBLE: "false"}
    await corner.pod("non-preemptible", labels=non_preemptible)
    await corner.refused("non-preemptible", f"quota {quota}")
    await corner.placed_now()


async def test_a_device_with_doubled_minors_loses_just_those(whole: Whole, corner: Corner) -> None:
    node = f"{corner.namespace}-g"
    entries = [gpu(0, "GPU-a"), gpu(0, "GPU-b"), gpu(1, "GPU-c"), {**gpu(2, "GPU-d"), "minor": -1}]
    before = await whole.counted("device-inventory", "berth_devices_faulty_nodes")
    await corner.device("g", entries)
    await corner.node("g")
    await corner.until_counted(node, 1)

    async def counted() -> bool:
        return await whole.counted("device-inventory", "berth_devices_faulty_nodes") > before

    await until(counted, "the node to be counted as faulty")
    (pod,) = await corner.bound(await corner.pod("p", {names.NVIDIA_GPU: "1"}))
    assert [grant["minor"] for grant in devices_of(pod)] == [1]
    await corner.pod("q", {names.NVIDIA_GPU: "1"})
    await corner.refused("q", "Insufficient gpu devices")


async def test_a_device_with_absurd_amounts_is_not_given_out(whole: Whole, corner: Corner) -> None:
    amounts = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "900", names.GPU_MEMORY: "-5Gi"}
    await corner.device("g", [{**gpu(0, "GPU-a"), "resources": amounts}, gpu(1, "GPU-b")])
    await corner.node("g")
    await corner.until_counted(f"{corner.namespace}-g", 1)
    (pod,) = await corner.bound(await corner.pod("p", {names.NVIDIA_GPU: "1"}))
    assert [grant["minor"] for grant in devices_of(pod)] == [1]


async def test_a_node_with_amounts_below_zero_takes_nothing(whole: Whole, corner: Corner) -> None:
    amounts = {"cpu": "-8", "memory": "lots", "pods": "110"}
    bad = f"{corner.namespace}-bad"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": bad, "labels": {"test.berth.sh/corner": corner.namespace}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    status, _ = await whole.try_call("POST", NODES, node)
    good = await corner.node("good")
    (pod,) = await corner.bound(await corner.pod("p"))
    assert pod["spec"]["nodeName"] == good
    if status < 300:
        await whole.call("DELETE", f"{NODES}/{bad}")


async def test_a_reservation_nobody_can_own(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    name = await corner.reservation(
        "r", {"cpu": "1"}, owners=[{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]
    )
    affinity = {names.ANNOTATION_RESERVATION_AFFINITY: json.dumps({"name": name})}
    await corner.pod("owner", annotations=affinity, labels={"owner": "r"})
    await corner.refused("owner", "no reservations match")
    await corner.placed_now()


# --- the bus ---------------------------------------------------------------------------------------------------------


async def test_commands_that_nobody_can_read_are_dead_letters(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    dead: list[str] = []

    async def note(message: Any) -> None:
        dead.append(message.subject)

    subscription = await whole.bus.subscribe(">", note)
    commands = whole.bus.commands()
    for number, payload in enumerate((b"", b"\x00\xff garbage", b'{"type":"pod.refuse.v99","name":"x"}', b"[" * 5000)):
        await commands.publish(
            subjects.command_subject("refuse", "pods", corner.namespace, f"bad{number}"),
            payload,
            id=f"bad-{corner.namespace}-{number}",
            type="pod.refuse.v99",
        )

    async def parked() -> bool:
        return sum("dead" in subject.lower() for subject in dead) >= 4

    await until(parked, "four dead letters")
    await subscription.unsubscribe()
    await corner.placed_now()
    await corner.pod("big", {"cpu": "100"})
    await corner.refused("big", "Insufficient cpu")


class _Heads:
    """The last sequence of each key."""

    def __init__(self) -> None:
        self.sequences: dict[str, int] = {}

    def reset(self) -> None:
        self.sequences.clear()

    def apply(self, entry: Entry) -> None:
        self.sequences[entry.key] = entry.sequence

    def end(self, sequence: int) -> None:
        pass


HOSTILE = {
    buckets.STATE: [
        "pod.default.ghost",
        "pod.onlyone",
        "node.ghost",
        "reservation.ghost",
        "podgroup.a.b",
        "x.y",
        "synced.pods",
    ],
    buckets.INVENTORY: ["node.ghost"],
    buckets.QUOTA: ["group.=.ghost"],
    buckets.RESERVATION: ["reservation.ghost"],
    buckets.LEDGER: ["e1.decision.default.ghost", "e1.plan.ghost", "e1.account.node.ghost", "nonsense", "e1.x.y"],
}
PAYLOADS = [b"", b"garbage", b'{"type":"pod.seen.v99","name":"x"}', b'{"version":"' + b"9" * 100_000 + b'"}']


@pytest.mark.parametrize("bucket", HOSTILE)
async def test_messages_that_nobody_can_read_change_nothing(whole: Whole, corner: Corner, bucket: str) -> None:
    """Written by a stranger right into a bucket: counted where they are read, and the next pod is placed."""
    await corner.node("n", cpu="64")
    await corner.placed_now("before")
    counters = ("berth_solver_broken_messages_total", "berth_writer_broken_messages_total")
    before = [await whole.counted(name, *counters) for name in (SOLVER, "cluster-writer")]
    starts = {process.name: process.starts for process in whole.stack.services()}
    for key in HOSTILE[bucket]:
        for payload in PAYLOADS:
            await write_over(whole, bucket, key, payload)
    await corner.placed_now("after")
    after = [await whole.counted(name, *counters) for name in (SOLVER, "cluster-writer")]
    assert after[0] > before[0]
    if bucket in (buckets.STATE, buckets.LEDGER):
        assert after[1] > before[1]
    assert {process.name: process.starts for process in whole.stack.services()} == starts
    pods = await whole.items("/api/v1/pods")
    assert over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods) == []


async def write_over(whole: Whole, bucket: str, key: str, payload: bytes) -> None:
    """Put bytes under a key, whatever stands there."""
    owned = whole.bus.owned(bucket, keys=key)
    await owned.ready()
    owned.put(key, payload)
    await owned.drain()
    await owned.close()


async def test_questions_that_make_no_sense_are_answered_with_an_error(whole: Whole, corner: Corner) -> None:
    for payload in (
        b"",
        b"garbage",
        b'{"type":"why.question.v9"}',
        b'{"type":"why.question.v1","namespace":7,"name":"x"}',
    ):
        with pytest.raises(BusError) as caught:
            await whole.bus.ask(subjects.question_subject(SOLVER, "why"), payload)
        assert str(caught.value)
    for name in ("cluster-watcher", "cluster-writer", "quota-manager", "device-inventory", "reservation-manager"):
        answer = await whole.bus.ask(subjects.question_subject(name, "status"), encode(StatusQuestion()))
        assert json.loads(answer)["ready"] is True
    await corner.node("n")
    await corner.placed_now()
