"""The order in which commands are carried out: patches of one object one after the other, figures behind binds.

Of what waits for one object only the newest request matters for the same fields (`core.coalescing`): after an outage of
the API server an object is written once, and not as often as it was asked for. A request that gives way is
acknowledged; should the one that it gave way to fail, that comes again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from berth.cluster_writer.core.coalescing import Line, covers, is_of_figures, line_of
from berth.contracts.command import Command
from berth.runtime.clock import Clock

AT_ONCE: Final = 16
"""So many commands are carried out at the same time."""
LOOK_AHEAD: Final = 256
"""So many are held, so that one that waits can give way to a newer one."""
BEHIND_MAX_S: Final = 1.0
"""Figures wait for binds for so long at most: under a steady load there is always one."""
BEHIND_LOOK_S: Final = 0.05
REMEMBERED_MAX: Final = 4096
"""Of so many objects the last request is remembered, against older ones that come again."""

OVERTAKEN: Final = "overtaken"


class _Waiting:
    """A command in the line of its object. `event` is set when it may have become the first, or gave way."""

    __slots__ = ("command", "event", "gave_way", "has_begun", "sequence")

    def __init__(self, command: Command, sequence: int) -> None:
        self.command = command
        self.sequence = sequence
        self.event = asyncio.Event()
        self.gave_way = False
        self.has_begun = False


class Turns:
    """The lines of all objects. `is_busy`: binds are under way; `phase_of` an object by its view, None: not known.

    What is remembered of requests that are done saves writes, and nothing depends on it: it is lost with the process.
    An older request that comes again then is carried out behind a newer one; whoever asks compares STATE with what it
    wants, and asks anew for what the object does not say.
    """

    def __init__(self, clock: Clock, is_busy: Callable[[], bool], phase_of: Callable[[Line], str | None]) -> None:
        self._clock = clock
        self._is_busy = is_busy
        self._phase_of = phase_of
        self._places = asyncio.Semaphore(AT_ONCE)
        self._lines: dict[Line, list[_Waiting]] = {}
        self._done: OrderedDict[Line, tuple[int, Command]] = OrderedDict()

    async def take(
        self,
        command: Command,
        carry_out: Callable[[], Awaitable[str]],
        *,
        sequence: int,
        comes_again: bool,
    ) -> str:
        """Carry it out in its turn; the outcome. `sequence` is that of its message."""
        at = line_of(command)
        if at is None:
            async with self._places:
                return await carry_out()
        done = self._done.get(at)
        if comes_again and done is not None and done[0] > sequence and covers(done[1], command):
            return OVERTAKEN
        line = self._lines.setdefault(at, [])
        if comes_again and any(each.sequence > sequence and covers(each.command, command) for each in line):
            return OVERTAKEN
        for other in line:
            is_newer = comes_again and other.sequence > sequence
            if not other.has_begun and not is_newer and covers(command, other.command):
                other.gave_way = True
                other.event.set()
        mine = _Waiting(command, sequence)
        line.append(mine)
        try:
            if not await self._until_first(mine, line, at):
                return OVERTAKEN
            async with self._places:
                if mine.gave_way:
                    return OVERTAKEN
                mine.has_begun = True
                outcome = await carry_out()
            newest = self._done.get(at)
            if newest is None or newest[0] <= sequence or not comes_again:
                self._remember(at, sequence, command)
            return outcome
        finally:
            self._leave(at, line, mine)

    async def _until_first(self, mine: _Waiting, line: list[_Waiting], at: Line) -> bool:
        """Wait for those in front, and for binds where it may; False: it has given way."""
        while line[0] is not mine and not mine.gave_way:
            mine.event.clear()
            await mine.event.wait()
        if is_of_figures(mine.command, self._phase_of(at)):
            until = self._clock.monotonic() + BEHIND_MAX_S
            while not mine.gave_way and self._is_busy() and self._clock.monotonic() < until:
                await self._clock.sleep(BEHIND_LOOK_S)
        return not mine.gave_way

    def _leave(self, at: Line, line: list[_Waiting], mine: _Waiting) -> None:
        line.remove(mine)
        if line:
            line[0].event.set()
        elif self._lines.get(at) is line:
            del self._lines[at]

    def _remember(self, at: Line, sequence: int, command: Command) -> None:
        self._done[at] = (sequence, command)
        self._done.move_to_end(at)
        if len(self._done) > REMEMBERED_MAX:
            self._done.popitem(last=False)
