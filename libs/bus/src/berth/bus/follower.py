"""Following a bucket: everything that is in it, then everything that changes, in order, for ever.

A push consumer without acknowledgements feeds the sink. It is made anew right behind the last entry whenever a delivery
was lost (its own sequence skips), a heartbeat is missed or the connection was lost; the server removes the old one.
Before going on, the stream is compared with the one known: another stream, one that lost its tail, or an absence longer
than deletion markers live, and the sink starts over with an empty view. (A consumer that resumes past the end of a
stream stays silent for ever and looks healthy.) In a cluster a stream may lose its tail while every connection stands;
so its leader is looked at while the consumer delivers, too, and what is odd makes the consumer anew. So does a message
of another era of the bucket's owner, before it is read.

A sink that raises ends the follower: a view that missed an entry must not go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random as randomness
from collections import deque
from collections.abc import Mapping, Sequence

from berth.bus import headers as h
from berth.bus import jetstream, metrics
from berth.bus.client import Delivery
from berth.bus.errors import BusError, describe
from berth.bus.history import History
from berth.bus.jetstream import NANO
from berth.bus.leader_watch import LeaderWatch
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Clock, Entry, Sink
from berth.bus.subscription import LinkSubscription
from berth.bus.tasks import end_tasks
from berth.bus.topology import TOMBSTONE_TTL_S

log = FieldLogger(__name__)

HEARTBEAT_S = 1.0
SILENCE_MAX_S = 2.5
"""Without a word for so long, heartbeats included, the consumer is taken for dead."""
GRACE_S = 0.05
ALARM_MIN_S = 0.01
INACTIVE_S = 10
"""After so long without a subscriber the server removes a consumer."""
ABSENCE_MAX_S = TOMBSTONE_TTL_S / 2
RETRY_FIRST_S = 0.05
RETRY_MAX_S = 1.0
BURST = 256
"""Entries applied before other tasks get a turn."""


class _Stale(Exception):  # noqa: N818 - a reason to begin again, caught here
    """The stream changed while the consumer was made."""


class Follower:
    """A reader of one bucket. See `berth.bus.port.FollowerPort`."""

    def __init__(
        self,
        link: Link,
        bucket: str,
        sink: Sink,
        *,
        keys: str | Sequence[str] = ">",
        clock: Clock,
        random: randomness.Random,
    ) -> None:
        self.ready = asyncio.Event()
        self.attached = asyncio.Event()
        self.sequence = 0
        self.bucket = bucket
        self._link = link
        self._sink = sink
        self.stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."
        self._filters = [self._prefix + each for each in ([keys] if isinstance(keys, str) else keys)]
        self._clock = clock
        self._random = random
        self._history = History(link, self.stream, self._filters)
        self._watch = LeaderWatch(link, self.stream, self._history, self, random=random)
        self._era = b""  # of the bucket's owner, in the last message read that names one
        self._is_live = False  # the end was reached since the consumer was made
        self._heard = (0.0, 0.0)  # monotonic and wall clock of the last word from the server
        self._queue: deque[Delivery] = deque()
        self._wake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._subscription: LinkSubscription | None = None
        self._consumer = ""
        self._delivered = 0
        self._applied = 0
        self._generation = 0
        self._doubt = ""
        self._entries = metrics.ENTRIES.labels(bucket)

    async def run(self) -> None:
        """Follow until cancelled."""
        unhook = self._link.on_disconnect(self._disconnected)
        pause_s, reason = RETRY_FIRST_S, "start"
        try:
            while True:
                await self._link.connected.wait()
                try:
                    await self._attach()
                except (BusError, _Stale) as error:
                    log.warning("cannot follow a bucket, trying again", bucket=self.bucket, error=describe(error))
                    await self._detach()
                    await self._clock.sleep(pause_s * self._random.uniform(0.5, 1.0))
                    pause_s = min(pause_s * 2, RETRY_MAX_S)
                    continue
                metrics.FOLLOWER_STARTS.labels(self.bucket, reason).inc()
                pause_s = RETRY_FIRST_S
                reason = await self._pump_watched()
                log.info("following a bucket anew", bucket=self.bucket, behind=self.sequence, reason=reason)
                await self._detach()
        finally:
            unhook()
            await self._detach()

    @property
    def created(self) -> str:
        """See `berth.bus.port.FollowerPort`."""
        return self._history.created

    def witness(self, sequence: int, subject: str, data: bytes, *, era: str = "", time_ns: int = 0) -> None:
        """Note a message that the stream acknowledged to this process, so that its loss is noticed too."""
        self._history.witness(sequence, subject, data, era=era, time_ns=time_ns)

    async def last_of_same(self) -> int | None:
        """The last sequence of the stream; None: it is not the one that was read, or has lost some of that.

        Raises BusError.
        """
        last = self._history.last()
        info = await jetstream.stream_info(self._link, self.stream)
        return None if await self._watch.judge(info, last) else info.state.last_seq

    async def has_all(self) -> bool:
        """See `berth.bus.port.FollowerPort`. Raises BusError."""
        last = self._history.last()
        info = await jetstream.stream_info(self._link, self.stream)
        if not self.attached.is_set() or await self._watch.judge(info, last):
            return False
        at = self.sequence  # what has come last may have expired, and is not read then
        return info.state.last_seq <= at or not await self._history.after(at)

    @property
    def has_backlog(self) -> bool:
        """Deliveries are at hand."""
        return bool(self._queue)

    def begin_again(self, reason: str) -> None:
        """Make the consumer anew soon, and compare the stream with the one known. Until then it is not attached."""
        self.attached.clear()
        self._doubt = reason
        self._wake.set()

    def _disconnected(self) -> None:
        self.attached.clear()
        self._wake.set()

    # --- the consumer -------------------------------------------------------------------------------------------------

    async def _attach(self) -> None:
        """Make a consumer right behind the last entry, on the stream that entry came from or on a new one."""
        link = self._link
        self._generation, self._doubt = link.generation, ""
        self._is_live = False
        last = self._history.last()  # what is acknowledged while the answer is on its way may not be in it
        info = await jetstream.stream_info(link, self.stream)
        await self._compare(info, last)
        queue: deque[Delivery] = deque()
        self._queue, self._delivered = queue, 0
        inbox = link.new_inbox()

        def receive(msg: Delivery) -> None:
            queue.append(msg)
            self._wake.set()

        self._subscription = await link.subscribe(inbox, receive)
        self._consumer = f"{link.service}-{self.bucket}-{link.token()}"
        pending = await self._create(inbox)
        again, leader = await jetstream.stream_info(link, self.stream), info.led_by(link.server_id)
        is_same = (again.created, again.led_by(link.server_id)) == (info.created, leader)
        if not is_same or link.generation != self._generation:
            raise _Stale("the stream changed meanwhile")
        self._history.take(info, leader)
        self._listen()
        self.attached.set()
        if pending == 0:
            self._end()

    async def _create(self, inbox: str) -> int:
        """Make the consumer; returns how many messages it has to deliver."""
        config = {
            "name": self._consumer,
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.sequence + 1,
            "ack_policy": "none",
            "max_deliver": 1,
            "replay_policy": "instant",
            **({"filter_subjects": self._filters} if len(self._filters) > 1 else {"filter_subject": self._filters[0]}),
            "flow_control": True,
            "idle_heartbeat": int(HEARTBEAT_S * NANO),
            "inactive_threshold": INACTIVE_S * NANO,
            "mem_storage": True,
            "num_replicas": 1,
        }
        answer = await jetstream.call(
            self._link,
            # The subject names the filter, for permissions, when there is one alone.
            ".".join(["CONSUMER.CREATE", self.stream, self._consumer, *self._filters[: len(self._filters) == 1]]),
            {"stream_name": self.stream, "config": config, "action": "create"},
        )
        return int(answer.get("num_pending", 0))

    async def _detach(self) -> None:
        """Drop the subscription and remove the consumer; if that fails the server does it after `INACTIVE_S`."""
        self.attached.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        subscription, self._subscription = self._subscription, None
        consumer, self._consumer = self._consumer, ""
        if subscription is not None:
            await subscription.unsubscribe()
        if consumer and self._link.connected.is_set() and self._link.generation == self._generation:
            subject = f"{self._link.api}.CONSUMER.DELETE.{self.stream}.{consumer}"
            with contextlib.suppress(BusError):
                await self._link.publish(subject, reply=self._link.new_inbox())

    # --- is it still the same stream? ---------------------------------------------------------------------------------

    async def _compare(self, info: jetstream.StreamInfo, last: int) -> None:
        history = self._history
        if not history.created:
            return
        different = history.difference(info, last)
        if different:
            self._reset(different)
        elif self._absence_s() > ABSENCE_MAX_S:
            self._reset("away for too long")
        elif not await self._same_history(info.led_by(self._link.server_id)):
            self._reset("the stream lost its tail and went on")

    async def _same_history(self, leader: jetstream.Leader) -> bool:
        """Whether what was read is stored, or was replaced; where that is not known, its leader has to be the same."""
        is_kept = await self._history.is_kept(self.sequence, leader)
        return leader.is_still(self._history.leader) if is_kept is None else is_kept

    def _absence_s(self) -> float:
        """Seconds without a word from the server, also by a clock that counts a suspended machine's sleep."""
        return max(self._clock.monotonic() - self._heard[0], self._clock.now() - self._heard[1])

    def _reset(self, reason: str) -> None:
        log.warning("reading a bucket again from its start", bucket=self.bucket, reason=reason)
        metrics.FOLLOWER_RESETS.labels(self.bucket).inc()
        self.sequence = 0
        self._history.forget()
        self._sink.reset()

    # --- deliveries ---------------------------------------------------------------------------------------------------

    async def _pump(self) -> str:
        """Apply what arrives; returns why a new consumer is needed."""
        handled = 0
        while True:
            while self._queue:
                msg = self._queue.popleft()
                raw = msg.raw_headers
                is_control = bool(raw) and h.has_status(raw)
                problem = await self._control(msg, msg.headers) if is_control else self._take(msg)
                if problem:
                    return problem
                handled += 1
                if handled % BURST == 0:
                    await asyncio.sleep(0)
            was_silent = not handled
            if handled:
                self._listen()
                if self._applied:
                    self._entries.inc(self._applied)
                self._applied = handled = 0
            if self._link.generation != self._generation or not self._link.connected.is_set():
                return "disconnected"
            if self._doubt:
                return self._doubt
            if was_silent and self._silence_s() >= SILENCE_MAX_S:
                # A process that was held up itself finds the words waiting in its socket.
                await asyncio.sleep(GRACE_S)
                if not self._queue:
                    return "heartbeat missed"
                continue
            self._wake.clear()
            if self._alarm is None:
                self._set_alarm()
            await self._wake.wait()

    def _silence_s(self) -> float:
        return self._clock.monotonic() - self._heard[0]

    def _ring(self) -> None:
        """Wake the follower once nothing came for too long; it is put off while there are words, not with each one."""
        self._alarm = None
        if self._silence_s() < SILENCE_MAX_S:
            self._set_alarm()
        else:
            self._wake.set()

    def _set_alarm(self) -> None:
        rest_s = max(SILENCE_MAX_S - self._silence_s(), ALARM_MIN_S)  # a difference of floats may be next to nothing
        self._alarm = asyncio.get_running_loop().call_later(rest_s, self._ring)

    def _take(self, msg: Delivery) -> str:
        """One entry; returns a reason to start over, or nothing."""
        try:
            at, number, time, pending = _position(msg.reply)
        except (ValueError, IndexError):
            return "unreadable delivery"
        if number != self._delivered + 1:
            return "delivery lost"
        if at <= self.sequence:
            self._reset("sequences went back")
            return "sequences went back"
        raw = msg.raw_headers
        era = h.era_of(raw) if raw else b""
        if era and era != self._era:
            was, self._era = self._era, era
            if was and self._is_live:
                return "the bucket's owner is another, or has noticed a loss"
        self._delivered = number
        gap = at != self.sequence + 1
        self.sequence = at
        recent = self._history.recent
        if not recent or at > recent[-1][0]:
            recent.append((at, time, msg.subject, 0))
        deleted, trace = (h.marks_deletion(raw), h.trace_of(raw)) if raw else (False, None)
        key = msg.subject[len(self._prefix) :]
        self._sink.apply(Entry(key, msg.data, deleted, at, pending, gap, trace, time / NANO))
        self._applied += 1
        if pending == 0:
            self._end()
        return ""

    async def _control(self, msg: Delivery, headers: Mapping[str, str]) -> str:
        """A heartbeat, a flow control request, or the end of the consumer."""
        if headers.get(h.STATUS) != h.CONTROL:
            return f"consumer ended: {headers.get('Description', headers.get(h.STATUS))}"
        reply = msg.reply or headers.get(h.STALLED, "")
        if reply:
            with contextlib.suppress(BusError):
                await self._link.publish(reply)
        last = headers.get(h.LAST_CONSUMER, "")
        if last.isdigit() and int(last) != self._delivered:
            # Less than was delivered: the server has made the consumer anew, behind what it knows of the stream.
            return "delivery lost" if int(last) > self._delivered else "the consumer counts anew"
        through = headers.get(h.LAST_STREAM, "")
        if through.isdigit() and int(through) < self.sequence:
            self._watch.look_soon()
        if last.isdigit() and not reply:
            # A heartbeat is sent when there is nothing to deliver: what was stored before it has been read.
            if not self.ready.is_set():
                return "the end was not reported"  # what was to come last has expired; a new consumer counts again
            self._end()
        return ""

    async def _pump_watched(self) -> str:
        """The same, while the stream's leader is looked at."""
        watch = asyncio.create_task(self._watch.run(), name=f"bus-watch-{self.bucket}")
        watch.add_done_callback(lambda ended: None if ended.cancelled() else self.begin_again("the watch failed"))
        try:
            reason = await self._pump()
        finally:
            await end_tasks([watch])
        if not watch.cancelled():
            watch.result()
        return reason

    def _listen(self) -> None:
        self._heard = (self._clock.monotonic(), self._clock.now())

    def _end(self) -> None:
        self._is_live = True
        self.ready.set()
        self._sink.end(self.sequence)


def _position(reply: str) -> tuple[int, int, int, int]:
    """Sequence in the stream, number of the delivery, when it was stored, and how many are still to come.

    `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`, or with a domain.
    """
    tokens = reply.split(".")
    at = 5 if len(tokens) == 9 else 7
    return int(tokens[at]), int(tokens[at + 1]), int(tokens[at + 2]), int(tokens[at + 3])
