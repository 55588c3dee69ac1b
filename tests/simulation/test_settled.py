"""What is judged at the end finds one difference at a time, made behind the back of a settled cluster."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from tests.simulation import workload
from tests.simulation.harness import Harness, build
from tests.simulation.laws import Pardon
from tests.simulation.planted.bookings import bookings
from tests.simulation.settled import unsettled
from tests.simulation.settled.alarms import Alarms
from tests.simulation.settled.held import GROUPS, SCHEDULING, objects
from tests.simulation.unmetered import unmetered
from tests.simulation.users import Users
from tests.simulation.workload import Create, Size, Timed

from berth.contracts import buckets, names, subjects
from berth.contracts.codec import encode
from berth.contracts.event import AuditReported
from berth.contracts.ledger import Allocation, Decision
from berth.invariants import Counts
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.testing.simulation.nats.message import Stored
from berth.testing.simulation.nats.stream import Stream
from berth.transaction.ledger_view import Held

POD = ("", "pods", "team/pod-0")
NODE = ("", "nodes", "node-0")
DEVICE = (SCHEDULING, "devices", "node-0")
QUOTA = (GROUPS, "elasticquotas", "team/a")
GROUP_A = subjects.quota_key("", "a")
TAINT = {"key": "k", "effect": "NoExecute"}
KEPT = (SCHEDULING, "reservations", "kept-0")
Object = tuple[str, str, str]
Json = dict[str, Any]


def users() -> list[Timed]:
    """A pod that pays, one that waits for ever, and a Reservation with a user that does not use it up."""
    booked = next(timed.action for timed in bookings(random.Random(0), Size(singles=0, reservations=1)))
    assert isinstance(booked, Create)
    booked.manifest["spec"]["ttl"] = "1h"
    pays, small = {workload.QUOTA_LABEL: "a"}, PodRequest(500, 512, 1, 200)
    pods = [
        pod_manifest("pod-0", small, namespace=workload.NAMESPACE, labels=pays),
        pod_manifest("pod-1", PodRequest(500_000, 512), namespace=workload.NAMESPACE),
        pod_manifest("user-0", small, namespace=workload.NAMESPACE, labels={workload.OWNER_LABEL: "kept-0"}),
    ]
    return [Timed(4.0, booked), *(Timed(8.0, Create(pod)) for pod in pods)]


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with ExitStack() as stack:
        harness = build(1, workload.cluster(random.Random(1), Size(nodes=2)), {}, log_level="error")
        stack.callback(harness.world.close)
        stack.enter_context(harness.journal)
        stack.enter_context(unmetered())
        Users(harness.world, harness.kube).plan(users())
        harness.world.run(20.0)
        assert harness.world.run_until(lambda: not unsettled(harness), 60.0, every_s=1.0), unsettled(harness)
        yield harness


@contextmanager
def changed(harness: Harness, what: Object, change: Callable[[Json], object]) -> Iterator[None]:
    """An object is otherwise, and nobody was told."""
    data = objects(harness, what[0], what[1])[what[2]].data
    before = copy.deepcopy(data)
    change(data)
    try:
        yield
    finally:
        data.clear()
        data.update(before)


@contextmanager
def rewritten(harness: Harness, bucket: str, key: str, change: Callable[[Json], object] | None) -> Iterator[None]:
    """A bucket holds another message under a key, or (None) nothing."""
    messages = harness.nats.streams[f"KV_{bucket}"].messages
    number = next(number for number, each in messages.items() if each.subject == f"$KV.{bucket}.{key}")
    held = messages.pop(number)
    before = held.data
    if change is not None:
        said = msgspec.json.decode(before)
        change(said)
        held.data = msgspec.json.encode(said)
        messages[number] = held
    try:
        yield
    finally:
        held.data = before
        messages[number] = held


@contextmanager
def misses(harness: Harness, what: Object) -> Iterator[None]:
    """An object is not there, and nobody was told."""
    items = objects(harness, what[0], what[1])
    gone = items.pop(what[2])
    try:
        yield
    finally:
        items[what[2]] = gone


def setting(*path: str | int, to: object) -> Callable[[Json], object]:
    """Another value at a place."""

    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = to

    return change


def refused(pod: Json) -> None:
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "too late"}]


@pytest.mark.parametrize(
    ("what", "change", "told"),
    [
        (POD, setting("metadata", "labels", workload.QUOTA_LABEL, to="b"), "pod team/pod-0: "),
        (POD, setting("metadata", "annotations", names.ANNOTATION_QUOTA, to="/b"), "ElasticQuota b: its pods use"),
        (POD, setting("spec", "nodeName", to="node-9"), "the API says"),
        (POD, setting("status", "phase", to="Succeeded"), "ElasticQuota a: its pods use {}"),
        (NODE, setting("spec", to={"unschedulable": True}), "node node-0: True is shown as False"),
        (NODE, setting("status", "allocatable", "cpu", to="1"), "node node-0: "),
        (DEVICE, setting("spec", "devices", 0, "health", to=False), "INVENTORY, node.node-0, gpu 0: is"),
        (DEVICE, setting("spec", "devices", to=[]), "healthy devices sum up to {}"),
        (DEVICE, setting("spec", "devices", 0, "health", to=False), "node node-0 offers"),
        (NODE, setting("spec", to={"taints": [TAINT]}), "node node-0: [('k', '', 'NoExecute')] is shown as []"),
        (POD, refused, "pod team/pod-0 is bound, and shows that it is not: too late"),
        (QUOTA, setting("metadata", "annotations", to={}), f"ElasticQuota a: {names.ANNOTATION_QUOTA_RUNTIME} is"),
        (QUOTA, setting("spec", "max", "cpu", to="1m"), "QUOTA, group a: max is"),
        (QUOTA, setting("status", "used", "cpu", to="7"), "ElasticQuota a: its pods use"),
        (KEPT, setting("status", "currentOwners", to=[]), "reservation kept-0 is used by ['team/user-0'], it shows"),
        (KEPT, setting("status", "allocated", "cpu", to="9"), "of reservation kept-0 its users hold"),
        (KEPT, setting("status", "nodeName", to="node-9"), "reservation kept-0 is Available on node-9"),
        (KEPT, setting("status", to={"phase": "Pending"}), "reservation kept-0 is neither placed nor told why not"),
        (KEPT, setting("status", to={"phase": "Pending"}), "RESERVATION, kept-0: phase is Pending, shown as Available"),
        (KEPT, setting("spec", "ttl", to="1s"), "reservation kept-0 ended at"),
        (KEPT, setting("spec", "expires", to="2025-06-15T15:06:45Z"), "reservation kept-0 ended at 5 s"),
        (KEPT, setting("spec", "allocateOnce", to=True), "reservation kept-0 serves one pod"),
        (KEPT, setting("status", "phase", to="Failed"), "reservation kept-0 is Failed before its end"),
    ],
)
def test_an_object_that_is_otherwise_is_found(harness: Harness, what: Object, change: Any, told: str) -> None:
    with changed(harness, what, change):
        assert any(told in text for text in unsettled(harness)), unsettled(harness)
    assert unsettled(harness) == []


@pytest.mark.parametrize(
    ("bucket", "key", "change", "told"),
    [
        (buckets.STATE, "pod.team.pod-0", None, "STATE shows no pod.team.pod-0"),
        (buckets.STATE, "namespace.team", None, "STATE shows no namespace.team"),
        (buckets.STATE, "pod.team.pod-1", setting("version", to=1), "STATE shows pod.team.pod-1 in version 1"),
        (buckets.STATE, "pod.team.pod-0", setting("uid", to="another"), "of uid another"),
        (buckets.STATE, "pod.team.pod-0", setting("template", "requests", "cpu", to=1), "pod team/pod-0: "),
        (buckets.STATE, "node.node-0", setting("allocatable", "cpu", to=1), "node node-0: "),
        (buckets.STATE, "reservation.kept-0", setting("node", to="node-9"), "STATE says ('kept-0', 'node-9'"),
        (buckets.STATE, "reservation.kept-0", setting("phase", to=4), "STATE key reservation.kept-0"),
        (buckets.STATE, "pod.team.pod-0", setting("node", to=4), "a message cannot be read"),
        (buckets.STATE, "namespace.team", setting("version", to="x"), "a message cannot be read"),
        (buckets.INVENTORY, "node.node-1", setting("devices", to=4), "a message cannot be read"),
        (buckets.INVENTORY, "node.node-1", None, "INVENTORY shows no node.node-1"),
        (buckets.INVENTORY, "node.node-1", setting("devices", 0, "amounts", to={}), "INVENTORY, node.node-1, gpu 0"),
        (buckets.INVENTORY, "node.node-1", setting("totals", to={}), "INVENTORY, node.node-1: healthy devices"),
        (buckets.QUOTA, GROUP_A, None, "QUOTA shows no group a"),
        (buckets.QUOTA, GROUP_A, setting("runtime", "cpu", to=1), "QUOTA, group a: runtime is"),
        (buckets.QUOTA, GROUP_A, setting("request", to={}), "QUOTA, group a: request is"),
        (buckets.RESERVATION, "reservation.kept-0", None, "RESERVATION shows no kept-0"),
        (buckets.RESERVATION, "reservation.kept-0", setting("amounts", to={}), "RESERVATION, kept-0: capacity is"),
    ],
)
def test_a_message_that_is_otherwise_is_found(harness: Harness, bucket: str, key: str, change: Any, told: str) -> None:
    with rewritten(harness, bucket, key, change):
        assert any(told in text for text in unsettled(harness)), unsettled(harness)
    assert unsettled(harness) == []


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (("", "pods", "team/pod-1"), "STATE shows pod.team.pod-1, which is not there"),
        (DEVICE, "INVENTORY shows node.node-0, of which there is no Device"),
        ((GROUPS, "elasticquotas", "team/b"), "of which there is no ElasticQuota"),
        (KEPT, "RESERVATION shows reservation.kept-0, which is not there"),
        (NODE, "which is not there"),
    ],
)
def test_what_is_not_there_any_more_is_found(harness: Harness, what: Object, told: str) -> None:
    with misses(harness, what):
        assert any(told in text for text in unsettled(harness)), unsettled(harness)


def test_each_finding_names_its_promise(harness: Harness) -> None:
    with changed(harness, KEPT, setting("spec", "ttl", to="1s")):
        assert [text.split(":")[0] for text in unsettled(harness)] == ["L1 settles"]
    with rewritten(harness, buckets.STATE, "pod.team.pod-1", None):
        assert [text.split(":")[0] for text in unsettled(harness)] == ["I8 rebuilt-equals"]


def test_a_look_counts_what_it_judges_and_what_it_excuses(harness: Harness) -> None:
    counts = Counts()
    leaving = setting("metadata", "deletionTimestamp", to="2025-06-15T15:07:00Z")
    with changed(harness, ("", "pods", "team/pod-1"), leaving), ExitStack() as stack:
        stack.enter_context(changed(harness, ("", "pods", "team/pod-1"), setting("status", "conditions", to=[])))
        replica = harness.host.of("reservation-manager")[0]
        assert replica.process is not None
        stack.enter_context(changed(harness, KEPT, setting("spec", "ttl", to="1s")))
        stack.enter_context(patch.object(replica.process.clock, "now", lambda: 0.0))
        left = [text for text in unsettled(harness, counts) if text.startswith("L1")]
    assert left == []
    assert counts.judgements["L1"] > len(harness.host.replicas) + 3
    assert counts.judgements["I8"] > 3
    assert counts.excuses == {("L1", Pardon.LEAVING): 1, ("L1", Pardon.CLOCK): 1}


def test_a_node_that_was_made_again_excuses_a_reservation(harness: Harness) -> None:
    counts = Counts()
    with ExitStack() as stack:
        stack.enter_context(changed(harness, KEPT, setting("status", "phase", to="Failed")))
        node = objects(harness, *KEPT[:2])[KEPT[2]].data["status"]["nodeName"]
        made = setting("metadata", "creationTimestamp", to="2035-06-15T15:07:00Z")
        stack.enter_context(changed(harness, ("", "nodes", node), made))
        assert not [text for text in unsettled(harness, counts) if text.startswith("L1")]
    assert counts.excuses == {("L1", Pardon.NODE_REMADE): 1}


def test_an_alarm_is_untrue_only_when_nothing_is_wrong(harness: Harness) -> None:
    alarms = Alarms(harness)
    node = objects(harness, "", "pods")["team/pod-0"].data["spec"]["nodeName"]
    said = AuditReported(promise="I1b", title="", subject=f"node {node}, cpu")
    with changed(harness, ("", "nodes", node), setting("status", "allocatable", "cpu", to="1m")):
        alarms.hear(said)
    assert alarms.untrue([]) == []
    alarms.hear(said)
    assert [text.split(" at ")[0] for text in alarms.untrue([])] == [f"I1b node {node}, cpu"]


def test_a_difference_that_is_over_when_it_is_told_was_one(harness: Harness) -> None:
    node = objects(harness, "", "pods")["team/pod-0"].data["spec"]["nodeName"]
    small = (("", "nodes", node), setting("status", "allocatable", "cpu", to="1m"))

    def said(at_ms: int) -> AuditReported:
        return AuditReported(promise="I1b", title="", subject=f"node {node}, cpu", at_ms=at_ms)

    alarms = Alarms(harness)
    with changed(harness, *small):
        alarms.begins(5_000)
    alarms.hear(said(at_ms=5_200))
    alarms.begins(15_000)
    alarms.hear(said(at_ms=5_200))  # the same, held up by the bus
    assert alarms.untrue([]) == []
    alarms.hear(said(at_ms=15_200))
    assert len(alarms.untrue([])) == 1, "it was over before that look began"


def test_what_was_decided_when_a_look_began_is_kept_with_it(harness: Harness) -> None:
    alarms = Alarms(harness)
    uid = objects(harness, "", "pods")["team/pod-1"].uid
    decision = Decision(
        plan="p",
        namespace="team",
        name="pod-1",
        uid=uid,
        attempt=0,
        node="node-0",
        pod_version=1,
        basis=1,
        allocation=Allocation(amounts={"cpu": 500_000}),
    )
    with patch.dict(harness.observer.view.decisions, {("team", "pod-1"): Held(1, decision)}):
        alarms.begins(5_000)
    alarms.hear(AuditReported(promise="I1b", title="", subject="node node-0, cpu", at_ms=5_200))
    assert alarms.untrue([]) == []


@pytest.mark.parametrize(("auditors", "least", "most"), [(1, 1, 5), (0, 0, 0)])
def test_every_look_of_the_auditor_is_noticed_and_nobody_elses(auditors: int, least: int, most: int) -> None:
    began: list[int] = []
    with ExitStack() as stack:
        harness = build(1, workload.cluster(random.Random(1), Size(nodes=2)), {"auditor": auditors}, log_level="error")
        stack.callback(harness.world.close)
        stack.enter_context(harness.journal)
        stack.enter_context(unmetered())
        stack.enter_context(patch.object(Alarms(harness), "begins", began.append))
        harness.world.run(20.0)
    assert least <= len(began) <= most


def test_undone_decisions_are_excused_by_trouble(harness: Harness) -> None:
    alarms = Alarms(harness)
    alarms.hear(AuditReported(promise="I4", title="", subject="pod team/pod-0"))
    assert len(alarms.untrue([])) == 1
    before, now_s = harness.observer.verdicts.excuses["alarms", Pardon.TROUBLE], harness.world.now
    assert alarms.untrue([(now_s - 31.0, now_s)]) == []
    assert alarms.untrue([(now_s - 80.0, now_s - 45.0), (now_s - 50.0, now_s - 40.0), (now_s - 12.0, now_s)]) == []
    assert harness.observer.verdicts.excuses["alarms", Pardon.TROUBLE] == before + 2


def test_undone_decisions_have_to_be_done_in_the_time_between_troubles(harness: Harness) -> None:
    alarms, now_s = Alarms(harness), harness.world.now
    alarms.hear(AuditReported(promise="I4", title="", subject="pod team/pod-0"))
    assert len(alarms.untrue([(now_s - 1.0, now_s)])) == 1
    assert len(alarms.untrue([(now_s - 55.0, now_s - 41.0), (now_s - 50.0, now_s - 35.0)])) == 1


def test_an_entry_that_nobody_can_read_is_a_difference(harness: Harness) -> None:
    alarms = Alarms(harness)

    def said(key: str) -> AuditReported:
        return AuditReported(promise="I0", title="", subject=f"ledger key {key}")

    with patch.object(harness.nats, "garbled", lambda: iter(["e1.plan.p"])):
        alarms.hear(said("e1.plan.p"))
    assert alarms.untrue([]) == []
    alarms.hear(said("e1.plan.p"))
    assert len(alarms.untrue([])) == 1


def test_a_gang_that_is_not_half_there_is_no_difference_in_trouble_either(harness: Harness) -> None:
    alarms = Alarms(harness)
    alarms.hear(AuditReported(promise="I3", title="", subject="gang team/g"))
    assert len(alarms.untrue([(harness.world.now - 1.0, harness.world.now)])) == 1


def test_every_event_of_the_auditor_is_heard(harness: Harness) -> None:
    alarms = Alarms(harness)
    stream = Stream(harness.nats, {"name": buckets.EVENTS, "subjects": []})
    alarms.watch(stream)
    event = encode(AuditReported(promise="I1", title="", subject="node n1, gpu 0"))
    for subject in ("berth.v1.evt.audit.reported.found.I1.a", "berth.v1.evt.audit.reported.gone.I1.a"):
        stream.tell([Stored(1, subject, b"", event, 0, 0, "")])
    assert len(alarms.untrue([])) == 1
