"""The sole writer's side of a bucket.

The bucket is read to its end first; from then on every write expects the last sequence of its key, so that a paused
owner who wakes up beside its successor changes nothing. Bytes that are there already are not sent again. A key has one
write in flight and at most one behind it, the newest.

Many writes are in flight at once, and still none is stored before one that was sent earlier: readers take the order of
the stream for the order of what happened. The owner of a whole bucket lets every write expect the sequence of the one
before it in the stream. Where one is lost on its way (its leader dies, another takes over in the middle of a burst) the
server refuses all that follow; once the outcome of each is known they are sent again, in their order.

Every message names the era of its owner: its process, and how many losses it has noticed. Since the first write after a
loss is refused, a reader that hears of none sees another era before anything that took the place of the lost.

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
import random as randomness
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from berth.bus import headers as h
from berth.bus.errors import BusError, describe
from berth.bus.follower import Follower
from berth.bus.jetstream import NANO, WRONG_SEQUENCE, PubAck
from berth.bus.key_follower import KeyFollower
from berth.bus.keys import are_exact
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.owned_book import OwnedBook
from berth.bus.owned_doubts import Doubts
from berth.bus.owned_key import GONE, Flight, Key, mark_of
from berth.bus.port import Clock, Entry, Sink, Stored
from berth.bus.tasks import end_tasks
from berth.bus.topology import TOMBSTONE_TTL_S
from berth.bus.window import AckWindow

log = FieldLogger(__name__)

WINDOW = 512
WAITING_MAX = 4096
"""Keys with a write waiting, above which `wait_while_full` waits."""
TAKE_UP_PAUSE_S = 0.25
BEATS = 5
"""An owner of one key, which nobody else is to write, reads it once in so many: each write says what it expects."""


class OwnedBucket(OwnedBook):
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
        on_close: Callable[[OwnedBucket], None] = lambda _: None,
        sink: Sink | None = None,
        keys: str = ">",
        window: int = WINDOW,
    ) -> None:
        super().__init__(bucket, clock=clock, on_conflict=on_conflict, keys=keys)
        self.on_reset = on_reset
        self._prefix = f"$KV.{bucket}."
        self._sink = sink
        self._era = 0
        self._named = f"{link.token()}.0"
        self._number = 0
        self._flying = 0  # writes of this era without an outcome
        self._chain: int | None = None  # the stream's last sequence once all of them are stored; None: ask
        self._lost_pending = False
        self._follower: Follower | KeyFollower
        self._whole: Follower | None = None  # the same, of an owner of the whole bucket
        if are_exact([keys]):
            self._follower = KeyFollower(
                link,
                bucket,
                _View(self),
                keys=[keys],
                clock=clock,
                random=random,
                every=BEATS,
                is_hasty=lambda: bool(self._doubts or self._conflicted),
            )
        else:
            self._follower = follower = Follower(link, bucket, _View(self), keys=keys, clock=clock, random=random)
            self._whole = follower if keys == ">" else None
        self._link = link
        self._window = AckWindow[Flight](link, size=window, acknowledged=self._acknowledged, lost=self._doubt)
        self._doubts = Doubts(link, bucket, clock=clock, readable=self._readable, decide=self._decide)
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: BaseException | None = None
        self._on_close = on_close

    # --- for the owner ------------------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Return once the bucket was read to its end."""
        while not self._complete.is_set():
            await self._change()

    async def wait_while_full(self) -> None:
        """Return once fewer than `WAITING_MAX` keys wait to be written."""
        while self._open >= WAITING_MAX:
            await self._change()

    async def drain(self) -> None:
        """Return once every write so far has its outcome, and every conflict was reported to the owner."""
        while self._open or self._conflicted or self._lost_pending:
            await self._change()

    async def close(self) -> None:
        """Stop; writes without an outcome may be stored or not."""
        await end_tasks(self._tasks)
        await self._window.close()
        self._on_close(self)

    # --- tasks --------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._tasks:
            self._spawn("follow", self._follower.run())
            self._spawn("write", self._write())
            self._spawn("resolve", self._doubts.run(self._changed.set))

    def _spawn(self, name: str, run: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(run, name=f"bus-{name}-{self.bucket}")
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            log.failed("a task of an owned bucket failed", self._failure, bucket=self.bucket)
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
            # Writes into a stream that lost its tail would hide the loss.
            for needed in (self._wake, self._complete, self._follower.attached):
                if not needed.is_set():
                    await needed.wait()
            await self._window.wait_while_full()
            if self._doubts:
                # A newer write must not overtake an older one whose outcome is unknown.
                await self._change()
            elif not (self._again or self._queue):
                self._wake.clear()
            elif self._whole is not None and self._chain is None:
                await (self._change() if self._flying else self._take_up(self._whole))
            elif self._complete.is_set() and self._follower.attached.is_set():
                await self._send((self._again or self._queue).popleft())

    async def _take_up(self, follower: Follower) -> None:
        """Nothing is in flight: go on behind what the stream holds, with what was sent before in its order."""
        try:
            last = await follower.last_of_same()
        except BusError as error:
            log.debug("cannot write yet", bucket=self.bucket, error=describe(error))
            await self._clock.sleep(TAKE_UP_PAUSE_S)
            return
        if last is None:
            # Deleted and made again, or set back, and nobody has reported it: to go on would fill it from the middle.
            follower.begin_again("the stream is not the one that was read")
            return
        if not self._doubts:
            self._again = deque(sorted(self._again, key=lambda key: self._keys[key].number))
            self._chain = last

    async def _send(self, key: str) -> None:
        state = self._keys.get(key)
        if state is None or state.flight is not None or state.waiting is None:
            return  # a conflict or a loss took the write back
        change, state.waiting = state.waiting, None
        # What stands there may yet be replaced by a write that was given up, unless this one moves the sequence on.
        if change.mark == state.mark and state.late in (None, change.mark):
            self._settle(key, state, "unchanged")
            return
        headers = {h.EXPECTED: str(state.sequence), h.ERA: self._named}
        if self._chain is not None:
            headers[h.EXPECTED_OF_STREAM] = str(self._chain)
            self._chain += 1
        if change.mark == GONE:
            headers[h.OPERATION] = "DEL"
            headers[h.TTL] = f"{TOMBSTONE_TTL_S}s"
        if change.traceparent:
            headers[h.TRACEPARENT] = change.traceparent
        self._number += 1
        self._flying += 1
        state.number = self._number
        state.flight = flight = Flight(key, change, state.sequence, self._era, self._number)
        await self._window.send(flight, self._prefix + key, change.payload, headers)

    def _acknowledged(self, flight: Flight, ack: PubAck) -> None:
        if flight.era != self._era:
            return
        if ack.error is not None:
            self._doubt(flight, "refused" if ack.error.err_code in WRONG_SEQUENCE else ack.error.description)
            return
        key, state = flight.key, self._keys[flight.key]
        state.flight = None
        self._landed()
        self._follower.witness(ack.seq, self._prefix + key, flight.change.payload, era=self._named)
        if ack.seq < state.sequence and state.mark != flight.change.mark:
            # Stored, and replaced by somebody else since.
            self._lose(key, state, state.passed)
            return
        state.late = state.passed = None
        self._learn(key, state, ack.seq, flight.change.mark)
        self._settle(key, state, "stored")

    def _doubt(self, flight: Flight, reason: str) -> None:
        """The outcome of a write is not clear: its key must be read."""
        if flight.era == self._era:
            self._chain = None
            self._doubts.add(flight.key, reason)
            self._landed()

    def _landed(self) -> None:
        """A write has an outcome, clear or not."""
        self._flying -= 1
        if self._chain is None:
            self._changed.set()

    async def _readable(self) -> None:
        await self._complete.wait()
        await self._follower.attached.wait()

    def _decide(self, key: str, stored: Stored | None) -> bool:
        """Settle a doubtful write by what its key holds; True: nothing was gained by that."""
        state = self._keys[key]
        flight, state.flight = state.flight, None
        if flight is None:
            return False
        sequence, mark, entry = 0, GONE, None
        if stored is not None:
            sequence, mark, time_s = stored.sequence, mark_of(stored), stored.time_ns / NANO
            entry = Entry(key, stored.value, stored.deleted, sequence, 0, False, None, time_s)
            self._follower.witness(sequence, self._prefix + key, stored.value, time_ns=stored.time_ns)
        if state.passed is not None and state.passed.sequence > sequence:
            # It was shown while the answer was on its way, which is of before.
            sequence, mark, entry = state.sequence, state.mark, state.passed
        state.sequence, state.mark = sequence, mark
        if mark == flight.change.mark:
            state.passed = None
            self._settle(key, state, "stored")
            return False
        if entry is not None and sequence != flight.expected and mark != state.late:
            self._lose(key, state, entry)
            return False
        # It did not arrive (yet), an earlier one arrived late, or the marker that it expected has expired meanwhile.
        self._retry(key, state, flight.change)
        return stored is not None or flight.expected == 0

    def _lose(self, key: str, state: Key, entry: Entry | None) -> None:
        """Somebody else's entry stands where ours was to be.

        When the follower showed it the owner took it for one that his own would replace, and has been putting his in
        its place since: it is shown to him once more.
        """
        shown, state.passed = self._follower.sequence, None
        if entry is not None and entry.sequence == state.sequence <= shown and self._sink is not None:
            self._sink.apply(entry)
        self._conflict(key, state, shown)

    # --- what the follower shows --------------------------------------------------------------------------------------

    def _apply(self, entry: Entry) -> None:
        key = entry.key
        state = self._keys.get(key)
        if state is None:
            state = self._keys[key] = Key()
        mark = GONE if entry.deleted else hash(entry.value)
        if self._sink is not None:
            self._sink.apply(entry)
        if entry.sequence > state.sequence:
            ours = state.flight is not None or mark in (state.mark, state.newest_mark(), state.late)
            foreign = self._complete.is_set() and not ours
            self._learn(key, state, entry.sequence, mark)
            if state.flight is not None and mark != state.flight.change.mark:
                state.passed = entry
            if not state.busy:
                self._show(key, mark)
            if foreign:
                costs = state.busy
                if not costs:
                    self._open += 1
                self._conflict(key, state, self._follower.sequence, costs=costs)
        if self._conflicted:
            self._report(self._follower.sequence)

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
        self._named = f"{self._named.partition('.')[0]}.{self._era}"
        self._flying, self._chain = 0, None
        self._doubts.clear()
        self._forget(keep_wanted=self.on_reset is None)
        self._lost_pending = True
        if self._sink is not None:
            self._sink.reset()


class _View:
    """The sink of the bucket's own follower."""

    def __init__(self, bucket: OwnedBucket) -> None:
        self.apply = bucket._apply
        self.end = bucket._end
        self.reset = bucket._reset
