"""The one table of a run: a row per fault; printed at its end and written as JSON after every row."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

FILE = Path(os.environ.get("BERTH_CHAOS_FILE", Path(__file__).parents[2] / "build" / "chaos.json"))
SLACK = float(os.environ.get("BERTH_CHAOS_SLACK", "1"))
"""How many times its bar a recovery may take: the bars are for a machine that has little else to do."""
HANG_S = 60.0
"""Where no bar is given."""


class Row(msgspec.Struct, kw_only=True):
    """One fault. `recovered_s` None: never; `doubled`: given out, bound or decided twice; times None: no probe then.

    `excused`: breaches that docs/guarantees.md allows after such a loss, each for a reason of its own (`excused.py`).
    `epochs`: how many were raised. `settled_s`: from the end of the load until each pod was bound, or said why not.
    """

    group: str
    fault: str
    violations: int = 0
    lost: int = 0
    doubled: int = 0
    excused: int = 0
    epochs: int = 0
    settled_s: float = 0.0
    recovered_s: float | None = None
    bar_s: float | None = None
    p99_before_ms: float | None = None
    p99_during_ms: float | None = None
    p99_after_ms: float | None = None
    evidence: list[str] = []

    def wrong(self) -> list[str]:
        """What must not be."""
        found = [f"{name}: {count}" for name in ("violations", "lost", "doubled") if (count := getattr(self, name))]
        limit_s = SLACK * self.bar_s if self.bar_s else HANG_S
        if self.recovered_s is None or self.recovered_s > limit_s:
            found.append(f"recovered after {_seconds(self.recovered_s)}, the limit is {limit_s:g} s")
        return found + self.evidence if found else []


class Table:
    """Rows in the order in which they came."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Keep a row, and write all of them."""
        self.rows.append(row)
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_bytes(msgspec.json.format(msgspec.json.encode(self.rows)) + b"\n")

    def lines(self) -> list[str]:
        """For people."""
        head = f"{'':3} {'fault':<58} {'viol.':>5} {'lost':>4} {'doubl.':>6} {'exc.':>4} {'recovered':>9} {'bar':>4}"
        lines = [f"{head}   p99 before/during/after"]
        for row in self.rows:
            bar = f"{row.bar_s:.0f} s" if row.bar_s else ""
            times = "/".join(_ms(ms) for ms in (row.p99_before_ms, row.p99_during_ms, row.p99_after_ms))
            lines.append(
                f"{row.group:3} {row.fault:<58} {row.violations:>5} {row.lost:>4} {row.doubled:>6} {row.excused:>4} "
                f"{_seconds(row.recovered_s):>9} {bar:>4}   {times} ms"
            )
        return [*lines, self._sum()]

    def _sum(self) -> str:
        rows = self.rows
        over = sum(1 for row in rows if row.bar_s and (row.recovered_s or HANG_S) > row.bar_s)
        counted = ("violations", "lost", "doubled", "excused")
        sums = ", ".join(f"{sum(getattr(row, name) for row in rows)} {name}" for name in counted)
        return f"{len(rows)} faults: {sums}, {over} above the bar for recovery"


TABLE = Table()


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
