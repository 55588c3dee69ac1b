"""Atomic batches of one stream: collected, then stored whole or not at all.

What is wrong with a message itself ends its batch when it arrives; conditions on the stream are judged at the commit,
in order, against the stream as it is then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.bus import headers as h
from berth.testing.simulation.nats import problems
from berth.testing.simulation.nats.message import Publish, number_of
from berth.testing.simulation.nats.problems import Refusal

if TYPE_CHECKING:
    from berth.testing.simulation.nats.scheduler import Timer
    from berth.testing.simulation.nats.stream import Stream

MESSAGES_MAX = 1000
OPEN_MAX = 50
SILENCE_S = 10.0
ID_MAX = 64
LAST_ID = "Nats-Expected-Last-Msg-Id"


class _Batch:
    __slots__ = ("publishes", "timer")

    def __init__(self) -> None:
        self.publishes: list[Publish] = []
        self.timer: Timer | None = None


class Batches:
    """The open batches of a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._open: dict[str, _Batch] = {}

    def clear(self) -> None:
        """Forget all of them."""
        for name in list(self._open):
            self._end(name)

    def receive(self, publish: Publish) -> None:
        """Take the next message of a batch. Raises Refusal."""
        stream, headers = self._stream, publish.headers
        name = headers[h.BATCH_ID]
        if not stream.config.get("allow_atomic"):
            raise Refusal(problems.BATCH_DISABLED)
        if len(name) > ID_MAX:
            raise Refusal(problems.BATCH_ID)
        number = number_of(headers.get(h.BATCH_SEQUENCE))
        if number is None or number < 0:
            raise Refusal(problems.BATCH_WITHOUT_SEQUENCE)
        commit = headers.get(h.BATCH_COMMIT)
        if commit not in (None, "1", "eob"):
            self._end(name)
            raise Refusal(problems.BATCH_COMMIT)
        batch = self._find(name, number)
        try:
            stream.check_size(publish)
        except Refusal:
            self._end(name)
            raise
        if commit is None:
            batch.publishes.append(publish)
            self._keep(name, batch)
            if publish.reply:
                stream.server.send(publish.reply, b"")
            return
        self._end(name)
        if commit == "1":
            batch.publishes.append(publish)
        if not batch.publishes:
            raise Refusal(problems.BATCH_INCOMPLETE)
        self._commit(name, publish, batch.publishes)

    def _find(self, name: str, number: int) -> _Batch:
        batch = self._open.get(name)
        if batch is None:
            if number != 1:
                raise Refusal(problems.BATCH_INCOMPLETE)
            if len(self._open) >= OPEN_MAX:
                raise Refusal(problems.BATCHES_OPEN)
            batch = self._open[name] = _Batch()
        elif number != len(batch.publishes) + 1:
            self._end(name)
            raise Refusal(problems.BATCH_INCOMPLETE)
        elif number > MESSAGES_MAX:
            self._end(name)
            raise Refusal(problems.batch_too_large(MESSAGES_MAX))
        return batch

    def _keep(self, name: str, batch: _Batch) -> None:
        """An unfinished batch is given up after a while of silence."""
        if batch.timer is not None:
            batch.timer.cancel()
        batch.timer = self._stream.server.later(SILENCE_S, self._end, name)

    def _end(self, name: str) -> None:
        batch = self._open.pop(name, None)
        if batch is not None and batch.timer is not None:
            batch.timer.cancel()

    def _commit(self, name: str, last: Publish, publishes: list[Publish]) -> None:
        stream = self._stream
        expiries = self._check(publishes)
        stream.check_space(publishes)
        stored = [
            stream.store(publish, expires, publish.headers.get(h.MESSAGE_ID, ""))
            for publish, expires in zip(publishes, expiries, strict=True)
        ]
        stream.acknowledge(last, stored[-1].sequence, b',"batch":"%b","count":%d' % (name.encode(), len(stored)))
        stream.tell(stored)

    def _check(self, publishes: list[Publish]) -> list[int]:
        """When each message expires. Raises Refusal for the first condition that is not met."""
        stream = self._stream
        written: set[str] = set()
        message_ids: set[str] = set()
        expiries: list[int] = []
        for publish in publishes:
            headers = publish.headers
            if LAST_ID in headers:
                raise Refusal(problems.batch_header(LAST_ID))
            expiries.append(stream.check_stream_and_ttl(publish))
            message_id = headers.get(h.MESSAGE_ID)
            if message_id:
                if message_id in message_ids or stream.known_id(message_id):
                    raise Refusal(problems.BATCH_DUPLICATE)
                message_ids.add(message_id)
            expected = number_of(headers.get("Nats-Expected-Last-Sequence"))
            if expected is not None and expected != stream.last + len(expiries) - 1:
                raise Refusal(problems.wrong_sequence(stream.last + len(expiries) - 1))
            expected = number_of(headers.get(h.EXPECTED))
            if expected is not None:
                subject = headers.get(h.EXPECTED + "-Subject", publish.subject)
                if subject in written:
                    raise Refusal(problems.SEQUENCE_DIFFERS)
                if stream.last_of(subject) != expected:
                    raise Refusal(problems.wrong_sequence(stream.last_of(subject)))
            written.add(publish.subject)
        return expiries
