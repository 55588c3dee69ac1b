"""A lease on the bus: which of several replicas should work now.

One key per lease, written with a time to live by conditional write, renewed by conditional write three times within
that time. The holder stops being active by its own clock before the key can expire, and at once when a renewal is
refused. The lease decides only who tries: what guards the data are the conditional writes of the owner's bucket.

A key that expired leaves nothing behind in this bucket (no limit markers), so a free lease is one without a message,
or with the deletion marker that its holder wrote when it left. What no holder would have written is taken over, too: a
value that cannot be read, one without a time to live, and one that nobody has renewed for several times as long.
"""

from __future__ import annotations

import logging
import random as randomness
from collections.abc import Callable, Mapping

import msgspec

from berth.bus import headers as h
from berth.bus import jetstream, metrics
from berth.bus.errors import BusError, describe
from berth.bus.keys import check_key
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Clock

log = FieldLogger(__name__)

RENEWALS = 3
"""Within one time to live."""
SAFETY = 0.8
"""Share of the time to live after which an unrenewed holder stops by itself."""
RELEASE_TTL_S = 1
OVERDUE = 3
"""Times to live (our own) for which a lease may stand without a renewal; its holder renews it that often within one."""


class Holding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the lease's key says. `incarnation` distinguishes two processes with one name; `note` is what the holder has
    to say to whoever follows the leases."""

    holder: str
    incarnation: str
    note: str = ""


class BusLease:
    """See `berth.bus.port.LeasePort`; `on_change(active)` must not raise."""

    def __init__(
        self,
        link: Link,
        bucket: str,
        name: str,
        holder: str,
        *,
        ttl_s: int,
        clock: Clock,
        random: randomness.Random,
        on_change: Callable[[bool], None] | None = None,
        note: str = "",
    ) -> None:
        check_key(name)
        if ttl_s < 1:
            raise ValueError(f"ttl_s: {ttl_s} is less than 1")
        self._held = False
        self._is_told = False  # that the bus does not answer
        self.name = name
        self._link = link
        self._bucket = bucket
        self._subject = f"$KV.{bucket}.{name}"
        self._value = msgspec.json.encode(Holding(holder=holder, incarnation=link.token(), note=note))
        self._ttl_s = ttl_s
        self._clock = clock
        self._random = random
        self._on_change = on_change
        self._sequence = 0
        self._seen = (0, 0.0)  # the sequence of somebody else's last renewal, and when it was first read (monotonic)
        self._until = 0.0  # monotonic: active no longer than this

    @property
    def active(self) -> bool:
        """This holder holds the lease; false by its own clock before anybody else can get it."""
        return self._held and self._clock.monotonic() < self._until

    async def run(self) -> None:
        """Try to get the lease, keep it, get it again; gives it back when cancelled."""
        try:
            while True:
                await self._try()
                if self._held and not self.active:
                    self._set(False)
                await self._clock.sleep(self._pause_s())
        finally:
            held = self._held
            self._set(False)
            if held:
                await self._release()

    async def _try(self) -> None:
        """Write the key, expecting what is known of it; a refusal says who has it."""
        started = self._clock.monotonic()
        try:
            stored = await self._write(self._value, self._ttl_s, timeout_s=self._ttl_s / RENEWALS)
            if not stored:
                # Perhaps our own renewal, whose answer was lost: nobody else can have it before `_until`.
                if not await self._free():
                    self._set(False)
                    return
                started = self._clock.monotonic()
                if not await self._write(self._value, self._ttl_s, timeout_s=self._ttl_s / RENEWALS):
                    self._set(False)
                    return
        except BusError as error:
            level = logging.WARNING if self._held and not self._is_told else logging.DEBUG
            log.at(level, "cannot look at a lease", lease=self.name, error=describe(error))
            self._is_told = True
            return
        self._is_told = False
        if self._held and not self.active:
            # It ran out while this process stood still, and others may have seen that: they have to hear of a win.
            self._set(False)
        self._until = started + self._ttl_s * SAFETY
        self._set(True)

    async def _write(self, value: bytes, ttl_s: int, *, timeout_s: float) -> bool:
        """One conditional write, of a deletion marker for no value; False: refused. Raises BusError for no answer."""
        headers = {h.EXPECTED: str(self._sequence), h.TTL: f"{ttl_s}s"}
        if not value:
            headers[h.OPERATION] = "DEL"
        msg = await self._link.request(self._subject, value, timeout_s=timeout_s, headers=headers)
        ack = jetstream.decode_ack(msg.data)
        if ack.error is None:
            self._sequence = ack.seq
            return True
        if ack.error.err_code in jetstream.WRONG_SEQUENCE:
            return False
        raise BusError(ack.error.description)

    async def _free(self) -> bool:
        """Whether nobody else holds the lease, and then the sequence to expect."""
        stored = await jetstream.newest_message(self._link, self._bucket, self.name)
        self._sequence = 0 if stored is None else stored.seq
        if stored is None:
            return True
        headers, value = jetstream.headers(stored), jetstream.payload(stored)
        if h.is_deletion(headers) or value == self._value:
            return True
        problem = self._problem(stored.seq, value, headers)
        if problem:
            log.warning("a lease is taken over", lease=self.name, problem=problem)
            return True
        self._sequence = 0  # what comes after the holder's last renewal is an expired key
        return False

    def _problem(self, sequence: int, value: bytes, headers: Mapping[str, str]) -> str:
        """Why this is nobody's lease, or nobody's any more; empty: it is somebody's."""
        try:
            msgspec.json.decode(value, type=Holding)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            return f"what it holds cannot be read: {error}"
        if h.TTL not in headers:
            return "it was written without a time to live"
        now = self._clock.monotonic()
        if sequence != self._seen[0]:
            self._seen = (sequence, now)
        if now - self._seen[1] > OVERDUE * self._ttl_s:
            return f"it has not been renewed for {now - self._seen[1]:.0f} s"
        return ""

    async def _release(self) -> None:
        """Leave a deletion marker for a moment, so that a stand-by need not wait for the expiry."""
        try:
            await self._write(b"", RELEASE_TTL_S, timeout_s=1.0)
        except BusError as error:
            log.debug("a lease was not given back", lease=self.name, error=describe(error))

    def _pause_s(self) -> float:
        """Until the next try: a fraction of the time to live, less while disconnected, never past the own deadline."""
        pause_s = self._ttl_s / RENEWALS * self._random.uniform(0.7, 1.0)
        if not self._held:
            return min(pause_s, 1.0) if self._link.connected.is_set() else 0.2
        if not self._link.connected.is_set():
            pause_s = 0.1
        return max(0.01, min(pause_s, self._until - self._clock.monotonic()))

    def _set(self, held: bool) -> None:
        if held == self._held:
            return
        self._held = held
        metrics.LEASE_CHANGES.labels(self.name, "won" if held else "lost").inc()
        log.info("lease won" if held else "lease lost", lease=self.name)
        if self._on_change is not None:
            self._on_change(held)
