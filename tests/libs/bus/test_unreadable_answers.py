"""Answers of the JetStream API that are not what was asked for: errors of the bus, which nobody dies of."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from berth.bus import jetstream
from berth.bus.consumer_watch import ConsumerWatch
from berth.bus.errors import BusError
from berth.bus.link import Link

GOOD = {"config": {}, "created": "2026-01-01T00:00:00Z"}


class Answer:
    def __init__(self, value: Any) -> None:
        self.data = value if isinstance(value, bytes) else json.dumps(value).encode()


class OddLink:
    """Answers each question with what its name begins with."""

    api = "$JS.API"

    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked = answers, 0

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> Answer:
        self.asked += 1
        return Answer(self.answers[subject.split(".")[2]])


class Ticks:
    """A clock whose sleep ends at once, so many times."""

    def __init__(self, count: int) -> None:
        self.left = count

    async def sleep(self, seconds: float) -> None:
        self.left -= 1
        if self.left < 0:
            raise asyncio.CancelledError


def linked(**answers: Any) -> tuple[OddLink, Link]:
    link = OddLink(**answers)
    return link, cast("Link", link)


@pytest.mark.parametrize(
    "answer",
    [
        {"delivered": 7},
        {"delivered": {"stream_seq": "x"}},
        {"num_ack_pending": None},
        {"error": "text"},
        {"error": {"err_code": "x"}},
        [],
        b"{",
    ],
)
async def test_an_odd_answer_about_a_consumer_does_not_end_its_watch(answer: Any) -> None:
    asked, link = linked(CONSUMER=answer, STREAM=GOOD)
    watch = ConsumerWatch(link, "S", "d", cast("Any", Ticks(3)))
    renewed: list[str] = []

    async def renew(reason: str) -> None:
        renewed.append(reason)

    with pytest.raises(BusError, match=r"CONSUMER\.INFO"):
        await watch.look(is_idle=True)
    with pytest.raises(asyncio.CancelledError):
        await watch.run(lambda: True, renew)
    assert (asked.asked, renewed) == (4, [])


@pytest.mark.parametrize("answer", [{}, {**GOOD, "state": {"messages": "x"}}, {**GOOD, "cluster": 1}])
async def test_an_odd_answer_about_a_stream_is_an_error_of_the_bus(answer: Any) -> None:
    _, link = linked(STREAM=answer)
    with pytest.raises(BusError, match=r"STREAM\.INFO"):
        await jetstream.stream_info(link, "S")


@pytest.mark.parametrize("answer", [{}, {"message": 1}, {"message": {"subject": "s"}}])
async def test_an_odd_message_is_an_error_of_the_bus(answer: Any) -> None:
    _, link = linked(STREAM=answer)
    with pytest.raises(BusError, match=r"STREAM\.MSG\.GET"):
        await jetstream.find(link, "S", {"seq": 1})


class Later:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


async def test_what_is_outstanding_has_to_come_again() -> None:
    """A consumer whose deliveries stand still for longer than any pause, with nothing held here, is not being read."""
    consumer = {
        "delivered": {"stream_seq": 9, "consumer_seq": 12},
        "ack_floor": {"stream_seq": 6},
        "num_ack_pending": 3,
    }
    stream = GOOD | {"state": {"messages": 3, "first_seq": 7, "last_seq": 9}}
    _, link = linked(CONSUMER=consumer, STREAM=stream)
    clock = Later()
    watch = ConsumerWatch(link, "S", "d", cast("Any", clock))
    assert await watch.look(is_idle=True) == ""
    clock.now = 119.0
    assert await watch.look(is_idle=True) == ""
    clock.now = 121.0
    assert await watch.look(is_idle=True) == "nothing came after delivery 12 for 121 s"
    consumer["delivered"] = {"stream_seq": 9, "consumer_seq": 13}
    assert await watch.look(is_idle=True) == ""
    clock.now = 300.0
    assert await watch.look(is_idle=False) == ""
    assert await watch.look(is_idle=True) == ""
