"""A number for some of the rows, kept as two parallel arrays: what most rows have none of costs nothing for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.tallies.domains import NOWHERE, Domains


class RowCounts:
    """Amounts by row; a row that was never named has 0. `version` rises with each change."""

    __slots__ = ("_amounts", "_at", "_rows", "version")

    def __init__(self) -> None:
        self._at: dict[int, int] = {}
        self._rows = np.zeros(4, np.intp)
        self._amounts = np.zeros(4, np.int64)
        self.version = 0

    def add(self, row: int, amount: int) -> None:
        """Add to the amount of a row."""
        self.version += 1
        at = self._at.get(row)
        if at is None:
            at = self._at[row] = len(self._at)
            if at == len(self._rows):
                self._rows = np.pad(self._rows, (0, at))
                self._amounts = np.pad(self._amounts, (0, at))
            self._rows[at] = row
        self._amounts[at] += amount

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """The rows named so far."""
        return self._rows[: len(self._at)]

    @property
    def amounts(self) -> npt.NDArray[np.int64]:
        """Their amounts, in the same order."""
        return self._amounts[: len(self._at)]

    def of(self, row: int) -> int:
        """The amount of one row."""
        at = self._at.get(row)
        return 0 if at is None else int(self._amounts[at])

    def dense(self, size: int) -> npt.NDArray[np.int64]:
        """The amounts of all rows."""
        found = np.zeros(size, np.int64)
        found[self.rows] = self.amounts
        return found

    def by_domain(self, domains: Domains, counted: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.int64]:
        """The sums over each domain, by its code; rows that are not `counted`, or lie nowhere, add nothing."""
        rows, amounts = self.rows, self.amounts
        if counted is not None:
            amounts = amounts * counted[rows]
        # Amounts are counts and small weights: their sums are exact in floating point.
        sums = np.bincount(domains.codes[rows], weights=amounts, minlength=domains.count).astype(np.int64)
        sums[NOWHERE] = 0
        return sums
