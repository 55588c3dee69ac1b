"""Commands of the other services, against the simulated API without HTTP."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest
from msgspec.structs import replace

from berth.bus.port import Message
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.commands import Commands, RetryLaterError
from berth.cluster_writer.eviction_publisher import EvictionPublisher
from berth.cluster_writer.node_evictions import NodeEvictions
from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.command import (
    MANAGER,
    AnnotateNode,
    ApplyObject,
    DeleteObject,
    EvictionNote,
    EvictPod,
    OfferNode,
    PatchNode,
    PatchObject,
    RefusePod,
    ReportPod,
)
from berth.contracts.errors import InvalidMessage
from berth.contracts.kube import OwnerReference
from berth.contracts.state import Synced
from berth.kube import resources
from berth.kube.answer import Answer, answer_of
from berth.rules.eviction_notes import Nominated, nomination_note
from berth.runtime.clock import SystemClock
from berth.simcluster.store import Path

RESERVATION_API = "scheduling.koordinator.sh/v1alpha1/reservations"


class FakeOutbox:
    def __init__(self):
        self.notes = []

    def put(self, note):
        self.notes.append(note)


class FakePublisher:
    def offer(self, *_, **__):
        return True


def eviction(pod, **given):
    note = EvictionNote(need="BEMemoryEvict-1", feature="BEMemoryEvict", accumulator="podUsed", message="full")
    said = {"reason": "NodePressure", "node": pod.node, "revision": 5, "note": note, **given}
    return EvictPod(namespace="default", name=pod.name, uid=pod.uid, **said)


def subject_of(command):
    """The one that its sender puts it on."""
    match command:
        case PatchNode():
            return subjects.command_subject("patch", "nodes", command.name)
        case AnnotateNode():
            return subjects.command_subject("annotate", "nodes", command.name)
        case OfferNode():
            return subjects.command_subject("offer", "nodes", command.name)
        case ApplyObject():
            plural = command.api.rpartition("/")[2] or "nodeslos"
            names = [command.namespace, command.name] if command.namespace else [command.name]
            return subjects.command_subject("apply", plural, *names)
        case DeleteObject():
            return subjects.command_subject("delete", command.api.rpartition("/")[2], command.name)
        case PatchObject():
            plural = command.api.rpartition("/")[2]
            names = [command.namespace, command.name] if command.namespace else [command.name]
            return subjects.command_subject("patch", plural, *names)
        case RefusePod():
            return subjects.command_subject("refuse", "pods", command.namespace, command.name)
        case ReportPod():
            return subjects.command_subject("report", "pods", command.namespace, command.name)
        case EvictPod():
            return subjects.command_subject("evict", "pods", command.namespace, command.name)


class Bench:
    def __init__(self, api):
        self.api, self.outbox = api, FakeOutbox()
        self.cluster = ClusterView(lambda *args: None)
        clock = SystemClock()
        evictions = NodeEvictions(api, clock, EvictionPublisher(FakePublisher(), self.outbox))
        self.commands = Commands(self.cluster, api, self.outbox, clock, evictions)

    async def send(self, command):
        await self.commands.handle(Message(subject=subject_of(command), data=encode(command)))

    def show(self, name):
        pod = self.api.seen(name)
        self.cluster.read_state(subjects.pod_key("default", name), encode(pod), deleted=False, gap=False)
        return pod


@pytest.fixture
def desk(api):
    return Bench(api)


def refusal(pod, message="no capacity", **more):
    return RefusePod(namespace="default", name=pod.name, uid=pod.uid, message=message, **more)


@pytest.mark.parametrize("is_shown", [True, False], ids=["in view", "not in view yet"])
async def test_a_refusal_is_written_once(desk, api, is_shown):
    pod = api.pod("a")
    if is_shown:
        desk.show("a")
    for _ in range(2):
        await desk.send(refusal(pod))
    assert api.seen("a").unschedulable == "no capacity"
    assert [note.message for note in desk.outbox.notes] == ["no capacity"]
    assert api.calls["patch status"] == 1
    await desk.send(refusal(pod, "still no capacity"))
    assert api.seen("a").unschedulable == "still no capacity"


async def noted(api, name):
    note = nomination_note(Nominated("p", "n"))
    await api.patch(resources.PODS, "default", name, {"metadata": {"annotations": note}})
    await api.patch(resources.PODS, "default", name, {"status": {"nominatedNodeName": "n"}}, subresource="status")


async def test_a_nomination_that_its_pod_could_not_have_is_taken_back(desk, api):
    pod = api.pod("a")
    await desk.send(refusal(pod))
    await noted(api, "a")
    await desk.send(refusal(pod, lets_go="another"))
    assert api.seen("a").nominated == "n"
    await desk.send(refusal(pod, lets_go="p"))
    assert (api.seen("a").nominated, api.seen("a").unschedulable) == ("", "no capacity")
    assert len(desk.outbox.notes) == 1, "what the pod shows is no news"
    await noted(api, "a")
    await desk.send(refusal(pod, "still no capacity", lets_go="p"))
    assert (api.seen("a").nominated, api.seen("a").unschedulable) == ("", "still no capacity")


async def test_a_nomination_that_ledger_holds_is_not_taken_back(desk, api, decide):
    api.pod("a")
    await noted(api, "a")
    pod = desk.show("a")
    key, held = subjects.decision_key(0, "default", "a"), decide(pod, "p", "n", nominates=True)
    desk.cluster.read_ledger(key, encode(held), deleted=False, sequence=1)
    await desk.send(refusal(pod, lets_go="p"))
    assert (api.seen("a").nominated, api.seen("a").unschedulable) == ("n", "no capacity")


def report(pod, **more):
    told = {"id": "8d2f6c1e", "reason": "StartedWithoutGrant", "message": "env X", **more}
    return ReportPod(namespace="default", name=pod.name, uid=pod.uid, **told)


async def test_a_report_is_an_event_about_the_very_pod(desk, api):
    pod = api.pod("a")
    desk.show("a")
    await desk.send(report(pod))
    await desk.send(report(pod, id="8d2f6c1f", warning=False))
    told = [(note.about.uid, note.reason, note.message, note.warning, note.token) for note in desk.outbox.notes]
    assert told == [
        (pod.uid, "StartedWithoutGrant", "env X", True, "8d2f6c1e"),
        (pod.uid, "StartedWithoutGrant", "env X", False, "8d2f6c1f"),
    ]
    await desk.send(msgspec.structs.replace(report(pod), uid="another"))
    assert len(desk.outbox.notes) == 2


async def test_of_a_pod_that_is_not_in_view_no_event_is_made(desk, api):
    pod = api.pod("a")
    with pytest.raises(RetryLaterError):
        await desk.send(report(pod))
    marker = encode(Synced(kind="pods", version=9, complete=True))
    desk.cluster.read_state(subjects.synced_key("pods"), marker, deleted=False, gap=False)
    desk.cluster.end_of_state()
    await desk.send(report(pod))
    assert desk.outbox.notes == []


@pytest.mark.parametrize(("field", "value"), [("id", "../x"), ("id", ""), ("reason", "two words"), ("reason", "")])
async def test_a_report_that_no_event_can_be_made_of_is_refused(desk, api, field, value):
    with pytest.raises(InvalidMessage) as refused:
        await desk.send(report(api.pod("a"), **{field: value}))
    assert refused.value.field == field
    assert desk.outbox.notes == []


async def test_a_pod_with_a_field_of_the_wrong_type_gets_its_condition(desk, api):
    pod = api.pod("a")
    shown = api.raw("a")
    shown["spec"]["containers"] = [{"name": "c", "ports": [{"containerPort": "80", "hostPort": "80"}]}]
    api.on("get", lambda name: Answer(200, msgspec.json.encode(shown)))
    await desk.send(refusal(pod, "hostPort cannot be read"))
    assert api.seen("a").unschedulable == "hostPort cannot be read"


async def test_a_refusal_is_compared_with_the_pod_and_not_with_a_late_view(desk, api):
    pod = api.pod("a")
    await desk.send(refusal(pod, "one"))
    desk.show("a")
    await desk.send(refusal(pod, "two"))
    await desk.send(refusal(pod, "one"))
    assert api.seen("a").unschedulable == "one"


async def test_a_pod_bound_meanwhile_is_not_refused(desk, api):
    pod = api.pod("a")
    desk.show("a")
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
    api.on("patch status", lambda name, body_: api.store.bind("default", "a", body) and None)
    with pytest.raises(RetryLaterError):
        await desk.send(refusal(pod))
    await desk.send(refusal(pod))
    assert api.seen("a").unschedulable == ""
    assert desk.outbox.notes == []


async def test_what_the_world_has_overtaken_is_done(desk, api):
    pod = api.pod("a")
    api.remove("a")
    await desk.send(refusal(pod))
    await desk.send(eviction(pod, node="n"))
    api.pod("a")
    await desk.send(refusal(pod))
    await desk.send(eviction(pod, node="n"))
    assert api.raw("a")
    assert api.seen("a").unschedulable == ""


@pytest.mark.parametrize("status", [0, 401, 403, 429, 500])
async def test_what_may_work_later_comes_again(desk, api, status):
    node = api.node("n")
    api.on("patch", lambda name, body: Answer(status))
    command = PatchNode(name="n", uid=node.uid, labels={"a": "b"})
    with pytest.raises(RetryLaterError):
        await desk.send(command)
    await desk.send(command)


async def test_a_node_gets_resources_and_labels(desk, api):
    node = api.node("n")
    await desk.send(PatchNode(name="n", uid=node.uid, resources={"x/gpu": "2"}, labels={"a": "b"}))
    path = Path("", "v1", "nodes", "", "n")
    raw = api.store.get(path).body.decode()
    assert '"x/gpu":"2"' in raw
    assert '"a":"b"' in raw
    await desk.send(PatchNode(name="n", uid=node.uid, resources={"x/gpu": None}))
    assert "x/gpu" not in api.store.get(path).body.decode()
    await desk.send(PatchNode(name="n", uid="another", labels={"a": "c"}))
    assert '"a":"b"' in api.store.get(path).body.decode()


async def test_a_node_shows_what_it_lends_in_one_write(desk, api):
    node = api.node("n")
    path = Path("", "v1", "nodes", "", "n")
    note, batch = names.ANNOTATION_ORIGIN_ALLOCATABLE, names.BATCH_CPU

    def shown():
        found = json.loads(api.store.get(path).body)
        status, meta = found["status"], found["metadata"]
        version = int(meta["resourceVersion"])
        return (
            status["capacity"].get(batch),
            status["allocatable"].get(batch),
            (meta.get("annotations") or {}).get(note),
            version,
        )

    version = shown()[-1]
    await desk.send(OfferNode(name="n", uid=node.uid, resources={batch: "5k"}, annotations={note: "{}"}))
    assert shown() == ("5k", "5k", "{}", version + 1)
    await desk.send(OfferNode(name="n", uid="another", resources={batch: "6k"}))
    await desk.send(OfferNode(name="gone", uid=node.uid, resources={batch: "6k"}))
    assert shown()[0] == "5k"
    for wrong in ({"resources": {"cpu": "100"}}, {"annotations": {names.ANNOTATION_RAW_ALLOCATABLE: "{}"}}):
        with pytest.raises(InvalidMessage, match=next(iter(wrong))):
            await desk.send(OfferNode(name="n", uid=node.uid, **wrong))
    await desk.send(OfferNode(name="n", uid=node.uid, resources={batch: None}, annotations={note: None}))
    assert shown()[:3] == (None, None, None)


async def test_a_node_gets_the_annotations_that_are_listed(desk, api):
    node = api.node("n")
    ratio, amplified = names.ANNOTATION_CPU_NORMALIZATION_RATIO, names.ANNOTATION_AMPLIFICATION_RATIO

    def shown():
        annotations = json.loads(api.store.get(Path("", "v1", "nodes", "", "n")).body)["metadata"].get("annotations")
        return annotations or {}

    await desk.send(AnnotateNode(name="n", uid=node.uid, annotations={ratio: "1.20", amplified: '{"cpu":1.20}'}))
    assert shown() == {ratio: "1.20", amplified: '{"cpu":1.20}'}
    await desk.send(AnnotateNode(name="n", uid=node.uid, annotations={amplified: None}))
    assert shown() == {ratio: "1.20"}
    await desk.send(AnnotateNode(name="n", uid="another", annotations={ratio: "2.00"}))
    await desk.send(AnnotateNode(name="n", uid=node.uid))
    await desk.send(AnnotateNode(name="gone", uid=node.uid, annotations={ratio: "2.00"}))
    assert shown() == {ratio: "1.20"}
    for other in (names.ANNOTATION_RAW_ALLOCATABLE, "example.com/x"):
        with pytest.raises(InvalidMessage, match="annotations"):
            await desk.send(AnnotateNode(name="n", uid=node.uid, annotations={ratio: "2.00", other: "x"}))
    assert shown() == {ratio: "1.20"}


async def test_annotations_and_status_of_an_object(desk, api):
    seen = api.reservation("r")
    status = {"phase": "Available", "nodeName": "n"}
    command = PatchObject(
        api=RESERVATION_API,
        name="r",
        uid=seen.uid,
        version=str(seen.version),
        annotations={"koordinator.sh/x": "y"},
        status=status,
    )
    await desk.send(command)
    after = api.seen_reservation("r")
    assert (after.phase, after.node, after.annotations["koordinator.sh/x"]) == ("Available", "n", "y")
    await desk.send(command)
    assert api.seen_reservation("r").version == after.version, "its version is past"


async def test_the_second_half_of_a_patch_is_guarded_too(desk, api):
    seen = api.reservation("r")
    path = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", "r")
    api.on("patch status", lambda name, body: api.store.patch(path, {"metadata": {"labels": {"a": "b"}}}) and None)
    await desk.send(
        PatchObject(
            api=RESERVATION_API,
            name="r",
            uid=seen.uid,
            version=str(seen.version),
            annotations={"koordinator.sh/x": "y"},
            status={"phase": "Failed"},
        )
    )
    assert api.seen_reservation("r").phase != "Failed"


async def test_a_status_without_a_version_is_written_to_the_object_that_is_meant(desk, api):
    seen = api.reservation("r")
    path = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", "r")
    command = PatchObject(api=RESERVATION_API, name="r", uid=seen.uid, status={"phase": "Failed"})
    api.on("patch status", lambda name, body: api.store.patch(path, {"metadata": {"labels": {"a": "b"}}}) and None)
    with pytest.raises(RetryLaterError):
        await desk.send(command)
    assert api.seen_reservation("r").phase != "Failed"
    await desk.send(command)
    assert api.seen_reservation("r").phase == "Failed"


async def test_another_objects_uid_is_overtaken(desk, api):
    api.reservation("r")
    await desk.send(PatchObject(api=RESERVATION_API, name="r", uid="former", status={"phase": "Failed"}))
    await desk.send(PatchObject(api=RESERVATION_API, name="r", uid="former", labels={"a": "b"}))
    assert api.seen_reservation("r").phase != "Failed"


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b'{"type":"pod.burn.v1"}', b'{"type":"pod.refuse.v1","namespace":3}', b"\xff"],
)
async def test_broken_commands(desk, data):
    with pytest.raises(InvalidMessage):
        await desk.commands.handle(Message(subject="berth.v1.cmd.x", data=data))


async def test_other_kinds_may_not_be_patched(desk):
    for command in (
        PatchObject(api="v1/secrets", name="r", uid="u", status={}),
        PatchObject(api="other/v1/reservations", name="r", uid="u", status={}),
    ):
        with pytest.raises(InvalidMessage, match=command.api):
            await desk.commands.handle(Message(subject="berth.v1.cmd.patch.reservations.r", data=encode(command)))


async def test_an_eviction_on_the_subject_of_another_command_is_refused(desk, api):
    pod = api.pod("a")
    evicted = []
    api.on("evict", lambda name: evicted.append(name))
    asked = encode(eviction(pod))
    for tail in ("apply.nodeslos.a", "refuse.pods.default.a", "report.pods.default.a", "evict.pods.default.b"):
        subject = f"berth.v1.cmd.{tail}"
        with pytest.raises(InvalidMessage, match=r"^(type|name)"):
            await desk.commands.handle(Message(subject=subject, data=asked))
    assert evicted == []


async def test_what_the_api_refuses_for_good_is_broken(desk, api):
    seen = api.reservation("r")
    api.on("patch status", lambda name, body: Answer(422, reason="Invalid"))
    with pytest.raises(InvalidMessage, match="422"):
        await desk.send(PatchObject(api=RESERVATION_API, name="r", uid=seen.uid, status={"phase": "x"}))


@pytest.mark.parametrize("status", [400, 402, 405, 422])
async def test_a_page_of_a_proxy_breaks_no_command(desk, api, status):
    seen = api.reservation("r")
    api.on("patch status", lambda name, body: answer_of(status, b"<html>no such site</html>", "Bad Request", None))
    with pytest.raises(RetryLaterError, match=str(status)):
        await desk.send(PatchObject(api=RESERVATION_API, name="r", uid=seen.uid, status={"phase": "x"}))


SLO_API = "slo.koordinator.sh/v1alpha1/nodeslos"
SLO = Path("slo.koordinator.sh", "v1alpha1", "nodeslos", "", "n")


NODE = Path("", "v1", "nodes", "", "n")


def strategy(percent, *, uid, revision=1):
    spec = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressThresholdPercent": percent}}
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid)
    return ApplyObject(api=SLO_API, name="n", spec=spec, owner=owner, revision=revision)


@pytest.fixture
def uid(api):
    """A node that is there."""
    return api.node("n").uid


def register_again(api):
    """The node is deleted and comes back under another uid, which is returned."""
    assert api.store.delete(NODE).status == 200
    return api.node("n").uid


def applied(api):
    return json.loads(api.store.get(SLO).body)


async def test_an_object_is_made_then_changed_and_belongs_to_its_owner(desk, api, uid):
    await desk.send(strategy(60, uid=uid))
    made = applied(api)
    assert made["kind"] == "NodeSLO"
    assert made["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 60
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"], owner["uid"]) == ("v1", "Node", "n", uid)
    await desk.send(strategy(70, uid=uid, revision=2))
    again = applied(api)
    assert again["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 70
    assert again["metadata"]["uid"] == made["metadata"]["uid"]
    await desk.send(strategy(70, uid=uid, revision=2))
    assert applied(api) == again


METRIC = Path("slo.koordinator.sh", "v1alpha1", "nodemetrics", "", "n")


async def test_an_object_is_made_with_its_status(desk, api, uid):
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid)
    metric = ApplyObject(
        api="slo.koordinator.sh/v1alpha1/nodemetrics",
        name="n",
        spec={"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        status={"updateTime": "2026-01-01T00:00:00Z"},
        owner=owner,
        revision=1,
    )
    for minute in range(2):
        status = {"updateTime": f"2026-01-01T00:0{minute}:00Z"}
        await desk.send(replace(metric, status=status, revision=minute + 1))
        made = json.loads(api.store.get(METRIC).body)
        assert made["status"]["updateTime"] == status["updateTime"]
        assert made["spec"] == metric.spec
    assert made["metadata"]["labels"] == {names.LABEL_MANAGED_BY: "berth"}


async def test_a_koordlets_metric_is_left_alone(desk, api, uid):
    body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": "n"}, "spec": {}}
    assert api.store.create(METRIC._replace(name=""), body).status == 201
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid)
    status = {"updateTime": "2026-01-01T00:00:00Z"}
    api_name = "slo.koordinator.sh/v1alpha1/nodemetrics"
    await desk.send(ApplyObject(api=api_name, name="n", status=status, owner=owner, revision=1))
    assert "status" not in json.loads(api.store.get(METRIC).body)


async def test_a_request_that_a_newer_one_has_overtaken_is_dropped(desk, api, uid):
    await desk.send(strategy(70, uid=uid, revision=2))
    await desk.send(strategy(60, uid=uid, revision=1))
    assert applied(api)["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 70
    assert applied(api)["metadata"]["annotations"] == {names.ANNOTATION_REVISION: "2"}, "so the next writer knows, too"
    assert api.calls["patch"] == 1


@pytest.mark.parametrize("text", ["", "-3", "soon", "9" * 30, "9" * 18, "²"])
async def test_a_revision_that_is_none_holds_nothing_up(desk, api, uid, text):
    await desk.send(strategy(70, uid=uid, revision=2))
    api.store.patch(SLO, {"metadata": {"annotations": {names.ANNOTATION_REVISION: text}}})
    await desk.send(strategy(60, uid=uid, revision=1))
    assert applied(api)["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 60


def percent(api):
    return applied(api)["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"]


async def test_the_object_of_a_former_node_says_nothing_of_the_new_one(desk, api, uid):
    await desk.send(strategy(70, uid=uid, revision=2))
    after = register_again(api)
    await desk.send(strategy(60, uid=after, revision=1))
    assert percent(api) == 60
    assert [owner["uid"] for owner in applied(api)["metadata"]["ownerReferences"]] == [after]


async def test_an_object_of_a_former_node_is_not_made(desk, api, uid):
    """The view, which shows no node yet, has no part in it."""
    after = register_again(api)
    await desk.send(strategy(60, uid=uid))
    assert api.store.get(SLO).status == 404
    await desk.send(strategy(60, uid=after))
    assert percent(api) == 60
    assert api.store.delete(NODE).status == 200
    assert api.store.delete(SLO).status == 200
    await desk.send(strategy(60, uid=after))
    assert api.store.get(SLO).status == 404


async def test_an_object_of_a_new_node_is_made_under_a_view_that_shows_the_former_one(desk, api):
    former = api.node("n")
    desk.cluster.read_state("node.n", encode(former), deleted=False, gap=False)
    await desk.send(strategy(60, uid=register_again(api), revision=2))
    assert percent(api) == 60


async def test_a_request_for_a_former_node_does_not_replace_the_object_of_the_new_one(desk, api, uid):
    after = register_again(api)
    await desk.send(strategy(60, uid=after, revision=2))
    await desk.send(strategy(40, uid=uid, revision=1))
    assert percent(api) == 60
    assert [owner["uid"] for owner in applied(api)["metadata"]["ownerReferences"]] == [after]


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "missing"])
async def test_a_node_that_registers_again_while_its_object_is_written_wins(desk, api, uid, is_there):
    """The former node was read, then the object of the new one is written: the version has moved on."""
    if is_there:
        await desk.send(strategy(30, uid=uid, revision=1))
    patch = api.patch

    async def late(*args, **options):
        api.patch = patch
        await desk.send(strategy(60, uid=register_again(api), revision=3))
        return await patch(*args, **options)

    api.patch = late
    with pytest.raises(RetryLaterError):
        await desk.send(strategy(40, uid=uid, revision=2))
    await desk.send(strategy(40, uid=uid, revision=2))
    assert percent(api) == 60


@pytest.mark.parametrize("status", [0, 401, 403, 429, 500])
async def test_a_node_that_cannot_be_read_says_nothing(desk, api, uid, status):
    api.on("get", lambda name: None, lambda name: Answer(status))
    with pytest.raises(RetryLaterError):
        await desk.send(strategy(60, uid=uid))
    assert api.store.get(SLO).status == 404
    await desk.send(strategy(60, uid=uid))
    assert percent(api) == 60


async def test_an_object_that_could_not_be_made_comes_again(desk, api, uid):
    api.on("patch", lambda name, body: Answer(503))
    with pytest.raises(RetryLaterError):
        await desk.send(strategy(60, uid=uid, revision=2))
    await desk.send(strategy(60, uid=uid, revision=2))
    assert applied(api)["spec"]


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "missing"])
@pytest.mark.parametrize("order", [(60, 70), (70, 60)], ids=["older first", "newer first"])
async def test_of_two_requests_under_way_at_once_the_newer_one_stays(desk, api, uid, order, is_there):
    """Both were read against the same object; the answer to either may come last."""
    if is_there:
        await desk.send(strategy(50, uid=uid, revision=1))
    revision = {60: 2, 70: 3}
    patch, waiting, go = api.patch, [], asyncio.Event()

    async def slow(*args, **options):
        waiting.append(1)
        if len(waiting) == 2:
            go.set()
        await go.wait()
        return await patch(*args, **options)

    api.patch = slow
    found = await asyncio.gather(
        *(desk.send(strategy(percent, uid=uid, revision=revision[percent])) for percent in order),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in found) == ["NoneType", "RetryLaterError"]
    late = order[next(n for n, each in enumerate(found) if each is not None)]
    api.patch = patch
    await desk.send(strategy(late, uid=uid, revision=revision[late]))
    assert applied(api)["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 70


async def test_other_kinds_may_not_be_made(desk):
    with pytest.raises(InvalidMessage, match="v1/secrets"):
        await desk.commands.apply_object(ApplyObject(api="v1/secrets", name="s"))


DEVICE_API = "scheduling.koordinator.sh/v1alpha1/devices"
DEVICE = Path("scheduling.koordinator.sh", "v1alpha1", "devices", "", "n")


def devices(uid, *, revision=1, health=True, **more):
    entry = {"type": "gpu", "minor": 0, "health": health, "resources": {"koordinator.sh/gpu-core": "100"}}
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid, controller=True)
    spec = {"devices": [entry]}
    return ApplyObject(api=DEVICE_API, name="n", spec=spec, owner=owner, revision=revision, **more)


def device(api):
    answer = api.store.get(DEVICE)
    return json.loads(answer.body) if answer.status == 200 else None


def another_agents(api, **labels):
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n", "labels": labels},
        "spec": {"devices": []},
    }
    assert api.store.create(Path("scheduling.koordinator.sh", "v1alpha1", "devices", ""), body).status == 201
    return device(api)


async def test_a_device_is_made_as_ours_and_what_others_noted_on_it_stays(desk, api, uid):
    await desk.send(devices(uid, labels={"a": "1"}, annotations={"x": "1", "y": "1"}))
    made = device(api)
    assert made["metadata"]["labels"] == {"a": "1", names.LABEL_MANAGED_BY: MANAGER}
    api.store.patch(DEVICE, {"metadata": {"labels": {"by-hand": "true"}}})
    await desk.send(devices(uid, revision=2, health=False, labels={"a": "2"}, annotations={"x": "2"}))
    again = device(api)
    assert again["spec"]["devices"][0]["health"] is False
    assert again["metadata"]["labels"] == {"a": "2", names.LABEL_MANAGED_BY: MANAGER, "by-hand": "true"}
    assert again["metadata"]["annotations"] == {"x": "2", names.ANNOTATION_REVISION: "2"}


@pytest.mark.parametrize("labels", [{}, {names.LABEL_MANAGED_BY: "Koordinator"}], ids=["no label", "another's"])
async def test_the_device_of_another_agent_is_never_touched(desk, api, uid, labels):
    before = another_agents(api, **labels)
    await desk.send(devices(uid))
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid=before["metadata"]["uid"]))
    assert device(api) == before


async def test_a_device_that_another_agent_takes_over_is_its_own(desk, api, uid):
    await desk.send(devices(uid))
    api.store.patch(DEVICE, {"metadata": {"labels": {names.LABEL_MANAGED_BY: None}}})
    before = device(api)
    await desk.send(devices(uid, revision=2, health=False))
    assert device(api) == before


async def test_a_device_that_appears_while_ours_is_made_stays(desk, api, uid):
    patch = api.patch

    async def late(*args, **options):
        another_agents(api)
        return await patch(*args, **options)

    api.patch = late
    with pytest.raises(RetryLaterError):
        await desk.send(devices(uid))
    api.patch = patch
    await desk.send(devices(uid))
    assert device(api)["spec"]["devices"] == []


async def test_only_the_object_that_is_meant_is_deleted(desk, api, uid):
    await desk.send(devices(uid))
    made = device(api)
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid="another"))
    assert device(api) == made
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid=made["metadata"]["uid"]))
    assert device(api) is None
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid=made["metadata"]["uid"]))


async def test_a_device_that_is_taken_over_while_it_is_deleted_stays(desk, api, uid):
    await desk.send(devices(uid))
    made, delete = device(api), api.delete

    async def late(*args, **options):
        api.store.patch(DEVICE, {"metadata": {"labels": {names.LABEL_MANAGED_BY: "Koordinator"}}})
        return await delete(*args, **options)

    api.delete = late
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid=made["metadata"]["uid"]))
    assert device(api)["metadata"]["uid"] == made["metadata"]["uid"]


TOPOLOGY = Path("topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "", "n")


async def test_a_kind_without_a_spec_is_made_of_its_fields(desk, api, uid):
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid)
    fields = {"topologyPolicies": ["None"], "zones": [], "kind": "Secret", "metadata": {"name": "other"}}
    ask = ApplyObject(api="topology.node.k8s.io/v1alpha1/noderesourcetopologies", name="n", fields=fields, owner=owner)
    await desk.send(ask)
    made = json.loads(api.store.get(TOPOLOGY).body)
    assert (made["kind"], made["topologyPolicies"], made["zones"]) == ("NodeResourceTopology", ["None"], [])
    assert made["metadata"]["labels"] == {names.LABEL_MANAGED_BY: MANAGER}
    await desk.commands.delete_object(DeleteObject(api=ask.api, name="n", uid=made["metadata"]["uid"]))
    assert api.store.get(TOPOLOGY).status == 404


QUOTA_API = "scheduling.sigs.k8s.io/v1alpha1/elasticquotas"
QUOTA = Path("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", "default", "pool-root")


def root_quota(cpu, revision=1):
    spec = {"min": {"cpu": cpu}, "max": {"cpu": "100"}}
    return ApplyObject(
        api=QUOTA_API,
        namespace="default",
        name="pool-root",
        spec=spec,
        revision=revision,
        labels={names.LABEL_QUOTA_IS_ROOT: "true"},
    )


async def test_a_quota_is_made_in_its_namespace_and_follows(desk, api):
    await desk.send(root_quota("4"))
    made = json.loads(api.store.get(QUOTA).body)
    assert (made["metadata"]["namespace"], made["spec"]["min"]) == ("default", {"cpu": "4"})
    assert made["metadata"]["labels"] == {names.LABEL_QUOTA_IS_ROOT: "true", names.LABEL_MANAGED_BY: MANAGER}
    await desk.send(root_quota("8", revision=2))
    assert json.loads(api.store.get(QUOTA).body)["spec"]["min"] == {"cpu": "8"}


async def test_quotas_are_not_deleted(desk):
    with pytest.raises(InvalidMessage, match="is none of"):
        await desk.commands.delete_object(DeleteObject(api=QUOTA_API, name="pool-root", uid="u"))


RESERVATIONS_API = "scheduling.koordinator.sh/v1alpha1/reservations"
RESERVATION = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", "r")


async def test_a_reservation_is_deleted_as_it_was_judged(desk, api):
    template = {"spec": {"containers": []}}
    spec = {"template": template, "owners": [{"object": {"name": "p"}}], "ttl": "1h"}
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r"},
        "spec": spec,
    }
    assert api.store.create(RESERVATION._replace(name=""), body).status == 201
    made = json.loads(api.store.get(RESERVATION).body)["metadata"]
    ask = DeleteObject(api=RESERVATIONS_API, name="r", uid=made["uid"], version=made["resourceVersion"])
    for other in (msgspec.structs.replace(ask, uid="another"), msgspec.structs.replace(ask, version="1")):
        await desk.send(other)
        assert api.store.get(RESERVATION).status == 200
    with pytest.raises(InvalidMessage, match="is missing"):
        await desk.send(msgspec.structs.replace(ask, version=""))
    await desk.send(ask)
    assert api.store.get(RESERVATION).status == 404


async def test_kinds_that_nobody_else_writes_may_not_be_deleted(desk):
    with pytest.raises(InvalidMessage, match="is none of"):
        await desk.commands.delete_object(DeleteObject(api=SLO_API, name="n", uid="u"))


async def test_a_spec_that_the_schema_forbids_is_broken(desk, uid):
    with pytest.raises(InvalidMessage, match="422"):
        await desk.send(strategy(500, uid=uid))
