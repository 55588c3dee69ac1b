"""Who can have seen what: a clock for each kind of reader, which a fault stops only where it is in the way.

What the API shows comes to a reader over several services. A service on that way that is held up makes it late.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from berth.invariants.counts import Excuse
from berth.invariants.observer.calm import Calm
from berth.invariants.observer.verdicts import Verdicts


class Reader(StrEnum):
    """A service, and what it goes by."""

    STATE = "state"
    """cluster-watcher, which follows the API and writes STATE."""
    WRITER = "writer"
    """cluster-writer, which judges by STATE before each bind."""
    SOLVER = "solver"
    """placement-solver, as far as it reads STATE: nodes, and who is bound."""
    INVENTORY = "inventory"
    """placement-solver, as far as it reads INVENTORY, which device-inventory makes of STATE."""
    QUOTA = "quota"
    """placement-solver, as far as it reads QUOTA, which quota-manager makes of STATE."""
    RESERVATION = "reservation"
    """placement-solver, as far as it reads RESERVATION, which reservation-manager makes of STATE."""


class Sight:
    """What each reader has had the time to see: what is older than `lag_s` in which nothing was in its way."""

    def __init__(self, verdicts: Verdicts, lag_s: float) -> None:
        self.lag_s = lag_s
        self._verdicts = verdicts
        self._calms = {reader: Calm(verdicts) for reader in Reader}

    @property
    def now_s(self) -> float:
        """Everybody's time, which is what is noted of a change."""
        return self._verdicts.now_s

    def blind(self, for_s: float, readers: Iterable[Reader] | None = None) -> None:
        """From now on for so long these (None: all) may not see what the API shows."""
        for reader in Reader if readers is None else readers:
            self._calms[reader].trouble(for_s)

    def since(self, reader: Reader, at_s: float) -> float:
        """For how long a reader has had nothing in the way of seeing what was at a moment."""
        return self._calms[reader].since(at_s)

    def has_seen(self, reader: Reader, at_s: float) -> bool:
        """Whether it must know by now what happened at a moment."""
        return self._calms[reader].since(at_s) > self.lag_s

    def have_all_seen(self, at_s: float) -> bool:
        """Whether everybody must know it."""
        return all(self.has_seen(reader, at_s) for reader in Reader)

    def excuse(self, at_s: float) -> Excuse:
        """Why something that happened at a moment is not seen yet."""
        return Excuse.HIDDEN if self._verdicts.now_s - at_s > self.lag_s else Excuse.UNSEEN
