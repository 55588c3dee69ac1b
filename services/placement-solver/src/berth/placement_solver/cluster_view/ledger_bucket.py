"""LEDGER: decisions, open and stamped."""

from __future__ import annotations

from berth.placement_solver.cluster_view.waiting import WaitingRules


class LedgerBucket(WaitingRules):
    """The decisions of all solvers."""

    def read_ledger(self, key: str, value: bytes, deleted: bool, sequence: int) -> None:
        """Take in one message of LEDGER."""
        self.moment += 1
        for name in sorted(self.book.read_ledger(key, value, deleted, sequence)):
            self._judge(name)

    def reset_ledger(self) -> None:
        """LEDGER starts over."""
        self.ledger_starts += 1
        names_before = list(self.book.ledger.decisions)
        self.book.reset_ledger()
        for name in names_before:
            self._judge(name)
