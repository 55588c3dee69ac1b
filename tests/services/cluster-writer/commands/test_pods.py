"""What is told of a pod: that it cannot be placed, and what happened to it."""

from __future__ import annotations

import msgspec
import pytest
from tests.services.worlds.writer.command_bench import refusal

from berth.cluster_writer.commands.outcomes import RetryLaterError
from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.command import ReportPod
from berth.contracts.errors import InvalidMessage
from berth.contracts.state import Synced
from berth.kube import resources
from berth.kube.answer import Answer
from berth.rules.eviction_notes import Nominated, nomination_note


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
