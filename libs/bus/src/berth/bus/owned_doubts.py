"""Writes whose outcome is not clear: their keys are read from the stream's leader, some at once, until they are.

A time-out, a lost connection or a refusal says nothing certain about a write; only the leader's newest message does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from berth.bus import jetstream
from berth.bus.errors import BusError, describe
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Clock, Stored

log = FieldLogger(__name__)

AT_ONCE = 16
RETRY_FIRST_S = 0.25
RETRY_MAX_S = 5.0

Decide = Callable[[str, Stored | None], bool]
"""What to make of a key and of its newest message; True: nothing was gained by reading it."""


class Doubts:
    """Keys to be read, and why. `readable` returns once reading makes sense; `decide` settles what was read."""

    def __init__(
        self, link: Link, bucket: str, *, clock: Clock, readable: Callable[[], Awaitable[object]], decide: Decide
    ) -> None:
        self._link = link
        self._bucket = bucket
        self._clock = clock
        self._readable = readable
        self._decide = decide
        self._reasons: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._era = 0

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def add(self, key: str, reason: str) -> None:
        """The outcome of a write is not clear: its key must be read."""
        self._reasons[key] = reason
        self._wake.set()

    def clear(self) -> None:
        """The bucket is another one: answers on their way count no longer."""
        self._era += 1
        self._reasons.clear()

    async def run(self, changed: Callable[[], None]) -> None:
        """Read and settle for ever; `changed` is called after each round."""
        pause_s, in_vain = RETRY_FIRST_S, True
        while True:
            await self._wake.wait()
            await self._readable()
            era, some = self._era, dict(list(self._reasons.items())[:AT_ONCE])
            if not some:
                self._wake.clear()
                continue
            answers = await asyncio.gather(*(self._read(key) for key in some))
            if era != self._era:
                continue
            in_vain = all(list(map(self._settle, some, some.values(), answers)))
            changed()
            # After a loss of many writes there are keys that nobody has read yet: those come first, without a pause.
            if in_vain and (not self._reasons or any(isinstance(answer, BusError) for answer in answers)):
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)
            elif not in_vain:
                pause_s = RETRY_FIRST_S

    async def _read(self, key: str) -> Stored | BusError | None:
        try:
            return await jetstream.newest(self._link, self._bucket, key)
        except BusError as error:
            return error

    def _settle(self, key: str, reason: str, stored: Stored | BusError | None) -> bool:
        """True: nothing was gained, and a pause should come before the next try."""
        if isinstance(stored, BusError):
            log.warning("cannot read a key after a write", bucket=self._bucket, reason=reason, error=describe(stored))
            return True
        del self._reasons[key]
        return self._decide(key, stored)
