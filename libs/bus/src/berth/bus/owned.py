"""The sole writer's side of a bucket.

The bucket is read to its end first; from then on every write expects the last sequence of its key, so that a paused
owner who wakes up beside its successor changes nothing. Bytes that are there already are not sent again. A key has one
write in flight and at most one behind it, the newest.

What becomes of a write:
    stored      the key's sequence is known again
    unknown     (time-out, connection lost) the key is read from its leader: stored after all, or sent again
    conflict    somebody else wrote the key: the write is dropped, and once the follower has shown the other's entry,
                `on_conflict(key)` asks the owner to decide again
    lost        (another stream, or one without its tail) everything known is forgotten, the bucket is read again, and
                `on_reset()` asks the owner to put all it stands for; without that callback, waiting writes are kept

Callbacks must not raise: what they raise ends the bucket's tasks and comes back from the owner's next call.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
from collections import deque
from collections.abc import Callable, Coroutine, KeysView
from typing import Any, NamedTuple

from berth.bus import headers as h
from berth.bus import jetstream, metrics
from berth.bus.errors import BusError
from berth.bus.follower import Follower
from berth.bus.jetstream import WRONG_SEQUENCE, PubAck
from berth.bus.keys import VALUE_BYTES_MAX, check_key, matches
from berth.bus.link import Link, describe, end_tasks
from berth.bus.port import Clock, Entry, Sink, Stored
from berth.bus.topology import TOMBSTONE_TTL_S
from berth.bus.window import AckWindow

log = logging.getLogger(__name__)

WINDOW = 512
WAITING_MAX = 4096
"""Keys with a write waiting, above which `room` waits."""
RESOLVE_AT_ONCE = 16
RETRY_FIRST_S = 0.25
RETRY_MAX_S = 5.0
FORGET_S = TOMBSTONE_TTL_S * 1.1

_GONE = -1
"""Mark of a key that is deleted, or was never there; `hash` never gives it."""


class _Change(NamedTuple):
    """A write that the owner wants."""

    payload: bytes
    mark: int  # _GONE: a deletion marker
    traceparent: str | None


class _Flight(NamedTuple):
    """A write on its way. `era` counts how often the bucket was lost."""

    key: str
    change: _Change
    expected: int
    era: int


class _Key:
    """What is known and wanted of one key."""

    __slots__ = ("flight", "late", "mark", "sequence", "waiting")

    def __init__(self) -> None:
        self.sequence = 0  # of its newest message; 0: none
        self.mark = _GONE  # of the value behind that sequence
        self.flight: _Flight | None = None
        self.waiting: _Change | None = None
        self.late: int | None = None  # mark of a write that was given up, but may still arrive

    def newest_mark(self) -> int:
        """Of the value that will be there once all writes have arrived."""
        if self.waiting is not None:
            return self.waiting.mark
        return self.mark if self.flight is None else self.flight.change.mark

    @property
    def busy(self) -> bool:
        return self.waiting is not None or self.flight is not None


class OwnedBucket:
    """See `berth.bus.port.OwnedPort`; `sink` also sees everything that the bucket holds, in order."""

    def __init__(
        self,
        link: Link,
        bucket: str,
        *,
        clock: Clock,
        random: randomness.Random,
        on_conflict: Callable[[str], None] | None = None,
        on_reset: Callable[[], None] | None = None,
        sink: Sink | None = None,
        keys: str = ">",
        window: int = WINDOW,
    ) -> None:
        self.bucket = bucket
        self.conflicts = 0
        self.on_conflict = on_conflict
        self.on_reset = on_reset
        self._link = link
        self._clock = clock
        self._prefix = f"$KV.{bucket}."
        self._sink = sink
        self._keys: dict[str, _Key] = {}
        self._live: dict[str, None] = {}
        self._graves: deque[tuple[float, str, int]] = deque()
        self._queue: deque[str] = deque()
        self._again: deque[str] = deque()  # sent before, in that order, and to be sent again before anything newer
        self._open = 0  # keys with a write waiting or in flight
        self._doubtful: dict[str, str] = {}  # key -> why its newest message must be read
        self._conflicted: dict[str, int] = {}  # key -> sequence that the follower must have shown
        self._era = 0
        self._lost_pending = False
        self._pattern = keys
        self._follower = Follower(link, bucket, _View(self), keys=keys, clock=clock, random=random)
        self._window = AckWindow[_Flight](link, size=window, acknowledged=self._acknowledged, lost=self._doubt)
        self._complete = asyncio.Event()
        self._wake = asyncio.Event()
        self._doubts = asyncio.Event()
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: BaseException | None = None
        self._writes = {
            outcome: metrics.WRITES.labels(bucket, outcome)
            for outcome in ("stored", "unchanged", "retried", "conflict", "lost")
        }

    # --- for the owner ------------------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Return once the bucket was read to its end."""
        while not self._complete.is_set():
            await self._change()

    def put(self, key: str, value: bytes, *, traceparent: str | None = None) -> bool:
        """Queue a write; see the port. Raises ValueError for an illegal key or a value that is too large."""
        if len(value) > VALUE_BYTES_MAX:
            raise ValueError(f"{key}: value of {len(value)} bytes is larger than {VALUE_BYTES_MAX}")
        return self._want(key, _Change(value, hash(value), traceparent))

    def delete(self, key: str, value: bytes = b"") -> bool:
        """Queue a deletion marker with a payload; see the port."""
        return self._want(key, _Change(value, _GONE, None))

    def keys(self) -> KeysView[str]:
        """Keys that are there, counting writes on their way."""
        return self._live.keys()

    def sequence(self, key: str) -> int:
        """Last sequence known of a key; 0: none."""
        state = self._keys.get(key)
        return 0 if state is None else state.sequence

    async def room(self) -> None:
        """Return once fewer than `WAITING_MAX` keys wait to be written."""
        while self._open >= WAITING_MAX:
            await self._change()

    async def drain(self) -> None:
        """Return once every write so far has its outcome, and the owner was told of every conflict."""
        while self._open or self._conflicted or self._lost_pending:
            await self._change()

    async def close(self) -> None:
        """Stop; writes without an outcome may be stored or not."""
        self._window.close()
        await end_tasks(self._tasks)

    def _want(self, key: str, change: _Change) -> bool:
        self._start()
        state = self._keys.get(key)
        if state is None:
            check_key(key)
            if not matches(self._pattern, key):
                raise ValueError(f"{key}: not one of the owned keys {self._pattern}")
            state = _Key()
        if change.mark == state.newest_mark() and (self._complete.is_set() or state.busy):
            return False
        self._keys[key] = state
        if not state.busy:
            self._open += 1
            self._queue.append(key)
            self._wake.set()
        state.waiting = change
        self._show(key, change.mark)
        return True

    def _show(self, key: str, mark: int) -> None:
        if mark == _GONE:
            self._live.pop(key, None)
        else:
            self._live[key] = None

    # --- tasks --------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._tasks:
            self._spawn("follow", self._follower.run())
            self._spawn("write", self._write())
            self._spawn("resolve", self._resolve())

    def _spawn(self, name: str, run: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(run, name=f"bus-{name}-{self.bucket}")
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            log.error("owned bucket %s failed", self.bucket, exc_info=self._failure)
            self._changed.set()

    async def _change(self) -> None:
        """Wait until something happened; raises what ended a task."""
        self._start()
        self._changed.clear()
        await self._changed.wait()
        self._start()

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        await self._window.open()
        while True:
            await self._wake.wait()
            await self._complete.wait()
            await self._follower.attached.wait()  # writes into a stream that lost its tail would hide the loss
            await self._window.room()
            if self._doubtful:
                # A newer write must not overtake an older one whose outcome is unknown: readers take the order of the
                # stream for the order of what happened.
                await self._change()
            elif not (self._again or self._queue):
                self._wake.clear()
            elif self._complete.is_set() and self._follower.attached.is_set():
                await self._send((self._again or self._queue).popleft())

    async def _send(self, key: str) -> None:
        state = self._keys.get(key)
        if state is None or state.flight is not None or state.waiting is None:
            return  # a conflict or a loss took the write back
        change, state.waiting = state.waiting, None
        if change.mark == state.mark:
            self._settle(key, state, "unchanged")
            return
        headers = {h.EXPECTED: str(state.sequence)}
        if change.mark == _GONE:
            headers[h.OPERATION] = "DEL"
            headers[h.TTL] = f"{TOMBSTONE_TTL_S}s"
        if change.traceparent:
            headers[h.TRACEPARENT] = change.traceparent
        state.flight = flight = _Flight(key, change, state.sequence, self._era)
        await self._window.send(flight, self._prefix + key, change.payload, headers)

    def _acknowledged(self, flight: _Flight, ack: PubAck) -> None:
        if flight.era != self._era:
            return
        if ack.error is not None:
            self._doubt(flight, "refused" if ack.error.err_code in WRONG_SEQUENCE else ack.error.description)
            return
        key, state = flight.key, self._keys[flight.key]
        state.flight = None
        self._follower.witness(ack.seq, self._prefix + key, flight.change.payload)
        if ack.seq < state.sequence and state.mark != flight.change.mark:
            self._conflict(key, state)  # stored, and replaced by somebody else since
            return
        state.late = None
        self._learn(key, state, ack.seq, flight.change.mark)
        self._settle(key, state, "stored")

    def _settle(self, key: str, state: _Key, outcome: str) -> None:
        """A write has its outcome; the one behind it is next."""
        self._writes[outcome].inc()
        if state.waiting is not None:
            self._queue.append(key)
            self._wake.set()
        else:
            self._open -= 1
            self._changed.set()

    def _learn(self, key: str, state: _Key, sequence: int, mark: int) -> None:
        """What the newest message of a key is."""
        if sequence <= state.sequence:
            return
        state.sequence, state.mark = sequence, mark
        if mark == _GONE:
            self._bury(key, sequence)

    def _bury(self, key: str, sequence: int) -> None:
        """Forget deleted keys once their markers have expired on the server."""
        now = self._clock.monotonic()
        self._graves.append((now, key, sequence))
        while self._graves and now - self._graves[0][0] > FORGET_S:
            _, old, at = self._graves.popleft()
            state = self._keys.get(old)
            if state is not None and state.sequence == at and not state.busy:
                del self._keys[old]

    # --- doubt --------------------------------------------------------------------------------------------------------

    def _doubt(self, flight: _Flight, reason: str) -> None:
        """The outcome of a write is not clear: its key must be read."""
        if flight.era == self._era:
            self._doubtful[flight.key] = reason
            self._doubts.set()

    async def _resolve(self) -> None:
        """Read doubtful keys from their leader, and decide."""
        pause_s = RETRY_FIRST_S
        while True:
            await self._doubts.wait()
            await self._complete.wait()
            await self._follower.attached.wait()
            era, some = self._era, dict(list(self._doubtful.items())[:RESOLVE_AT_ONCE])
            if not some:
                self._doubts.clear()
                continue
            answers = await asyncio.gather(*(self._read(key) for key in some))
            if era != self._era:
                continue
            in_vain = all(list(map(self._decide, some, some.values(), answers)))
            self._changed.set()
            if in_vain:
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)
            else:
                pause_s = RETRY_FIRST_S

    async def _read(self, key: str) -> Stored | BusError | None:
        try:
            return await jetstream.newest(self._link, self.bucket, key)
        except BusError as error:
            return error

    def _decide(self, key: str, reason: str, stored: Stored | BusError | None) -> bool:
        """Settle a doubtful write; True: nothing was gained, and a pause should come before the next try."""
        if isinstance(stored, BusError):
            log.warning("cannot read a key of %s after a write (%s): %s", self.bucket, reason, describe(stored))
            return True
        del self._doubtful[key]
        state = self._keys[key]
        flight, state.flight = state.flight, None
        if flight is None:
            return False
        sequence, mark = (0, _GONE) if stored is None else (stored.sequence, _mark(stored))
        state.sequence, state.mark = sequence, mark
        if stored is not None:
            self._follower.witness(stored.sequence, self._prefix + key, stored.value)
        if mark == flight.change.mark:
            self._settle(key, state, "stored")
            return False
        if stored is not None and sequence != flight.expected and mark != state.late:
            self._conflict(key, state)
            return False
        # It did not arrive (yet), an earlier one arrived late, or the marker that it expected has expired meanwhile.
        state.late = flight.change.mark
        if state.waiting is None:
            state.waiting = flight.change
        self._writes["retried"].inc()
        self._again.append(key)
        self._wake.set()
        return stored is not None or flight.expected == 0

    def _conflict(self, key: str, state: _Key) -> None:
        """Somebody else wrote the key: drop what was wanted, let the owner decide again."""
        self.conflicts += 1
        log.warning("somebody else wrote %s of %s (sequence %d)", key, self.bucket, state.sequence)
        state.waiting = None
        self._show(key, state.mark)
        self._conflicted[key] = state.sequence
        self._settle(key, state, "conflict")
        self._report()

    def _report(self) -> None:
        """Tell the owner of conflicts whose other side the follower has shown."""
        shown = [key for key, sequence in self._conflicted.items() if sequence <= self._follower.sequence]
        for key in shown:
            del self._conflicted[key]
            if self.on_conflict is not None:
                self.on_conflict(key)
        if shown:
            self._changed.set()

    # --- what the follower shows --------------------------------------------------------------------------------------

    def _apply(self, entry: Entry) -> None:
        key = entry.key
        state = self._keys.get(key)
        if state is None:
            state = self._keys[key] = _Key()
        mark = _GONE if entry.deleted else hash(entry.value)
        if self._sink is not None:
            self._sink.apply(entry)
        if entry.sequence > state.sequence:
            ours = state.flight is not None or mark in (state.mark, state.newest_mark(), state.late)
            foreign = self._complete.is_set() and not ours
            self._learn(key, state, entry.sequence, mark)
            if not state.busy:
                self._show(key, mark)
            if foreign:
                if not state.busy:
                    self._open += 1
                self._conflict(key, state)
        if self._conflicted:
            self._report()

    def _end(self, sequence: int) -> None:
        if not self._complete.is_set():
            self._complete.set()
            self._changed.set()
        if self._sink is not None:
            self._sink.end(sequence)
        if self._lost_pending:
            self._lost_pending = False
            if self.on_reset is not None:
                self.on_reset()
            self._changed.set()

    def _reset(self) -> None:
        """The bucket is another one: forget what was known of it."""
        self._era += 1
        self._complete.clear()
        self._doubtful.clear()
        self._conflicted.clear()
        self._graves.clear()
        wanted = {} if self.on_reset is not None else self._wanted()
        self._writes["lost"].inc(self._open - len(wanted))
        self._keys, self._live, self._queue = {}, {}, deque(wanted)
        self._again.clear()
        for key, change in wanted.items():
            self._keys[key] = state = _Key()
            state.waiting = change
            self._show(key, change.mark)
        self._open = len(wanted)
        self._lost_pending = True
        self._wake.set()
        if self._sink is not None:
            self._sink.reset()

    def _wanted(self) -> dict[str, _Change]:
        """The newest write of every key that has one without an outcome."""
        wanted = {}
        for key, state in self._keys.items():
            change = state.waiting or (state.flight.change if state.flight is not None else None)
            if change is not None:
                wanted[key] = change
        return wanted


class _View:
    """The sink of the bucket's own follower."""

    def __init__(self, bucket: OwnedBucket) -> None:
        self.apply = bucket._apply
        self.end = bucket._end
        self.reset = bucket._reset


def _mark(stored: Stored) -> int:
    return _GONE if stored.deleted else hash(stored.value)
