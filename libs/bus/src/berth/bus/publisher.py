"""Events and commands on their way into a stream.

Each is kept until the stream has acknowledged it and sent again with the same identity otherwise, so that the server's
duplicate window (two minutes) drops what was stored already: at least once beyond that window, once within. Order is
kept except for what had to be sent again. A message that the stream refuses for good is counted, logged and dropped.

A stream that waits for the disk does so once per message, or once per atomic batch. So while one batch is on its way
the next one gathers; whatever a batch could not settle goes out again message by message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from berth.bus import headers as h
from berth.bus import metrics
from berth.bus.errors import BusError, Disconnected
from berth.bus.jetstream import PubAck
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import NO_SPACE, Clock
from berth.bus.tasks import end_tasks
from berth.bus.topology import MESSAGE_BYTES_MAX
from berth.bus.window import CONNECTION_LOST, AckWindow

log = FieldLogger(__name__)

WINDOW = 512
QUEUE_MAX = 10_000
BATCH_MAX = 128
BATCH_PAUSE_S = 0.1
PAUSE_PER_BATCH = 25.0
BATCH_PAUSE_MAX_S = 0.5
"""From the start of one batch to the next, unless it is full: this many times what the last one took, within these
bounds. Every batch costs the server files and waits for the disk, and those who commit decisions wait for the same."""
BATCH_BYTES_MAX = 512 << 10
RETRY_FIRST_S = 0.05
RETRY_MAX_S = 5.0
HEADERS_BYTES = 4096
"""What the attributes of an event may take."""
IN_PROCESS = 10158
"""The server's error code for an identity that its leader has proposed before. Whether that message will be stored is
not known: a leader that is cut off from the others may lose it."""
NOT_YET = (NO_SPACE, IN_PROCESS)
"""Refusals that end."""


def batch_pause_s(took_s: float) -> float:
    """From the start of a batch to that of the next, where the last one took so long."""
    return min(max(BATCH_PAUSE_S, PAUSE_PER_BATCH * took_s), BATCH_PAUSE_MAX_S)


class _Item:
    __slots__ = ("headers", "payload", "subject", "tries")

    def __init__(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        self.subject = subject
        self.payload = payload
        self.headers = headers
        self.tries = 0


class Publisher:
    """See `berth.bus.port.PublisherPort`."""

    def __init__(
        self,
        link: Link,
        stream: str,
        *,
        clock: Clock,
        window: int = WINDOW,
        queue: int = QUEUE_MAX,
        batches: bool = False,
    ) -> None:
        self._stream = stream
        self._batches = batches
        self._source = f"berth/{link.service}"
        self._link = link
        self._clock = clock
        self._queue: deque[_Item] = deque()
        self._queue_max = queue
        self._began_at = float("-inf")
        self._sent_at = 0.0  # the batch under way
        self._took_s = 0.0  # the last one that was settled
        self._open = 0  # queued, in flight or waiting for another try
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._window = AckWindow[_Item](link, size=window, acknowledged=self._acknowledged, lost=self._lost)
        self._flight = AckWindow[Sequence[_Item]](link, size=1, acknowledged=self._settled, lost=self._scattered)
        self._task: asyncio.Task[None] | None = None

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        id: str,  # noqa: A002
        type: str,  # noqa: A002
        traceparent: str | None = None,
    ) -> None:
        """Queue a message, waiting for a place if there is none. Raises ValueError when it is too large."""
        while self._open >= self._queue_max:
            self._changed.clear()
            await self._changed.wait()
        self._add(subject, payload, id, type, traceparent)

    def offer(
        self,
        subject: str,
        payload: bytes,
        *,
        id: str,  # noqa: A002
        type: str,  # noqa: A002
        traceparent: str | None = None,
    ) -> bool:
        """Queue a message unless the queue is full; False: dropped and counted. Raises ValueError as `publish`."""
        if self._open >= self._queue_max:
            metrics.PUBLISHED.labels(self._stream, "dropped").inc()
            return False
        self._add(subject, payload, id, type, traceparent)
        return True

    async def drain(self) -> None:
        """Return once every message so far has its outcome."""
        while self._open:
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Stop; what is not acknowledged yet may be lost."""
        if self._task is not None:
            await end_tasks([self._task])
        await self._window.close()
        await self._flight.close()

    def _add(self, subject: str, payload: bytes, message_id: str, kind: str, traceparent: str | None) -> None:
        if len(payload) > MESSAGE_BYTES_MAX - HEADERS_BYTES:
            raise ValueError(f"payload of {len(payload)} bytes is too large for {subject}")
        headers = h.cloud_event(
            message_id=message_id,
            kind=kind,
            source=self._source,
            now=self._clock.now(),
            traceparent=traceparent,
        )
        self._open += 1
        self._queue.append(_Item(subject, payload, headers))
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"bus-publisher-{self._stream}")

    async def _run(self) -> None:
        await self._window.open()
        await self._flight.open()
        while True:
            await self._wake.wait()
            await self._link.connected.wait()
            await self._window.wait_while_full()
            await self._flight.wait_while_full()
            if not self._queue:
                self._wake.clear()
                continue
            if self._batches:
                await self._gather()
            batch = self._next_batch() if self._batches else ()
            if len(batch) > 1:
                await self._send_batch(batch)
                continue
            item = batch[0] if batch else self._queue.popleft()
            item.tries += 1
            await self._window.send(item, item.subject, item.payload, item.headers)

    async def _gather(self) -> None:
        """Let more come, unless the last one is a while ago or many wait already."""
        now = self._clock.monotonic()
        rest_s = self._began_at + batch_pause_s(self._took_s) - now
        if rest_s > 0 and len(self._queue) < BATCH_MAX:
            await self._clock.sleep(rest_s)
            now += rest_s
        self._began_at = now

    def _next_batch(self) -> Sequence[_Item]:
        """What waits at the head of the queue and was never sent, within the limits; a single one if it was."""
        batch: list[_Item] = []
        size_bytes = 0
        while self._queue and len(batch) < BATCH_MAX and size_bytes < BATCH_BYTES_MAX:
            if self._queue[0].tries and batch:
                break
            batch.append(self._queue.popleft())
            size_bytes += len(batch[-1].payload)
            if batch[-1].tries:
                break
        return batch

    async def _send_batch(self, batch: Sequence[_Item]) -> None:
        """All of them or none. The outcome comes with the answer to the last one."""
        name = self._link.token()
        self._sent_at = self._clock.monotonic()
        for number, item in enumerate(batch, 1):
            item.tries += 1
            headers = item.headers | {h.BATCH_ID: name, h.BATCH_SEQUENCE: str(number)}
            if number == len(batch):
                await self._flight.send(batch, item.subject, item.payload, headers | {h.BATCH_COMMIT: "1"})
                return
            try:
                await self._link.publish(item.subject, item.payload, headers=headers)
            except Disconnected:
                self._scattered(batch, CONNECTION_LOST)
                return
            except BusError as error:
                self._scattered(batch, str(error))
                return

    def _settled(self, batch: Sequence[_Item], ack: PubAck) -> None:
        if ack.error is not None:
            self._scattered(batch, ack.error.description)
            return
        self._took_s = self._clock.monotonic() - self._sent_at
        for item in batch:
            self._finish(item, "stored")

    def _scattered(self, batch: Sequence[_Item], reason: str) -> None:
        """Nothing is known of a batch without its answer, and nothing of it was stored after a refusal (one message was
        stored already, or may not be): each finds its own outcome. In front of the queue, to keep the order."""
        metrics.PUBLISHED.labels(self._stream, "retried").inc(len(batch))
        log.debug("the messages of a batch go one by one", messages=len(batch), stream=self._stream, reason=reason)
        self._queue.extendleft(reversed(batch))
        self._wake.set()

    def _acknowledged(self, item: _Item, ack: PubAck) -> None:
        if ack.error is None:
            self._finish(item, "duplicate" if ack.duplicate else "stored")
        elif ack.error.code == 0 or ack.error.code >= 500 or ack.error.err_code in NOT_YET:
            self._lost(item, ack.error.description)
        else:
            log.error(
                "a stream refused a message", stream=self._stream, subject=item.subject, error=ack.error.description
            )
            self._finish(item, "refused")

    def _lost(self, item: _Item, reason: str) -> None:
        """Again, after a pause that grows with every try; at once on the next connection."""
        metrics.PUBLISHED.labels(self._stream, "retried").inc()
        if item.tries in (1, 10) or item.tries % 100 == 0:
            log.warning("publishing a message again", subject=item.subject, tries=item.tries, reason=reason)
        if reason == CONNECTION_LOST:
            self._again(item)
            return
        pause_s = min(RETRY_FIRST_S * 2 ** min(item.tries - 1, 16), RETRY_MAX_S)
        asyncio.get_running_loop().call_later(pause_s, self._again, item)

    def _again(self, item: _Item) -> None:
        self._queue.append(item)
        self._wake.set()

    def _finish(self, item: _Item, outcome: str) -> None:
        metrics.PUBLISHED.labels(self._stream, outcome).inc()
        self._open -= 1
        self._changed.set()
