"""Who may write to Kubernetes, and what the writer has acted on: one Lease, every change of it guarded.

Promises: two holders never both succeed in changing the Lease, since each change carries the resource version that was
read; a holder that was paused finds out at its next change. The clock decides only when a stand-by *tries*: it does so
after having watched an unchanged Lease for its whole duration on its own monotonic clock. What the Lease remembers
(epoch, newest plan) survives every change of holder.

It does not stop a former holder from sending requests: that is what the guards of those requests are for.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from collections.abc import Callable
from typing import NamedTuple

from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.kube.bodies import Patch
from berth.kube.clock import Clock
from berth.kube.lease_record import LeaseRecord, new_lease, read_lease, released, remembering, renewed, taken
from berth.kube.resources import LEASES

log = logging.getLogger(__name__)

TRIES_MAX = 3
"""How often one change is sent again when only our own renewal got in its way."""
MARGIN_S = 0.02
"""A nap to the end of another's Lease ends a little behind it, not a little before."""


class Outcome(enum.Enum):
    """What came of a change of the Lease."""

    DONE = "done"
    CHANGED = "changed"
    """We still hold it, but it remembers something else than we thought: look again before going on."""
    LOST = "lost"
    """Another holds it (or it is gone): stop."""
    UNKNOWN = "unknown"
    """No answer, and looking was not possible either: ask again."""


class _Observation(NamedTuple):
    version: str
    since: float


