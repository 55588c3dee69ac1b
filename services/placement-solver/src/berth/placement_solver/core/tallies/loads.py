"""Which pods are on which nodes, for those who judge nodes by what is really used there.

A report says what was used a while ago. Pods that came since, or that are decided and not there yet, are in none: they
count with what they are estimated at, which depends on the profile. So this tally remembers who is where, and tells the
`LoadTable` of each profile that has asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol
from weakref import WeakSet

from berth.contracts.metrics import NodeMetrics
from berth.contracts.state import NodeMetric, Pod
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Charge
from berth.placement_solver.core.tallies.charges import Charges
from berth.rules.load_aware.reports import LoadReports

SET_BACK_S: Final = 30.0
"""By how much the clock of the bus has to have been set back to be believed."""


class Table(Protocol):
    """Sums over the pods of each row, of one profile."""

    def add(self, charge: Charge) -> None:
        """A pod counts."""

    def remove(self, charge: Charge) -> None:
        """It does no longer."""

    def renew(self, row: int) -> bool:
        """The report of a row is another one, or what its node is; whether pods may be taken that were not."""


class Loads:
    """See `Tally`."""

    counts_kept = True

    def __init__(self, nodes: Nodes, charges: Charges) -> None:
        self._nodes = nodes
        self.charges = charges
        self._on: dict[int, list[Charge]] = {}
        self._tables: WeakSet[Table] = WeakSet()
        self._is_watched = False  # to go through a `WeakSet` costs, and most solvers have no such table
        self.reports = LoadReports()
        self.now_s = 0.0
        """The newest time that the bus shows, in unix seconds of its server."""

    # --- time --------------------------------------------------------------------------------------------------------

    def tell_time(self, stored_s: float, *, is_present: bool = False) -> None:
        """The bus stored something at that time. `is_present`: just now, so that an earlier time than the newest says
        that its clock was set back."""
        if stored_s > self.now_s or (is_present and 0 < stored_s < self.now_s - SET_BACK_S):
            self.now_s = stored_s

    # --- pods --------------------------------------------------------------------------------------------------------

    def apply(self, charge: Charge, sign: int) -> None:
        """See `Tally`."""
        row = charge.row
        if sign > 0:
            there = self._on.get(row)
            if there is None:
                self._on[row] = [charge]
            else:
                there.append(charge)
            if self._is_watched:
                for table in self._tables:
                    table.add(charge)
            return
        if self._is_watched:
            for table in self._tables:
                table.remove(charge)
        there = self._on[row]
        there.remove(charge)
        if not there:
            del self._on[row]

    def tells_apart(self, before: Pod | None, now: Pod | None) -> bool:
        """See `PodTally`. Whatever a pod says may have a part in what it is estimated at."""
        return self._is_watched

    def on(self, row: int) -> list[Charge]:
        """The pods of a row."""
        return self._on.get(row, [])

    # --- nodes -------------------------------------------------------------------------------------------------------

    def watch(self, table: Table) -> None:
        """Tell this table of what comes; it has read what is there."""
        self._tables.add(table)
        self._is_watched = True

    def see_agent(self, node: str, message: NodeMetrics | None, stored_s: float) -> bool:
        """Take in a message of METRICS (None: deleted); whether pods may be taken now that were not."""
        self.reports.see_agent(node, message, stored_s)
        return self.renew((node,))

    def see_object(self, node: str, message: NodeMetric | None) -> bool:
        """Take in a NodeMetric of STATE, likewise."""
        self.reports.see_object(node, message, self.now_s)
        return self.renew((node,))

    def renew(self, nodes: Iterable[str]) -> bool:
        """Something is another thing of these nodes; whether pods may be taken now that were not."""
        if not self._tables:
            return False
        rows = [row for node in nodes if (row := self._nodes.rows.get(node)) is not None]
        eased = [table.renew(row) for table in self._tables for row in rows]
        return any(eased)
