"""Playing it through: pods end as pods of their kind do, others arrive as they did, and who waits takes what is free.

A cheap picture of the solver: amounts, cards and quotas count, in the order of the queue, and who fits goes before who
does not. Each game is played with other lifetimes and other arrivals, as far as these are not known. What it leaves out
(affinities, who is made to leave, NUMA nodes) `bands` corrects on the average.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.estimates.ground import Ground, Want
from berth.placement_solver.core.estimates.lifetimes import Curves, Drawn

EVENTS_MAX: Final = 2000
"""In one game; who has not started by then starts later than is known."""
NEARLY: Final = 0.999
"""Of a card: parts are sums of decimals."""
LATE_MAX: Final = 0.1
"""Who does not start in more games than this part of them is not played for any more: nothing will be said of it."""
STRETCH: Final = 30
"""So many who arrived one after the other are taken together, on the average."""
RESTS: Final = 0.2
"""In so many cases who waits is in back-off when something ends, and those behind come first."""
DRAWN: Final = 64
"""Lifetimes of a kind that are drawn at once."""
_BORN: Final = np.zeros(DRAWN)
_END, _COME = 0, 1
Held = tuple[tuple[int, float], ...]


class _Unit(NamedTuple):
    """One that waits in a game: its place in the order, its class, the row of its kind, its name where it is asked
    about."""

    order: tuple[int, int]
    cls: int
    kind: int
    id: str


class _Class(NamedTuple):
    """Those who want the same: what, how many together, on which rows."""

    want: Want
    size: int
    rows: npt.NDArray[np.bool_] | None


class Table:
    """What is free while it is played."""

    def __init__(self, ground: Ground) -> None:
        self.free, self.room = ground.free.copy(), ground.room.copy()
        self.cards: list[list[float]] = ground.cards.tolist()
        self.whole = np.count_nonzero(ground.cards >= NEARLY, axis=1)
        self.most = np.maximum(ground.cards.max(axis=1), 0.0)
        self.whole_at: list[int] = self.whole.tolist()
        self.most_at: list[float] = self.most.tolist()

    def has_room(self, want: Want) -> bool:
        """Whether its groups may be charged."""
        room = self.room
        return all(room[group, name] >= amount for group in want.groups for name, amount in want.charged)

    def fits(self, want: Want, row: int) -> bool:
        """Whether one fits on a row."""
        if want.cards > self.whole_at[row] or want.part * NEARLY > self.most_at[row]:
            return False
        free = self.free
        for column, amount in want.amounts:  # noqa: SIM110 - hot
            if free[column, row] < amount:
                return False
        return True

    def rows(self, cls: _Class) -> npt.NDArray[np.intp]:
        """Those on which one fits."""
        want = cls.want
        found = (self.whole >= want.cards) & (self.most >= want.part * NEARLY)
        if cls.rows is not None:
            found &= cls.rows
        for column, amount in want.amounts:
            found &= self.free[column] >= amount
        return np.flatnonzero(found)

    def take(self, want: Want, row: int) -> Held:
        """One is placed; which cards it has."""
        self._count(want, row, -1.0)
        cards = self.cards[row]
        held: Held = ()
        if want.cards:
            held = tuple((at, 1.0) for at, left in enumerate(cards) if left >= NEARLY)[: want.cards]
        elif want.part:
            held = ((min((left, at) for at, left in enumerate(cards) if left >= want.part * NEARLY)[1], want.part),)
        if held:
            self._hold(row, held, -1.0)
        return held

    def give(self, want: Want, row: int, held: Held) -> None:
        """One has ended."""
        self._count(want, row, 1.0)
        if held:
            self._hold(row, held, 1.0)

    def _hold(self, row: int, held: Held, sign: float) -> None:
        cards = self.cards[row]
        for at, part in held:
            cards[at] += sign * part
        self.whole_at[row] = self.whole[row] = sum([left >= NEARLY for left in cards])
        self.most_at[row] = self.most[row] = max(0.0, *cards)

    def _count(self, want: Want, row: int, sign: float) -> None:
        for column, amount in want.amounts:
            self.free[column, row] += sign * amount
        for group in want.groups:
            for name, amount in want.charged:
                self.room[group, name] += sign * amount


def played(
    ground: Ground,
    curves: Curves,
    seed: int,
    times: int,
    is_over: Callable[[], bool],
    events_max: int = EVENTS_MAX,
) -> dict[str, list[float]]:
    """When each that waits starts, in seconds from now, each time that it is played; infinite: not within what is
    known. Fewer times when time `is_over`."""
    found: dict[str, list[float]] = {each.id: [] for each in ground.waits}
    rng = np.random.default_rng(seed)
    classes = _Classes(ground, curves)
    kinds = np.array([curves.row(each.kind) for each in ground.runs], np.intp)
    ages_s = np.array([each.age_s for each in ground.runs], np.float64)
    late = dict.fromkeys(found, 0)
    for _ in range(times):
        asked = {unit for unit, often in late.items() if often <= LATE_MAX * times}
        if not asked or is_over():
            break
        drawn = curves.drawn(rng)
        ends = drawn.left_s(kinds, ages_s)
        started = _Game(ground, classes, drawn, rng, asked).play(ends.tolist(), events_max)
        for unit, starts in found.items():
            late[unit] += unit not in started
            starts.append(started.get(unit, np.inf))
    return found


class _Coming:
    """Who arrives, when: stretches of those who did, each from somewhere on, and round and round (the stationary
    bootstrap: Politis and Romano, 1994). So those of a burst come in a burst."""

    def __init__(self, ground: Ground, rng: np.random.Generator) -> None:
        self._gaps, self._rng = [each.gap_s for each in ground.arrives], rng
        self._at, self._left = 0, 0

    def after(self, now: float) -> tuple[float, int, int]:
        """The next one."""
        if not self._left:
            self._at = int(self._rng.integers(len(self._gaps)))
            self._left = int(self._rng.geometric(1.0 / STRETCH))
        self._left -= 1
        self._at = (self._at + 1) % len(self._gaps)
        return now + self._gaps[self._at], _COME, self._at


class _Classes:
    """Those who want the same, numbered: once for all games. `waits` and `comes` have the number of each unit that
    waits, and of each that has arrived, with the row of its kind; `running` is who has what at first."""

    def __init__(self, ground: Ground, curves: Curves) -> None:
        self.all: list[_Class] = []
        self._numbers: dict[tuple[Want, int, int], int] = {}
        self.waits = [(self._number(each.want, each.size, each.rows), curves.row(each.kind)) for each in ground.waits]
        self.running: list[tuple[int, Want, Held]] = [(each.row, each.want, each.held) for each in ground.runs]
        self.comes = [(self._number(each.want, 1, each.rows), curves.row(each.kind)) for each in ground.arrives]

    def _number(self, want: Want, size: int, rows: npt.NDArray[np.bool_] | None) -> int:
        key = (want, size, 0 if rows is None else hash(rows.tobytes()))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.all)
            self.all.append(_Class(want, size, rows))
        return number


class _Game:
    def __init__(
        self, ground: Ground, classes: _Classes, drawn: Drawn, rng: np.random.Generator, asked: set[str]
    ) -> None:
        self._ground, self._classes, self._lifetimes, self._rng = ground, classes, drawn, rng
        self._table = Table(ground)
        self._queues: list[deque[_Unit]] = [deque() for _ in classes.all]
        self._heads: list[tuple[tuple[int, int], int]] = []
        """The first one of each class that waits, in order."""
        self._events: list[tuple[float, int, int]] = []
        self._running = classes.running.copy()
        self._drawn: dict[int, list[float]] = {}
        self._targets = set(asked)
        self._started: dict[str, float] = {}
        self._came = 0

    def play(self, ends: list[float], events_max: int) -> dict[str, float]:
        """When each started."""
        ground, events = self._ground, self._events
        for waits, (number, kind) in zip(ground.waits, self._classes.waits, strict=True):
            self._wait(number, kind, waits.priority, waits.id)
        coming = _Coming(ground, self._rng)
        events += [(at, _END, index) for index, at in enumerate(ends) if at < np.inf]
        heapq.heapify(events)
        if ground.arrives:
            heapq.heappush(events, coming.after(0.0))
        for _ in range(events_max):
            if not events or not self._targets:
                break
            now, what, index = heapq.heappop(events)
            if what == _COME:
                heapq.heappush(events, coming.after(now))
                self._arrive(now, index)
            else:
                row, want, held = self._running[index]
                self._table.give(want, row, held)
                self._fill(now, row, want)
        return self._started

    def _wait(self, number: int, kind: int, priority: int, unit: str) -> None:
        self._came += 1
        queue, order = self._queues[number], (-priority, self._came)
        if not queue:
            insort(self._heads, (order, number))
        queue.append(_Unit(order, number, kind, unit))

    def _arrive(self, now: float, index: int) -> None:
        """One like those who wait already waits behind them."""
        number, kind = self._classes.comes[index]
        if not self._queues[number] and (rows := self._everywhere(self._classes.all[number])) is not None:
            self._start(_Unit((0, 0), number, kind, ""), rows, now)
        else:
            self._wait(number, kind, self._ground.arrives[index].priority, "")

    def _fill(self, now: float, row: int, ended: Want) -> None:
        """Somebody has ended on a row: who waits takes what is free there now, first ones first."""
        table = self._table
        for head in self._in_turn():
            number = head[1]
            cls, queue = self._classes.all[number], self._queues[number]
            want = cls.want
            anywhere = cls.size > 1 or bool(want.groups and not set(want.groups).isdisjoint(ended.groups))
            if not anywhere and want.cards > table.whole_at[row]:
                continue
            before = len(queue)
            while queue:
                if anywhere:
                    rows = self._everywhere(cls)
                elif table.fits(want, row) and (cls.rows is None or cls.rows[row]) and table.has_room(want):
                    rows = [row]
                else:
                    rows = None
                if rows is None:
                    break
                self._start(queue.popleft(), rows, now)
            if len(queue) < before:
                self._heads.remove(head)
                if queue:
                    insort(self._heads, (queue[0].order, number))

    def _in_turn(self) -> list[tuple[tuple[int, int], int]]:
        rests = self._rng.random(len(self._heads)) < RESTS
        if not rests.any():
            return self._heads.copy()
        flagged = list(zip(self._heads, rests.tolist(), strict=True))
        return [head for head, late in flagged if not late] + [head for head, late in flagged if late]

    def _start(self, unit: _Unit, rows: list[int], now: float) -> None:
        want = self._classes.all[unit.cls].want
        for row in rows:
            held = self._table.take(want, row)
            lasts = self._lasts(unit.kind)
            self._running.append((row, want, held))
            if lasts < np.inf:
                heapq.heappush(self._events, (now + lasts, _END, len(self._running) - 1))
        if unit.id:
            self._started[unit.id] = now
            self._targets.discard(unit.id)

    def _lasts(self, kind: int) -> float:
        drawn = self._drawn.get(kind)
        if not drawn:
            drawn = self._drawn[kind] = self._lifetimes.left_s(np.full(DRAWN, kind), _BORN).tolist()
        return drawn.pop()

    def _everywhere(self, cls: _Class) -> list[int] | None:
        """A row for each of a unit; None where not all of it fits. What is tried is taken back."""
        table, placed = self._table, list[tuple[int, Held]]()
        for _ in range(cls.size):
            rows = table.rows(cls) if table.has_room(cls.want) else ()
            if not len(rows):
                break
            left = table.whole[rows] * 1e9 + table.most[rows] * 1e6 + table.free[0, rows] / 1e6
            row = int(rows[int(left.argmin())])  # where least is left
            if cls.size == 1:
                return [row]
            placed.append((row, table.take(cls.want, row)))
        for row, held in placed:
            table.give(cls.want, row, held)
        return [row for row, _ in placed] if len(placed) == cls.size else None
