"""Which pods are on which nodes, for those who judge nodes by what is really used there.

A report says what was used a while ago. Pods that came since, or that are decided and not there yet, are in none: they
count with what they are estimated at, which depends on the profile. So this tally remembers who is where, and tells the
`LoadTable` of each profile that has asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

from berth.contracts.metrics import NodeMetrics
from berth.contracts.state import NodeMetric, Pod, PodTemplate
from berth.placement_solver.core.nodes import Nodes
from berth.rules.load_aware.reports import LoadReports
from berth.transaction.claims import Claim, Name

K = TypeVar("K")
SET_BACK_S: Final = 30.0
"""By how much the clock of the bus has to have been set back to be believed."""


class Charge:
    """A pod on a row. `pod` None: nobody shows it; what its claim takes is all that is known."""

    __slots__ = ("_amounts", "name", "pod", "row", "uid")

    def __init__(self, claim: Claim, row: int, pod: Pod | None) -> None:
        self.name = claim.name
        self.uid = claim.uid
        self.row = row
        self.pod = pod
        self._amounts = claim.amounts

    @property
    def template(self) -> PodTemplate:
        """What is known of what it asks for."""
        return PodTemplate(requests=self._amounts) if self.pod is None else self.pod.template


class Table(Protocol):
    """Sums over the pods of each row, of one profile."""

    def add(self, charge: Charge) -> None:
        """A pod counts."""

    def remove(self, charge: Charge) -> None:
        """It does no longer."""

    def renew(self, row: int) -> bool:
        """The report of a row is another one, or what its node is; whether pods may be taken that were not."""


class Loads:
    """See `Tally`. `objects` shows the pod of a name, as it is now."""

    counts_kept = True

    def __init__(self, nodes: Nodes, objects: Callable[[Name], Pod | None]) -> None:
        self._nodes = nodes
        self._objects = objects
        self._charged: dict[Name, list[Charge]] = {}
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

    def apply(self, claim: Claim, sign: int) -> None:
        """See `Tally`. What was charged is given back, whatever the pod says by then."""
        if claim.is_reservation:
            return
        row = self._nodes.row(claim.node)
        if sign > 0:
            self._add(self.charge_of(claim, row))
        elif held := [each for each in self._charged.get(claim.name, ()) if each.uid == claim.uid]:
            self._remove(next((each for each in reversed(held) if each.row == row), held[-1]))

    def see(self, name: Name, pod: Pod | None) -> None:
        """A pod is shown, perhaps after its claim, is shown otherwise, or (None) no longer."""
        for charge in self._charged.get(name, ()):
            shown = pod if pod is not None and pod.uid == charge.uid else None
            if shown is charge.pod:
                continue
            for table in self._tables:
                table.remove(charge)
            charge.pod = shown
            for table in self._tables:
                table.add(charge)

    def on(self, row: int) -> list[Charge]:
        """The pods of a row."""
        return self._on.get(row, [])

    def of(self, claim: Claim, row: int) -> Charge | None:
        """What is charged for a claim on a row."""
        held = self._charged.get(claim.name, ())
        return next((each for each in held if (each.uid, each.row) == (claim.uid, row)), None)

    def charge_of(self, claim: Claim, row: int) -> Charge:
        """What a claim would be charged as."""
        pod = self._objects(claim.name)
        return Charge(claim, row, pod if pod is not None and pod.uid == claim.uid else None)

    def _add(self, charge: Charge) -> None:
        self._charged.setdefault(charge.name, []).append(charge)
        self._on.setdefault(charge.row, []).append(charge)
        if self._is_watched:
            for table in self._tables:
                table.add(charge)

    def _remove(self, charge: Charge) -> None:
        if self._is_watched:
            for table in self._tables:
                table.remove(charge)
        _take_out(self._charged, charge.name, charge)
        _take_out(self._on, charge.row, charge)

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


def _take_out(known: dict[K, list[Charge]], key: K, charge: Charge) -> None:
    held = known[key]
    held.remove(charge)
    if not held:
        del known[key]
