"""A durable reader of a work queue: every message is handled until it is acknowledged, or ends as a dead letter.

Messages are pulled; each one held here, waiting or being handled, is reported as in progress, so that a slow handler is
not given the same message twice. A failed message comes again after a pause that grows. `InvalidMessage`, or too many
deliveries (a crash counts, and a change of hands), moves it to BERTH_DEAD with the reason: its sender asks again.
Handlers must be idempotent: an acknowledgement that gets lost brings the message again.

A consumer that is not level with its stream any more (`consumer_watch`) is removed, and made anew at the first message.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from berth.bus import headers as h
from berth.bus import jetstream, metrics
from berth.bus.client import Delivery
from berth.bus.consumer_watch import ConsumerWatch
from berth.bus.errors import ApiError, BusError, InvalidMessage, RetryLater, describe
from berth.bus.jetstream import NANO
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Clock, Handler, Message
from berth.bus.tasks import end_tasks
from berth.contracts.subjects import PREFIX

log = FieldLogger(__name__)

BACKOFF_S = (0.5, 2.0, 5.0, 15.0, 30.0, 60.0)
PULL_S = 30
HEARTBEAT_S = 2
SILENCE_MAX_S = 5.5
RETRY_S = 0.5
AHEAD = 2
"""Messages held per handler, so that a handler need not wait for the next pull."""
PENDING_MAX = 100_000
"""Messages that wait for another try, whose pauses the server keeps: at this number it would give out no new ones."""
REASON_MAX = 500
EXCERPT_BYTES = 64 * 1024
"""How much of a message is kept that is too large for a dead letter."""


class _Held(NamedTuple):
    message: Message
    reply: str


class Consumer:
    """See `berth.bus.port.ConsumerPort`."""

    def __init__(
        self,
        link: Link,
        stream: str,
        durable: str,
        handler: Handler,
        *,
        subjects: str,
        concurrency: int,
        ack_wait_s: float,
        backoff_s: Sequence[float],
        max_deliver: int,
        clock: Clock,
    ) -> None:
        if concurrency < 1 or max_deliver < 1 or ack_wait_s < 1 or not backoff_s:
            raise ValueError("concurrency, max_deliver and ack_wait_s are at least 1, backoff_s is not empty")
        self._link = link
        self._stream = stream
        self._durable = durable
        self._handler = handler
        self._subjects = subjects
        self._concurrency = concurrency
        self._capacity = max(16, concurrency * AHEAD)
        self._ack_wait_s = ack_wait_s
        self._backoff_s = backoff_s
        self._max_deliver = max_deliver
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._work: asyncio.Queue[_Held] = asyncio.Queue()
        self._wake = asyncio.Event()
        self._heard = 0.0
        self._wanted = 0  # messages that the pull under way still owes
        self._problem = ""
        self._watch = ConsumerWatch(link, stream, durable, clock)

    async def run(self) -> None:
        """Consume until cancelled."""
        unhook = self._link.on_disconnect(self._disconnected)
        subscription = None
        inbox = self._link.new_inbox()
        tasks = [asyncio.create_task(self._report(), name=f"bus-progress-{self._durable}")]
        tasks += [asyncio.create_task(self._worker(), name=f"bus-{self._durable}") for _ in range(self._concurrency)]
        watch = self._watch.run(lambda: not self._held, self._renew)
        tasks.append(asyncio.create_task(watch, name=f"bus-watch-{self._durable}"))
        pulls = asyncio.create_task(self._pull(inbox), name=f"bus-pull-{self._durable}")
        try:
            subscription = await self._link.subscribe(inbox, self._receive)
            await asyncio.wait({pulls, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in (pulls, *tasks):
                if task.done():
                    task.result()
        finally:
            unhook()
            await end_tasks((pulls, *tasks))
            if subscription is not None:
                await subscription.unsubscribe()
            for held in list(self._held.values()):
                await self._settle(held, b"-NAK")

    # --- pulling ------------------------------------------------------------------------------------------------------

    async def _pull(self, inbox: str) -> None:
        ready = False
        while True:
            await self._link.connected.wait()
            self._problem = ""
            try:
                if not ready:
                    await self._ensure()
                    ready = True
                free = self._capacity - len(self._held)
                if free > 0:
                    await self._request(inbox, free)
            except BusError as error:
                self._problem = describe(error)
            await self._until_due()
            if self._problem:
                log.warning("a consumer starts over", consumer=self._durable, problem=self._problem)
                ready = False
                await self._clock.sleep(RETRY_S)

    async def _ensure(self) -> None:
        """Make the consumer, or bring its settings up to date."""
        config = {
            "durable_name": self._durable,
            "name": self._durable,
            "ack_policy": "explicit",
            "ack_wait": int(self._ack_wait_s * NANO),
            "deliver_policy": "all",
            "replay_policy": "instant",
            "filter_subject": self._subjects,
            "max_deliver": -1,  # counted here: the server would only fall silent
            "max_ack_pending": max(PENDING_MAX, self._capacity * 4),
        }
        await jetstream.call(
            self._link,
            f"CONSUMER.CREATE.{self._stream}.{self._durable}.{self._subjects}",
            {"stream_name": self._stream, "config": config, "action": ""},
        )

    async def _renew(self, reason: str) -> None:
        """Remove the consumer: that ends its pull, and the next one makes it anew."""
        metrics.CONSUMERS_RENEWED.labels(self._durable).inc()
        log.warning("a consumer is not level with its stream", consumer=self._durable, reason=reason)
        await jetstream.call(self._link, f"CONSUMER.DELETE.{self._stream}.{self._durable}")

    async def _request(self, inbox: str, count: int) -> None:
        self._wanted = count
        self._heard = self._clock.monotonic()
        query = {"batch": count, "expires": PULL_S * NANO, "idle_heartbeat": int(HEARTBEAT_S * NANO)}
        subject = f"{self._link.api}.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}"
        await self._link.publish(subject, msgspec.json.encode(query), reply=inbox)

    async def _until_due(self) -> None:
        """Return when the pull ended and there is space for another, or something is wrong."""
        loop = asyncio.get_running_loop()
        while not self._problem and (self._wanted > 0 or len(self._held) >= self._capacity):
            if self._wanted > 0 and self._clock.monotonic() - self._heard > SILENCE_MAX_S:
                self._wanted = 0
                self._problem = "heartbeats missed"
                return
            self._wake.clear()
            timer = loop.call_later(1.0, self._wake.set)
            await self._wake.wait()
            timer.cancel()

    def _receive(self, msg: Delivery) -> None:
        self._heard = self._clock.monotonic()
        headers = msg.headers or {}
        status = headers.get(h.STATUS)
        if status is not None:
            if status != h.CONTROL:
                self._wanted = 0
                if status not in ("404", "408"):
                    self._problem = f"pull ended: {status} {headers.get('Description', '').strip()}"
            self._wake.set()
            return
        self._wanted -= 1
        held = _held(msg)
        if held is not None and held.reply not in self._held:
            self._held[held.reply] = held
            self._work.put_nowait(held)
        self._wake.set()

    def _disconnected(self) -> None:
        self._wanted = 0
        self._problem = "connection lost"
        self._wake.set()

    async def _report(self) -> None:
        """Tell the server that what is held here is in work."""
        while True:
            await self._clock.sleep(self._ack_wait_s / 3)
            for held in list(self._held.values()):
                with contextlib.suppress(BusError):
                    await self._link.publish(held.reply, b"+WPI")

    # --- handling -----------------------------------------------------------------------------------------------------

    async def _worker(self) -> None:
        while True:
            held = await self._work.get()
            outcome = await self._handle(held)
            metrics.CONSUMED.labels(self._durable, outcome).inc()
            self._held.pop(held.reply, None)
            self._wake.set()

    async def _handle(self, held: _Held) -> str:
        message = held.message
        if message.deliveries > self._max_deliver:
            return await self._bury(held, f"delivered {message.deliveries} times")
        try:
            await self._handler(message)
        except InvalidMessage as error:
            return await self._bury(held, str(error))
        except Exception as error:
            if isinstance(error, RetryLater):
                log.warning("cannot be carried out now, comes again", **self._about(message), error=str(error))
            else:
                log.exception("cannot handle a message", **self._about(message))
            if message.deliveries >= self._max_deliver:
                return await self._bury(held, f"{type(error).__name__} after {message.deliveries} deliveries")
            await self._again(held)
            return "retried"
        await self._settle(held, b"+ACK")
        return "handled"

    def _about(self, message: Message) -> dict[str, object]:
        return {"consumer": self._durable, "subject": message.subject, "deliveries": message.deliveries}

    async def _again(self, held: _Held) -> None:
        pause_s = self._backoff_s[min(held.message.deliveries, len(self._backoff_s)) - 1]
        await self._settle(held, b'-NAK {"delay": %d}' % int(pause_s * NANO))

    async def _settle(self, held: _Held, answer: bytes) -> None:
        """Tell the server; if that is lost, the message comes again."""
        with contextlib.suppress(BusError):
            await self._link.publish(held.reply, answer)

    async def _bury(self, held: _Held, reason: str) -> str:
        """Store the message as a dead letter, then end it; tried again later if that fails."""
        message = held.message
        log.error("dead letter", **self._about(message), reason=reason)
        try:
            try:
                await self._store_dead(message, message.data, reason)
            except ApiError:
                await self._store_dead(message, message.data[:EXCERPT_BYTES], reason)
        except BusError as error:
            log.error("dead letter not stored, trying again", **self._about(message), error=describe(error))
            await self._again(held)
            return "retried"
        await self._settle(held, b"+TERM")
        return "dead"

    async def _store_dead(self, message: Message, data: bytes, reason: str) -> None:
        headers = {name: value for name, value in message.headers.items() if not name.startswith("Nats-")}
        headers |= {
            h.MESSAGE_ID: f"{self._stream}.{self._durable}.{message.sequence}",
            "Berth-Dead-Reason": " ".join(reason.split()).encode("ascii", "backslashreplace").decode()[:REASON_MAX],
            "Berth-Dead-Subject": message.subject,
            "Berth-Dead-Sequence": str(message.sequence),
            "Berth-Dead-Deliveries": str(message.deliveries),
        }
        subject = f"{PREFIX}.dead.{self._durable}.{message.subject.removeprefix(f'{PREFIX}.')}"
        answer = await self._link.request(subject, data, timeout_s=5.0, headers=headers)
        ack = jetstream.decode_ack(answer.data)
        if ack.error is not None:
            raise ApiError(ack.error.err_code, ack.error.description)


def _held(msg: Delivery) -> _Held | None:
    """The message behind a delivery; None for what did not come from a stream."""
    tokens = msg.reply.split(".")
    if len(tokens) < 9 or tokens[:2] != ["$JS", "ACK"]:
        return None
    at = 4 if len(tokens) == 9 else 6
    try:
        deliveries, sequence = int(tokens[at]), int(tokens[at + 1])
    except ValueError:
        return None
    headers = msg.headers or {}
    return _Held(
        Message(subject=msg.subject, data=msg.data, headers=headers, sequence=sequence, deliveries=deliveries),
        msg.reply,
    )
