"""The end of an outage, passed on among the reflectors of one process.

Each reflector backs off for itself, so after an outage their ways back can lie half a minute apart, and meanwhile the
kinds show different moments: a pod is there, the quota made before it is not. Here the first reflector that gets
through again ends the pauses of all those that nobody answered either. And who was not answered and then is, if only
to hear that its version is too old or that the server is still starting, backs off from the beginning again.

It ends no other pause (throttling, a refusal, something unreadable), and asks the server nothing itself. A server that
is up for some and down for others is not stormed: a pause that was ended is followed by a short one, after a few in a
row that led nowhere the next lasts its whole time, and back-off begins again once until something was read.
"""

from __future__ import annotations

import asyncio
from typing import Final

from berth.kube.answer import Answer
from berth.kube.clock import Clock

AFTER_S: Final = 0.1
"""From the end of an outage to the next try."""
HURRIES_MAX: Final = 3
"""Pauses in a row that may be cut short without getting through."""


class Outages:
    """What the reflectors of one API server share. For one event loop."""

    def __init__(self) -> None:
        self.ended = 0
        """How many ends there were."""
        self._pauses: dict[asyncio.Task[None], None] = {}  # in order, so that a simulated run repeats itself

    def end(self) -> None:
        """One of those who were not answered got through."""
        self.ended += 1
        for pause in self._pauses:
            pause.cancel()

    async def pause(self, clock: Clock, wait_s: float) -> bool:
        """Wait so long, or until an outage ends; True in the second case."""
        pause = asyncio.create_task(clock.sleep(wait_s))
        self._pauses[pause] = None
        try:
            await asyncio.wait((pause,))
        finally:
            del self._pauses[pause]
            pause.cancel()
        return pause.cancelled()


class Reach:
    """How one reflector stands with the server."""

    def __init__(self, outages: Outages, clock: Clock) -> None:
        self._outages = outages
        self._clock = clock
        self._is_cut_off = False
        self._began_again = False
        self._seen = 0
        self._hurries = 0

    def trying(self) -> None:
        """A list or a stream is asked for."""
        self._seen = self._outages.ended

    def through(self) -> None:
        """A page or a line came."""
        self._began_again = False
        self._is_back()

    def refused(self, answer: Answer) -> bool:
        """A list or a stream came to nothing. True: it backs off from the beginning again."""
        if answer.unknown or not self._is_cut_off:
            return False
        begins, self._began_again = not self._began_again, True
        if not answer.repeat:
            self._is_back()
        return begins

    async def pause(self, wait_s: float) -> None:
        """Wait after nobody answered, as long as nobody else is answered either."""
        self._is_cut_off = True
        may_hurry = self._hurries < HURRIES_MAX
        if not may_hurry:
            await self._clock.sleep(wait_s)
            self._hurries = 0
        elif self._outages.ended != self._seen or await self._outages.pause(self._clock, wait_s):
            self._hurries += 1
            await self._clock.sleep(min(wait_s, AFTER_S))

    def _is_back(self) -> None:
        if self._is_cut_off:
            self._is_cut_off, self._hurries = False, 0
            self._outages.end()
            self._seen = self._outages.ended  # its own word is no news to itself
