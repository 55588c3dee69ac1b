"""Pictures of what benchmarks have found: PNG files beside their JSON files.

    uv run --frozen --group plots python tests/bench/plots.py FOLDER

Without matplotlib (the group `plots`) there are none, and it says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]
Tables = dict[str, list[Row]]
BARS: Final = 0.8
"""Of the space of a group of bars."""


def filling(tables: Tables, axes: Any) -> None:
    """What each policy leaves unallocated when 130 % have arrived, and what nobody can allocate."""
    rows = tables["filling"]
    traces, policies = (
        list(dict.fromkeys(row["trace"] for row in rows)),
        list(dict.fromkeys(row["policy"] for row in rows)),
    )
    by = {(row["trace"], row["policy"]): row for row in rows}
    for at, policy in enumerate(policies):
        width = BARS / len(policies)
        heights = [100 - by[trace, policy]["at_130"] for trace in traces]
        errors = [by[trace, policy]["spread"] for trace in traces]
        axes.bar([place + at * width for place in range(len(traces))], heights, width, yerr=errors, label=policy)
    for place, trace in enumerate(traces):
        least = by[trace, policies[0]]["bound"]
        if least is not None:
            label = "bound" if place == 0 else None
            axes.hlines(100 - least, place - 0.2, place + BARS, colors="black", linestyles="dotted", label=label)
    _named(axes, traces, "GPUs not allocated, %, of 130 % asked for")


def departures(tables: Tables, axes: Any) -> None:
    """The part of the pods of eight GPUs that is placed."""
    _grouped(axes, tables["departures"], "load", "policy", "whole_placed", "pods of 8 GPUs placed")


def scale(tables: Tables, axes: Any) -> None:
    """Decisions a CPU-second by how full the cluster is."""
    rows = [{**row, "band": f"{row['least']} to {row['most']} %"} for row in tables["bands"]]
    _grouped(axes, rows, "band", "nodes", "decisions_a_s", "decisions a CPU-second")


def latency(tables: Tables, axes: Any) -> None:
    """The 99th percentile of a decision, by its kind."""
    _grouped(axes, tables["latency"], "kind", "nodes", "p99_ms", "a decision, p99, ms")
    axes.set_yscale("log")


PICTURES: Final[dict[str, Sequence[tuple[str, Callable[[Tables, Any], None]]]]] = {
    "bench_quality": (("filling", filling), ("departures", departures)),
    "bench_openb": (("bands", scale), ("latency", latency)),
}
"""By benchmark: the table that a picture needs, and who draws it."""


def _grouped(axes: Any, rows: Sequence[Row], group: str, of: str, value: str, title: str) -> None:
    groups, kinds = list(dict.fromkeys(row[group] for row in rows)), list(dict.fromkeys(row[of] for row in rows))
    by = {(row[group], row[of]): row[value] for row in rows}
    width = BARS / len(kinds)
    for at, kind in enumerate(kinds):
        heights = [by.get((each, kind), 0.0) or 0.0 for each in groups]
        axes.bar([place + at * width for place in range(len(groups))], heights, width, label=f"{kind}")
    _named(axes, [f"{each}" for each in groups], title)


def _named(axes: Any, names: Sequence[str], title: str) -> None:
    axes.set_xticks([place + BARS / 2 for place in range(len(names))], names, rotation=30, ha="right")
    axes.set_title(title)
    axes.legend()


def main() -> None:
    """Draw what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    if importlib.util.find_spec("matplotlib") is None:
        print("no pictures: matplotlib is not there (uv run --frozen --group plots ...)")
        return
    from matplotlib.figure import Figure

    for benchmark, pictures in PICTURES.items():
        file = folder / f"{benchmark}.json"
        tables = json.loads(file.read_text())["tables"] if file.is_file() else {}
        for table, draw in pictures:
            if tables.get(table):
                figure = Figure(figsize=(9, 4.5), layout="constrained")
                draw(tables, figure.subplots())
                target = folder / f"{benchmark}-{table}.png"
                figure.savefig(target, dpi=110)
                print(target)


if __name__ == "__main__":
    main()
