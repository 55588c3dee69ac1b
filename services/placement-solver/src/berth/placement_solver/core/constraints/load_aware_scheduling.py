"""Koordinator's LoadAwareScheduling: a node that is really busy takes no more pods, whatever is free by requests.

Off unless a profile lists it.
"""

from __future__ import annotations

from berth.placement_solver.core.load_table import LoadQuery, LoadTable
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.rules.load_aware.filter import EXPIRED

REPORT_AGAIN = "see whether node-qos-enforcer, or koordlet, runs on those nodes"
WAIT = "wait until nodes are less busy, add a node, or raise the usageThresholds of the profile"


class LoadAwareScheduling:
    """The query is what the pod is expected to use. Nobody is evicted for it: what a report has measured stays measured
    until the next one."""

    name = "LoadAwareScheduling"
    depends = Depends.LOAD
    exact = True

    def __init__(self, table: LoadTable) -> None:
        self._table = table

    def prefilter(self, spec: Spec) -> LoadQuery | None:
        """See `Constraint`."""
        return self._table.query(spec)

    def mask(self, query: LoadQuery, rows: Rows) -> Mask:
        """See `Constraint`."""
        return self._table.admits(query, rows)

    def admits(self, query: LoadQuery, row: int) -> bool:
        """See `Constraint`."""
        return not self._table.reason(query, row)

    def filter(self, query: LoadQuery, target: Target) -> Rejection | None:
        """See `Constraint`."""
        reason = self._table.reason(query, target.row, target.hypothesis)
        return Rejection((reason,), resolvable=False) if reason else None

    def rejections(self, query: LoadQuery, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        return [
            Rejected(reason, found, resolvable=False, repair=REPORT_AGAIN if reason == EXPIRED else WAIT)
            for reason, found in self._table.reasons(query, rows).items()
        ]
