"""Which commands are carried out at all, come again, or are broken."""

from __future__ import annotations

import pytest
from tests.services.worlds.writer.command_bench import RESERVATION_API, eviction, refusal

from berth.bus.port import Message
from berth.cluster_writer.commands.outcomes import RetryLaterError
from berth.contracts.codec import encode
from berth.contracts.command import PatchNode, PatchObject
from berth.contracts.errors import InvalidMessage
from berth.kube.answer import Answer, answer_of


@pytest.mark.parametrize("status", [0, 401, 403, 429, 500])
async def test_what_may_work_later_comes_again(desk, api, status):
    node = api.node("n")
    api.on("patch", lambda name, body: Answer(status))
    command = PatchNode(name="n", uid=node.uid, labels={"a": "b"})
    with pytest.raises(RetryLaterError):
        await desk.send(command)
    await desk.send(command)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b'{"type":"pod.burn.v1"}', b'{"type":"pod.refuse.v1","namespace":3}', b"\xff"],
)
async def test_broken_commands(desk, data):
    with pytest.raises(InvalidMessage):
        await desk.commands.handle(Message(subject="berth.v1.cmd.x", data=data))


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
