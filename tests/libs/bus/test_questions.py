from __future__ import annotations

import asyncio
import json

import pytest

from berth.bus import Bus, InvalidMessage, NoAnswer, RemoteError, TimedOut, questions
from berth.contracts.subjects import question_subject
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually, eventually_async

ECHO = question_subject("quota", "echo")


async def echo(question: bytes) -> bytes:
    return b"echo " + question


async def test_one_instance_answers(bus: Bus, connect) -> None:
    await (await connect("quota")).serve("quota", "1.0.0", {"echo": echo})
    assert await bus.ask(ECHO, b"hello") == b"echo hello"


async def test_every_instance_answers_a_question_to_all(bus: Bus, connect) -> None:
    for number in range(3):

        async def who(question: bytes, number: int = number) -> bytes:
            return b"%d" % number

        await (await connect(f"quota-{number}")).serve("quota", "1.0.0", {"who": who})
    answers = await bus.ask_all(question_subject("quota", "who"), b"", wait_s=0.5)
    assert sorted(answers) == [b"0", b"1", b"2"]
    assert await bus.ask(question_subject("quota", "who"), b"") in answers


async def test_whoever_is_not_meant_says_nothing(bus: Bus, connect) -> None:
    for number in range(2):

        async def only(question: bytes, number: int = number) -> bytes | None:
            return b"me" if question == b"%d" % number else None

        await (await connect(f"quota-{number}")).serve("quota", "1.0.0", {"only": only})
    assert await bus.ask_all(question_subject("quota", "only"), b"1", wait_s=0.3) == [b"me"]
    assert await bus.ask_all(question_subject("quota", "only"), b"2", wait_s=0.3) == []


async def test_nobody_there_is_said_at_once(bus: Bus) -> None:
    with pytest.raises(NoAnswer, match="nobody listens"):
        await bus.ask(ECHO, b"", timeout_s=5)
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await bus.ask_all(ECHO, b"", wait_s=5) == []
    assert loop.time() - started < 3


async def test_failures_become_clean_answers(bus: Bus, connect) -> None:
    async def fail(question: bytes) -> bytes:
        raise RuntimeError("password=hunter2")

    async def refuse(question: bytes) -> bytes:
        raise InvalidMessage("namespace", "is missing\r\nX-Evil: ü")

    async def slow(question: bytes) -> bytes:
        await asyncio.sleep(30)
        return b""

    await (await connect("quota")).serve("quota", "1.0.0", {"fail": fail, "refuse": refuse, "slow": slow})
    with pytest.raises(RemoteError) as failed:
        await bus.ask(question_subject("quota", "fail"), b"")
    assert failed.value.code == "500"
    assert "hunter2" not in str(failed.value)
    with pytest.raises(RemoteError) as refused:
        await bus.ask(question_subject("quota", "refuse"), b"")
    assert refused.value.code == "400"
    assert "namespace: is missing" in refused.value.message
    with pytest.raises(TimedOut):
        await bus.ask(question_subject("quota", "slow"), b"", timeout_s=0.2)
    assert await bus.ask_all(question_subject("quota", "fail"), b"", wait_s=0.3) == []


async def test_a_slow_question_does_not_hold_up_the_others(bus: Bus, connect) -> None:
    gate = asyncio.Event()

    async def maybe(question: bytes) -> bytes:
        if question == b"slow":
            await gate.wait()
        return question

    await (await connect("quota")).serve("quota", "1.0.0", {"maybe": maybe})
    subject = question_subject("quota", "maybe")
    slow = asyncio.create_task(bus.ask(subject, b"slow", timeout_s=20))
    assert await bus.ask(subject, b"fast") == b"fast"
    gate.set()
    assert await slow == b"slow"


async def test_a_handler_that_never_ends_is_given_up(bus: Bus, connect, monkeypatch) -> None:
    monkeypatch.setattr(questions, "TIMEOUT_S", 0.1)

    async def stuck(question: bytes) -> bytes:
        await asyncio.sleep(3600)
        return b""

    await (await connect("quota")).serve("quota", "1.0.0", {"stuck": stuck})
    with pytest.raises(RemoteError, match="500"):
        await bus.ask(question_subject("quota", "stuck"), b"", timeout_s=5)


async def test_answers_go_on_after_a_kill(bus: Bus, connect, nats_server: NatsServer) -> None:
    await (await connect("quota")).serve("quota", "1.0.0", {"echo": echo})
    nats_server.restart()

    async def answered() -> bool:
        try:
            return await bus.ask(ECHO, b"again", timeout_s=1) == b"echo again"
        except Exception:
            return False

    await eventually_async(answered)


async def test_a_service_shows_itself_to_the_tools_of_nats(bus: Bus, connect) -> None:
    await (await connect("quota")).serve("quota", "1.2.3", {"echo": echo})
    info = json.loads(await bus.ask("$SRV.INFO.quota", b""))
    assert info["name"] == "quota"
    assert info["version"] == "1.2.3"
    assert {endpoint["subject"] for endpoint in info["endpoints"]} == {ECHO, f"{ECHO}.all"}


async def test_a_subscription_sees_what_is_published_also_after_a_kill(bus: Bus, nats_server: NatsServer) -> None:
    seen: list[bytes] = []

    async def note(message) -> None:
        seen.append(message.data)
        if message.data == b"1":
            raise RuntimeError("a callback that fails is logged, no more")

    subscription = await bus.subscribe("berth.v1.view.>", note)
    await bus._link.publish("berth.v1.view.cluster", b"1")
    await eventually(lambda: seen == [b"1"])
    nats_server.restart()

    async def published() -> bool:
        try:
            await bus._link.publish("berth.v1.view.cluster", b"2")
        except Exception:
            return False
        return b"2" in seen

    await eventually_async(published)
    await subscription.unsubscribe()
    count = len(seen)
    await bus._link.publish("berth.v1.view.cluster", b"3")
    await bus.ask_all(ECHO, b"", wait_s=0.2)
    assert len(seen) == count
