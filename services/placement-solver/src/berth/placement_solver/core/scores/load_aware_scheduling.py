"""Koordinator's LoadAwareScheduling: nodes of which more would be left, by what is really used, are the better ones."""

from __future__ import annotations

from berth.placement_solver.core.load_table import LoadQuery, LoadTable
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec


class LoadAwareScore:
    """Rated by the weighed mean of what would be left of each resource, in percent; 0 where nobody knows."""

    name = "LoadAwareScheduling"
    depends = Depends.LOAD

    def __init__(self, table: LoadTable) -> None:
        self._table = table

    def prescore(self, spec: Spec) -> LoadQuery:
        """What the pod is expected to use."""
        return self._table.expected(spec)

    def raw(self, query: LoadQuery, rows: RowArray) -> Floats:
        """The score."""
        return self._table.score(query, rows)

    def normalise(self, query: LoadQuery, raw: Floats, rows: RowArray) -> Floats:
        """As they are."""
        return raw