class KubeLease:
    """One Lease. `holder` must be unique to this run of the process: a predecessor of the same name is another.

    `on_change` is called with True when it becomes ours and with False when it stops being ours.
    """

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        name: str,
        holder: str,
        *,
        clock: Clock,
        rng: random.Random,
        duration_s: int = 6,
        renew_s: float = 2.0,
        on_change: Callable[[bool], None] = lambda _: None,
    ) -> None:
        if not holder:
            raise ValueError("holder: must not be empty")
        if not 0 < renew_s < duration_s:
            raise ValueError(f"renew_s: {renew_s} is not within 0..{duration_s}")
        self._api = api
        self._namespace = namespace
        self._name = name
        self.holder = holder
        self._clock = clock
        self._rng = rng
        self._duration_s = duration_s
        self._renew_s = renew_s
        self._on_change = on_change
        self._lock = asyncio.Lock()
        self._observed: _Observation | None = None
        self._held = False
        self._confirmed_at = 0.0
        self._trouble = ""
        self.record: LeaseRecord | None = None
        """The Lease as last seen; None before that or when it does not exist."""

    @property
    def held(self) -> bool:
        """It was ours when last seen."""
        return self._held

    @property
    def active(self) -> bool:
        """It is ours, last confirmed less than its duration ago. This decides who tries, no more."""
        return self._held and self._clock.monotonic() - self._confirmed_at < self._duration_s

    async def run(self) -> None:
        """Try to get it, keep it, for ever. Cancelling does not release it: see `release`."""
        while True:
            await (self.renew() if self._held else self.try_acquire())
            await self._clock.sleep(self._nap_s())

    def _nap_s(self) -> float:
        """Until the next renewal or look; less when another's Lease would be free before that."""
        nap_s = self._renew_s * self._rng.uniform(0.9, 1.0)
        if self._held or self._observed is None or self.record is None:
            return nap_s
        left_s = self._patience_s(self.record) - (self._clock.monotonic() - self._observed.since)
        return left_s + MARGIN_S if 0 < left_s < nap_s else nap_s

    async def try_acquire(self) -> bool:
        """One look, and one attempt if it is free or has not changed for its duration. True when it is ours."""
        async with self._lock:
            if self._held:
                return True
            asked_at = self._clock.monotonic()
            answer = await self._look()
            if answer.missing and not answer.is_page:
                body = new_lease(self._namespace, self._name, self.holder, self._duration_s, self._clock.now())
                answer = await self._api.create(LEASES, self._namespace, body)
                self._adopt(answer, asked_at)
            elif self.record is not None and answer.ok and (self._is_free(self.record) or self._is_mine(self.record)):
                asked_at = self._clock.monotonic()
                body = taken(self.record, self.holder, self._duration_s, self._clock.now())
                answer = await self._patch(body)
                self._adopt(answer, asked_at)
            self._complain(answer)
            return self._held

    def _complain(self, answer: Answer) -> None:
        """Say once what stands in the way of getting the Lease, other than another holder."""
        trouble = "" if answer.ok or answer.conflict else f"{answer.status} {answer.message}"
        if trouble and trouble != self._trouble:
            log.warning(
                "Lease %s/%s cannot be taken: %s (does the namespace exist, and may we write Leases in it?)",
                self._namespace,
                self._name,
                trouble,
            )
        self._trouble = trouble

    async def renew(self) -> Outcome:
        """Show that we are alive."""
        async with self._lock:
            return await self._change(lambda record: renewed(record, self._clock.now()), None)

    async def remember(self, *, epoch: int, plan: str, seen: LeaseRecord) -> Outcome:
        """Write epoch and newest plan, provided that the Lease still remembers what it did in `seen`.

        DONE only when the Lease is known to carry them and to be ours.
        """
        async with self._lock:
            if self.record is None or self.record.mark not in (seen.mark, (epoch, plan)):
                return Outcome.CHANGED if self._held else Outcome.LOST
            return await self._change(
                lambda record: remembering(record, self._clock.now(), epoch=epoch, plan=plan), (epoch, plan)
            )

    async def release(self) -> None:
        """Leave it to a stand-by at once, if it is ours. Best effort."""
        async with self._lock:
            if self._held and self.record is not None:
                await self._patch(released(self.record))
                self._set_held(False)

    async def _change(
        self, body_of: Callable[[LeaseRecord], dict[str, object]], wanted: tuple[int | None, str] | None
    ) -> Outcome:
        """Send a guarded change. After anything but a plain yes, look; send again if only our own writes moved it."""
        for _ in range(TRIES_MAX):
            if not self._held or self.record is None:
                return Outcome.LOST
            before = self.record
            asked_at = self._clock.monotonic()
            answer = await self._patch(body_of(before))
            if self._adopt(answer, asked_at):
                return Outcome.DONE
            if answer.status in (400, 401, 403, 429):
                return Outcome.UNKNOWN  # not carried out, and not because of somebody else
            asked_at = self._clock.monotonic()
            looked = await self._look()
            if looked.missing and not looked.is_page:
                self._set_held(False)
                return Outcome.LOST
            if not looked.ok or self.record is None:
                return Outcome.UNKNOWN
            if not self._is_mine(self.record):
                self._set_held(False)
                return Outcome.LOST
            self._confirmed_at = asked_at
            if wanted is not None and self.record.mark == wanted:
                return Outcome.DONE
            if self.record.mark != before.mark:
                return Outcome.CHANGED
        return Outcome.UNKNOWN

    async def _look(self) -> Answer:
        answer = await self._api.get(LEASES, self._namespace, self._name)
        if answer.missing and not answer.is_page:
            self.record = None
            self._observed = None
        elif answer.ok and (record := read_lease(answer.body)) is not None:
            self.record = record
            if self._observed is None or self._observed.version != record.version:
                self._observed = _Observation(record.version, self._clock.monotonic())
        return answer

    async def _patch(self, body: dict[str, object]) -> Answer:
        return await self._api.patch(LEASES, self._namespace, self._name, body, content_type=Patch.MERGE)

    def _adopt(self, answer: Answer, asked_at: float) -> bool:
        """Take over what the server stored, if it did; True when that makes or keeps it ours."""
        record = read_lease(answer.body) if answer.ok else None
        if record is None or not self._is_mine(record):
            return False
        self.record = record
        self._confirmed_at = asked_at
        self._set_held(True)
        return True

    def _is_mine(self, record: LeaseRecord) -> bool:
        return record.holder == self.holder

    def _is_free(self, record: LeaseRecord) -> bool:
        if not record.holder:
            return True
        if self._observed is None:
            return False
        return self._clock.monotonic() - self._observed.since >= self._patience_s(record)

    def _patience_s(self, record: LeaseRecord) -> int:
        return max(self._duration_s, record.duration_s)

    def _set_held(self, held: bool) -> None:
        if held != self._held:
            self._held = held
            self._on_change(held)
