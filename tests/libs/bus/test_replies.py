"""Requests that wait for their answer, without a connection."""

from __future__ import annotations

import asyncio

import pytest

from berth.bus import Denied, Disconnected, NoAnswer, TimedOut
from berth.bus.client import Delivery
from berth.bus.replies import Replies

INBOX = "_INBOX_x.1"


def delivery(reply: str, data: bytes = b"yes", headers: bytes = b"") -> Delivery:
    return Delivery(reply, "", data, headers)


async def test_the_first_answer_counts() -> None:
    replies = Replies(INBOX)
    with replies.expect("a") as first, replies.expect("a") as second:
        replies.take(delivery(second.reply, b"2"))
        replies.take(delivery(first.reply, b"1"))
        replies.take(delivery(first.reply, b"late"))
        assert (await first.answer(1.0)).data == b"1"
        assert (await second.answer(1.0)).data == b"2"
    replies.take(delivery(first.reply, b"nobody waits any more"))


async def test_nobody_answers_or_nobody_listens() -> None:
    replies = Replies(INBOX)
    with replies.expect("a") as expected, pytest.raises(TimedOut, match=r"no answer within 0\.01 s: a"):
        await expected.answer(0.01)
    with replies.expect("a") as expected:
        replies.take(delivery(expected.reply, b"", b"NATS/1.0 503\r\n\r\n"))
        with pytest.raises(NoAnswer):
            await expected.answer(1.0)


async def test_a_cancellation_is_never_swallowed_by_an_answer() -> None:
    replies = Replies(INBOX)
    with replies.expect("a") as expected:
        waiting = asyncio.create_task(expected.answer(1.0))
        await asyncio.sleep(0)
        replies.take(delivery(expected.reply))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_loss_fails_what_waits_and_nothing_later() -> None:
    replies = Replies(INBOX)
    with replies.expect("a") as before:
        replies.lose()
        with pytest.raises(Disconnected):
            await before.answer(1.0)
        with replies.expect("a") as after:
            replies.take(delivery(after.reply))
            assert (await after.answer(1.0)).data == b"yes"


async def test_whoever_may_not_read_answers_waits_for_none_until_the_next_connection() -> None:
    replies = Replies(INBOX)
    with replies.expect("a") as before:
        assert replies.deny("subscription", replies.subject.lower()) == replies.subject
        with replies.expect("b") as after:
            for expected in (before, after):
                with pytest.raises(Denied):
                    await expected.answer(1.0)
    replies.begin()
    with replies.expect("a") as expected:
        replies.take(delivery(expected.reply))
        assert (await expected.answer(1.0)).data == b"yes"


async def test_a_denied_request_is_told_apart_from_others() -> None:
    replies = Replies(INBOX)
    with replies.expect("Some.Subject") as denied, replies.expect("other") as other:
        assert replies.deny("publish", "some.subject") == "Some.Subject"
        with pytest.raises(Denied, match=r"Some\.Subject"):
            await denied.answer(1.0)
        replies.take(delivery(other.reply))
        assert (await other.answer(1.0)).data == b"yes"
