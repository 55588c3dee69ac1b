"""Estimates of starts on a trace with its own times (`living`): how often one had started by the first and second time.

Every pod or gang that waits is given an estimate once, at the first look that finds it; what has happened by then is
all that it stands on, the record with it, which begins empty in each cell. A cell is one stretch of a trace on one
cluster. Constants were chosen on the first 3,300 pods of the trace `default` with seeds 1 to 8; others judge. The other
traces are drawn from `default`, and so their first pods are among those; the cells of `APART` have none of them.

    python tests/bench/bench_estimates.py FOLDER --cells gpushare40:11:0:0.9,gpushare40/gangs:12:1500:1.05
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from living import BEGAN, Cell, Living
from openb import add_folder, has_folder
from told import tell

from berth.placement_solver.core.estimates.bands import LEVELS, Bands
from berth.placement_solver.core.estimates.lifetimes import ENOUGH
from berth.placement_solver.estimating import PLAYED, starts_of
from berth.placement_solver.estimating_ground import unit_of

CELLS: Final = (
    *("gpushare40:11:0:0.9", "gpushare40:12:1500:1.05", "gpushare40:13:3000:0.8", "gpushare40:14:4500:0.9"),
    *("default:15:3500:0.9", "default:16:4500:1.05", "default:17:5500:0.8"),
    *("multigpu50:18:0:0.9", "multigpu50:19:2000:0.8", "gpuspec33:20:3500:0.9", "gpuspec33:21:5000:1.05"),
    *("gpushare40/gangs:22:0:0.9", "gpushare40/gangs:23:2500:0.9", "multigpu50/gangs:24:1000:0.9"),
    *("gpushare40/quotas:25:0:0.9", "gpushare40/quotas:26:2500:0.9", "default/quotas:27:4000:0.9"),
)
APART: Final = {
    *("gpushare40:14:4500:0.9", "default:15:3500:0.9", "default:16:4500:1.05", "default:17:5500:0.8"),
    *("gpuspec33:20:3500:0.9", "gpuspec33:21:5000:1.05", "default/quotas:27:4000:0.9"),
}
"""None of their pods, by when it came and how long it stayed, is among those that constants were chosen on."""
JUDGED: Final = 0.75
"""Nothing is said any more when so many of the pods have come: the others let the end of those before be seen."""
EVERY_S: Final = 300.0
"""Between two looks at who waits, at least."""
DRAWS: Final = 2000
"""Of the bootstrap."""


class Word(NamedTuple):
    """What was said of one: when, the starts of all games in seconds from then, and when it started."""

    said: float
    starts: list[float]
    started: float


class Hit(NamedTuple):
    """Whether one had started by its two times, as they were said, and as they would be without the record."""

    half: bool
    most: bool
    half_alone: bool
    most_alone: bool


class Result(NamedTuple):
    """What came of the words: so many units waited, and of those that were judged each hit, and how many they were in
    each busy period. `look_ms` is CPU time."""

    cell: Cell
    gpus: int
    waited: int
    hits: list[Hit]
    busy: list[int]
    look_ms: float


def run(folder: Path, cell: Cell) -> Result:
    """One cell from the beginning."""
    world = Living(folder, cell)
    looked, looks, spent = 0.0, 0, 0.0
    said: dict[str, Word] = {}
    members: dict[str, str] = {}
    waited: set[str] = set()
    for index, at in world.live():
        waiting = world.cluster.queue.waiting
        units = {unit_of(each): "/".join(each.name) for each in waiting.values()}
        waited |= units.keys()
        is_due = at - looked >= EVERY_S and index <= JUDGED * len(world.jobs)
        if not is_due or units.keys() <= said.keys() or world.cluster.stays.lifetimes.seen < ENOUGH:
            continue
        looked, looks, began = at, looks + 1, time.process_time()
        for unit, starts in starts_of(world.cluster, BEGAN + at, lambda: False).items():
            if unit not in said and unit in units:
                said[unit], members[unit] = Word(at, starts, np.inf), units[unit]
        spent += time.process_time() - began
    words = [word._replace(started=world.placed_at.get(members[unit], np.inf)) for unit, word in said.items()]
    hits = judged(words)
    periods = busy([words[index] for index in hits])
    return Result(cell, world.gpus, len(waited), list(hits.values()), periods, 1000 * spent / max(looks, 1))


def judged(words: Sequence[Word]) -> dict[int, Hit]:
    """Of each whether it came true, by its number, in the order in which they were said; what is corrected is by what
    was known until then."""
    bands, hits = Bands(), dict[int, Hit]()
    moments = [(each.said, 1, index) for index, each in enumerate(words)]
    moments += [(each.started, 0, index) for index, each in enumerate(words) if each.started < np.inf]
    for at, is_said, index in sorted(moments):
        bands.tick(at)
        word = words[index]
        if not is_said:
            bands.started(str(index), at)
        elif (band := bands.band(word.starts, at)) is not None:
            bands.say(str(index), band)
            started = word.started
            alone = [started <= at + each for each in band.played]
            hits[index] = Hit(started <= band.half_at, started <= band.most_at, *alone)
    return dict(sorted(hits.items()))


def busy(words: Iterable[Word]) -> list[int]:
    """How many words each busy period has: those of which one waits while another does hang together, and are right or
    wrong together."""
    sizes, ends = list[int](), -np.inf
    for word in sorted(words, key=lambda each: each.said):
        if word.said > ends:
            sizes.append(0)
        sizes[-1] += 1
        ends = max(ends, word.started)
    return sizes


def shares(hits: Sequence[Hit]) -> list[float]:
    """In percent, as they were said and without the record."""
    return [100 * sum(each[at] for each in hits) / max(1, len(hits)) for at in range(4)]


def spread(groups: Sequence[Sequence[Hit]]) -> list[tuple[float, float]]:
    """Between which both shares lie nine times in ten when cells are drawn: those of one cell are right or wrong
    together."""
    table = np.array([[len(hits), *np.sum([each[:2] for each in hits], axis=0)] for hits in groups if hits], np.float64)
    if not len(table):
        return [(0.0, 100.0)] * len(LEVELS)
    sums = table[np.random.default_rng(1).integers(len(table), size=(DRAWS, len(table)))].sum(axis=1)
    found = 100 * sums[:, 1:] / sums[:, :1]
    return [(float(low), float(high)) for low, high in np.quantile(found, [0.05, 0.95], axis=0).T]


def cell_of(text: str, options: argparse.Namespace) -> Cell:
    """`TRACE[/KIND]:SEED:SKIP:LOAD`."""
    named, seed, skip, load = text.split(":")
    trace, _, kind = named.partition("/")
    return Cell(trace, kind or "singles", int(seed), int(skip), options.pods, float(load), options.gpus)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--cells", default=",".join(CELLS), help="comma between them")
    parser.add_argument("--gpus", type=int, default=32, help="about so many in the cluster")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if not has_folder(options.folder):
        return
    texts = options.cells.split(",")
    cells = [cell_of(each, options) for each in texts]
    print(f"{PLAYED} games a look\n{'cell':<32}GPUs  waited  judged   50 %   90 %   alone        busy periods   a look")
    found: dict[str, list[list[Hit]]] = {}
    apart: list[list[Hit]] = []
    with multiprocessing.Pool(options.jobs) as pool:
        for text, each in zip(texts, pool.imap(partial(run, options.folder), cells), strict=True):
            cell, hits = each.cell, each.hits
            found.setdefault(cell.kind, []).append(hits)
            if text in APART:
                apart.append(hits)
            half, most, half_alone, most_alone = shares(hits)
            name = f"{cell.trace}/{cell.kind}:{cell.seed}:{cell.skip}:{cell.load}"
            print(
                f"{name:<32}{each.gpus:>4}{each.waited:>8}{len(hits):>8}{half:>7.1f}{most:>7.1f}"
                f"   {half_alone:.1f}, {most_alone:.1f}"
                f"{len(each.busy):>8}, {max(each.busy, default=0):>3}{each.look_ms:>9.0f} ms",
                flush=True,
            )
            row = {"judged": len(hits), "half": half, "most": most, "look_ms": each.look_ms}
            row |= {"periods": len(each.busy), "largest": max(each.busy, default=0)}
            tell("bands", cell=name, waited=each.waited, half_alone=half_alone, most_alone=most_alone, **row)
    everything = [hits for groups in found.values() for hits in groups]
    for kind, groups in [*found.items(), ("all", everything), ("apart", apart)]:
        every = [hit for hits in groups for hit in hits]
        half, most, half_alone, most_alone = shares(every)
        (low, high), (least, top) = spread(groups)
        print(
            f"{kind:<12} judged {len(every)}: {half:.1f} ({low:.0f} to {high:.0f}),"
            f" {most:.1f} ({least:.0f} to {top:.0f}); alone {half_alone:.1f}, {most_alone:.1f}"
        )
        tell("pooled", kind=kind, judged=len(every), half=half, most=most, half_alone=half_alone, most_alone=most_alone)


if __name__ == "__main__":
    main()
