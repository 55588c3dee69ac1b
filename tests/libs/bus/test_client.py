"""The short way in: every message reaches its taker, however the bytes are cut and whatever stands between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nats.aio.client import DEFAULT_BUFFER_SIZE
from nats.errors import BadHeaderError, BadSubjectError

from berth.bus.client import Delivery, DirectClient, _hpub

OURS, THEIRS = 7, 9


def message(sid: int, number: int, size: int, head: bytes) -> bytes:
    body = b"%d:" % number + b"x" * size
    if head:
        return b"HMSG s.%d %d r.%d %d %d\r\n%b%b\r\n" % (
            number,
            sid,
            number,
            len(head),
            len(head) + len(body),
            head,
            body,
        )
    return b"MSG s.%d %d %d\r\n%b\r\n" % (number, sid, len(body), body)


parts = st.lists(
    st.one_of(
        st.tuples(st.just(OURS), st.integers(0, 60), st.sampled_from([b"", b"NATS/1.0\r\na: b\r\n\r\n"])),
        st.tuples(st.just(THEIRS), st.integers(0, 60), st.just(b"")),
        st.sampled_from([b"PONG\r\n", b"+OK\r\n"]),
    ),
    max_size=12,
)


class Recording(DirectClient):
    """A client without a connection that notes what is not a taker's."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[bytes] = []

    async def _process_pong(self) -> None:
        """Nobody waits."""

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        if sid == THEIRS:
            self.others.append(data)
        else:
            await super()._process_msg(sid, subject, reply, data, headers)


@settings(max_examples=100, deadline=None)
@given(stream=parts, cuts=st.lists(st.integers(1, 40), max_size=40))
def test_every_message_arrives_once_and_in_order(stream: list[Any], cuts: list[int]) -> None:
    wire, ours, theirs = b"", [], []
    for number, part in enumerate(stream):
        if isinstance(part, bytes):
            wire += part
            continue
        sid, size, head = part
        wire += message(sid, number, size, head)
        (ours if sid == OURS else theirs).append((b"%d:" % number + b"x" * size, head))

    async def feed() -> tuple[list[Delivery], list[bytes]]:
        client, got = Recording(), []
        client.takers[OURS] = got.append
        rest = wire
        for cut in [*cuts, len(wire)]:
            if rest:
                await client._ps.parse(rest[:cut])
                rest = rest[cut:]
        return got, client.others

    got, others = asyncio.run(feed())
    assert [(each.data, each.raw_headers) for each in got] == ours
    assert others == [data for data, _ in theirs]
    assert all(each.headers == {"a": "b"} for each in got if each.raw_headers)


@pytest.mark.parametrize("head", [b"", b"NATS/1.0\r\na: b\r\n\r\n"])
@pytest.mark.parametrize("cut", [0, 12])
async def test_a_subject_that_is_no_text_arrives_all_the_same(head: bytes, cut: int) -> None:
    wire = message(OURS, 0, 3, head).replace(b" s.0 ", b" s.\xff ").replace(b" r.0 ", b" r.\xfe ")
    client, got = Recording(), []
    client.takers[OURS] = got.append
    for part in (wire[:cut], wire[cut:], message(OURS, 1, 3, head)):
        if part:
            await client._ps.parse(part)
    assert [each.subject for each in got] == ["s.\ufffd", "s.1"]
    assert [each.data for each in got] == [b"0:xxx", b"1:xxx"]


@pytest.mark.parametrize(("size", "rests"), [(DEFAULT_BUFFER_SIZE, 0), (DEFAULT_BUFFER_SIZE - 1, 1), (5, 1)])
async def test_a_reader_that_pauses_does_not_while_there_is_more(size: int, rests: int) -> None:
    client, seen = Recording(), []

    async def rest(messages: int) -> None:
        seen.append(messages)

    client.read_pause_s, client.rest = 0.01, rest  # type: ignore[method-assign]
    await client._ps.parse((b"+OK\r\n" * (size // 5 + 1))[:size])
    assert len(seen) == rests


@pytest.mark.parametrize(
    ("pause_s", "messages", "rest_s"),
    [(0.01, 0, 0.01), (0.01, 1, 0.01), (0.01, 4, 0.04), (0.01, 50, 0.1), (0.25, 1, 0.25), (0.25, 9, 0.25)],
)
def test_a_reader_that_pauses_does_so_the_longer_the_more_it_has_read(
    pause_s: float, messages: int, rest_s: float
) -> None:
    assert DirectClient(read_pause_s=pause_s).read_rest_s(messages) == pytest.approx(rest_s)


def test_a_line_break_cannot_be_smuggled_into_headers() -> None:
    with pytest.raises(BadHeaderError):
        _hpub("s", "", b"", {"a": "b\r\nc: d"})


@pytest.mark.parametrize("subject", ["", " ", "a b", "a ", "\ta", "a\r\nPUB b 0", "a\x00"])
async def test_an_illegal_subject_is_refused(bus: Any, subject: str) -> None:
    with pytest.raises(BadSubjectError):
        bus._link.client.post(subject, b"", "", None)
