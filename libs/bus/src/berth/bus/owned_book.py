"""The book of an owned bucket: what is known, wanted and on its way for each key, and in which order it is sent.

Bookkeeping without I/O. It says when there is something to send (`wake`) and when something came to an end
(`changed`); `berth.bus.owned` sends, and reports to the book what became of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, KeysView

from berth.bus import metrics
from berth.bus.keys import VALUE_BYTES_MAX, check_key, matches
from berth.bus.logs import FieldLogger
from berth.bus.owned_key import GONE, Change, Key
from berth.bus.port import Clock
from berth.bus.topology import TOMBSTONE_TTL_S

log = FieldLogger(__name__)

FORGET_S = TOMBSTONE_TTL_S * 1.1


class OwnedBook:
    """Keys and their writes. `complete` is set while the bucket has been read to its end."""

    def __init__(
        self, bucket: str, *, clock: Clock, on_conflict: Callable[[str], None] | None = None, keys: str = ">"
    ) -> None:
        self.bucket = bucket
        self.conflicts = 0
        self.on_conflict = on_conflict
        self._clock = clock
        self._pattern = keys
        self._keys: dict[str, Key] = {}
        self._live: dict[str, None] = {}
        self._graves: deque[tuple[float, str, int]] = deque()
        self._queue: deque[str] = deque()
        self._again: deque[str] = deque()  # sent before, in that order, and to be sent again before anything newer
        self._open = 0  # keys with a write waiting or in flight
        self._conflicted: dict[str, int] = {}  # key -> sequence that the follower must have shown
        self._complete = asyncio.Event()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._writes = {
            outcome: metrics.WRITES.labels(bucket, outcome)
            for outcome in ("stored", "unchanged", "retried", "conflict", "lost")
        }

    # --- for the owner ------------------------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, *, traceparent: str | None = None) -> bool:
        """Queue a write; see the port. Raises ValueError for an illegal key or a value that is too large."""
        if len(value) > VALUE_BYTES_MAX:
            raise ValueError(f"{key}: value of {len(value)} bytes is larger than {VALUE_BYTES_MAX}")
        return self._want(key, Change(value, hash(value), traceparent))

    def delete(self, key: str, value: bytes = b"") -> bool:
        """Queue a deletion marker with a payload; see the port."""
        return self._want(key, Change(value, GONE, None))

    def keys(self) -> KeysView[str]:
        """Keys that are there, counting writes on their way."""
        return self._live.keys()

    def sequence(self, key: str) -> int:
        """Last sequence known of a key; 0: none."""
        state = self._keys.get(key)
        return 0 if state is None else state.sequence

    def _start(self) -> None:
        """The sender begins with the first write."""

    def _want(self, key: str, change: Change) -> bool:
        self._start()
        state = self._keys.get(key)
        if state is None:
            check_key(key)
            if not matches(self._pattern, key):
                raise ValueError(f"{key}: not one of the owned keys {self._pattern}")
            state = Key()
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

    # --- what became of a write ---------------------------------------------------------------------------------------

    def _show(self, key: str, mark: int) -> None:
        if mark == GONE:
            self._live.pop(key, None)
        else:
            self._live[key] = None

    def _settle(self, key: str, state: Key, outcome: str) -> None:
        """A write has its outcome; the one behind it is next."""
        self._writes[outcome].inc()
        if state.waiting is not None:
            self._queue.append(key)
            self._wake.set()
        else:
            self._open -= 1
            self._changed.set()

    def _learn(self, key: str, state: Key, sequence: int, mark: int) -> None:
        """What the newest message of a key is."""
        if sequence <= state.sequence:
            return
        state.sequence, state.mark = sequence, mark
        if mark == GONE:
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

    def _retry(self, key: str, state: Key, change: Change) -> None:
        """A write did not arrive: it, or the newer one behind it, is sent before anything else."""
        state.late = change.mark
        if state.waiting is None:
            state.waiting = change
        self._writes["retried"].inc()
        self._again.append(key)
        self._wake.set()

    # --- somebody else writes -----------------------------------------------------------------------------------------

    def _conflict(self, key: str, state: Key, shown: int, *, costs: bool = True) -> None:
        """Somebody else wrote the key: drop what was wanted, let the owner decide again. `costs`: a write of ours."""
        self.conflicts += 1
        # A stand-by reads what the active replica writes; only what costs a write of ours is worth a line.
        level = logging.WARNING if costs else logging.DEBUG
        log.at(level, "somebody else wrote a key", key=key, bucket=self.bucket, sequence=state.sequence)
        state.waiting = None
        self._show(key, state.mark)
        self._conflicted[key] = state.sequence
        self._settle(key, state, "conflict")
        self._report(shown)

    def _report(self, shown: int) -> None:
        """Tell the owner of conflicts whose other side the follower has shown: everything through this sequence."""
        seen = [key for key, sequence in self._conflicted.items() if sequence <= shown]
        for key in seen:
            del self._conflicted[key]
            if self.on_conflict is not None:
                self.on_conflict(key)
        if seen:
            self._changed.set()

    # --- the bucket is another one ------------------------------------------------------------------------------------

    def _forget(self, *, keep_wanted: bool) -> None:
        """Nothing that was known holds; writes that wait are kept, or counted as lost."""
        self._complete.clear()
        self._conflicted.clear()
        self._graves.clear()
        wanted = self._wanted() if keep_wanted else {}
        self._writes["lost"].inc(self._open - len(wanted))
        self._keys, self._live, self._queue = {}, {}, deque(wanted)
        self._again.clear()
        for key, change in wanted.items():
            self._keys[key] = state = Key()
            state.waiting = change
            self._show(key, change.mark)
        self._open = len(wanted)
        self._wake.set()

    def _wanted(self) -> dict[str, Change]:
        """The newest write of every key that has one without an outcome."""
        wanted = {}
        for key, state in self._keys.items():
            change = state.waiting or (state.flight.change if state.flight is not None else None)
            if change is not None:
                wanted[key] = change
        return wanted
