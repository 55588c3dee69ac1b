"""How soon prices follow what arrives, and what making them costs.

*Drift*: a solver sees many pods of one list, then some of another. With the prices that it has by then, which are held
still, an empty cluster is filled with pods of the second list, and likewise with the prices of a solver that has seen
pods of the second list alone, and of one that has seen none. The figures are those of filling (`bench_quality.py`): the
part of all GPUs that is allocated when 100 and 130 % have been asked for, over the same orders of arrival.

*Making*: CPU times of the linear program, with the nodes of the trace, and with each of them so many times: what the
solver does to ask, what is written when it is asked first and what when it is asked again, and the solve as a whole.

    python tests/bench/bench_prices.py [FOLDER] [--lists gpushare40,cpu250] [--after 0,2000] [--seeds 42,43]
    python tests/bench/bench_prices.py [FOLDER] --seeds= --times 1,41
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import cvxpy as cp
import numpy as np
from mixes import pods_of
from openb import Driven, add_folder, arrivals, gpu_milli, gpus_milli, has_folder
from told import tell

from berth.placement_solver.core.prices import program
from berth.placement_solver.core.prices.keeping import Kept
from berth.placement_solver.core.prices.problem import PriceProblem, price_problem
from berth.placement_solver.core.prices.table import Prices
from berth.placement_solver.core.prices.written import table_of
from berth.placement_solver.core.trial import Trial
from berth.simcluster.openb import TracePod, read_nodes

BATCH: Final = 80
SHOWN: Final = (100, 130)
SEEN_ALONE: Final = 10_000
"""Arrivals of the second list alone, for the prices that are made for it."""
ALONE: Final = "made for it"
QUESTIONS, SEEN_BETWEEN, REPEATS = 6, 2000, 3
"""So many different questions about the same nodes, so many arrivals from one to the next; each is solved so often."""


WIDTHS: Final = (10, 10, 8, 8, 8, 8)


class Seen(NamedTuple):
    """What a solver goes by: prices, and how much each model is asked for by those who can go to few others."""

    prices: Prices
    scarce: dict[str, float]


def drawn(folder: Path, trace: str, count: int, seed: int, prefix: str) -> list[TracePod]:
    """So many pods of a list, in a random order."""
    rng, pods = np.random.default_rng([seed, *trace.encode()]), pods_of(folder, trace)
    order = [at for _ in range(1 + count // len(pods)) for at in rng.permutation(len(pods)).tolist()]
    return [pods[at]._replace(name=f"{prefix}{place:06}") for place, at in enumerate(order[:count])]


def see(driven: Driven, pods: Sequence[TracePod], *, answers: bool = True) -> None:
    """Pods that come and are gone before they are decided; questions are answered as they are asked."""
    cluster = driven.cluster
    for start in range(0, len(pods), BATCH):
        some = pods[start : start + BATCH]
        driven.add(some)
        while cluster.queue.has_ready(cluster.now):
            units, _ = cluster.batch(BATCH)
            for unit in units:
                for candidate in unit.candidates:
                    cluster.solver.costs.of(candidate.cls)
        question = cluster.prices.question(0) if answers else None
        if question is not None and (answer := program.solve(question)) is not None:
            cluster.prices.answered(answer, 0)
        for pod in some:
            driven.delete_pod(pod.name)


def seen_by(driven: Driven) -> Seen:
    """What the solver goes by now."""
    cluster = driven.cluster
    table = table_of(cluster.prices, cluster.policy, cluster.me, 0)
    return Seen(cluster.prices.basis[0], {each.model: each.pressure for each in table.scarce})


def drift(folder: Path, lists: tuple[str, str], before: int, after: Sequence[int], seed: int) -> dict[str, Seen]:
    """Prices by their names: so many arrivals after the change, and those of the second list alone."""
    driven = Driven(read_nodes(folder))
    see(driven, drawn(folder, lists[0], before, seed, "a"))
    then, at, found = drawn(folder, lists[1], max(after), seed, "b"), 0, {}
    for count in after:
        see(driven, then[at:count])
        found[f"{count} after"], at = seen_by(driven), count
    alone = Driven(read_nodes(folder))
    see(alone, drawn(folder, lists[1], SEEN_ALONE, seed + 1000, "c"))
    return {**found, ALONE: seen_by(alone)}


def fill(folder: Path, trace: str, run: tuple[int, str, Seen]) -> list[float]:
    """Percent of all GPUs that are allocated, by how much has arrived."""
    seed, _, seen = run
    nodes, _, pods = arrivals(folder, trace, seed)
    driven = Driven(nodes)
    cluster = driven.cluster
    cluster.prices.take_up(Kept(1, 0, seen.prices, seen.scarce))
    cluster.prices.look(0)
    cluster.prices.look = lambda now_ms: None
    whole, arrived, allocated = gpus_milli(nodes), 0, 0
    shares: dict[int, list[float]] = {}
    for start in range(0, len(pods), BATCH):
        some, placed = pods[start : start + BATCH], set()
        driven.add(some)
        while cluster.queue.has_ready(cluster.now):
            units, _ = cluster.batch(len(some))
            for unit in units:
                for each in cluster.solver.solve([unit], Trial(cluster.capacity), "plan").placements:
                    placed.add(each.candidate.name[1])
        for pod in some:
            arrived += gpu_milli(pod)
            if pod.name in placed:
                allocated += gpu_milli(pod)
            else:
                driven.delete_pod(pod.name)
            shares.setdefault(round(100 * arrived / whole), []).append(100 * allocated / whole)
    return [float(np.mean(shares[at])) for at in SHOWN]


def show_drift(folder: Path, options: argparse.Namespace, seeds: Sequence[int]) -> None:
    """A line for each prices: means over the orders, and what is missing to the prices made for the list."""
    first, second = options.lists.split(",")
    after = [int(each) for each in options.after.split(",")]
    with multiprocessing.Pool(options.jobs) as pool:
        made = pool.map(partial(drift, folder, (first, second), options.before, after), seeds, chunksize=1)
        runs = [(seed, name, seen) for seed, found in zip(seeds, made, strict=True) for name, seen in found.items()]
        shares = pool.map(partial(fill, folder, second), runs, chunksize=1)
    filled = {run[:2]: each for run, each in zip(runs, shares, strict=True)}
    told = f"{second} by prices"
    print(f"{told:<24}{'at 100 %':>10}{'at 130 %':>10}{'missing':>16}{'most missing':>16}")
    alone = np.array([filled[seed, ALONE] for seed in seeds])
    for name in made[0]:
        of_name = np.array([filled[seed, name] for seed in seeds])
        mean, missing = of_name.mean(axis=0).tolist(), (alone - of_name).mean(axis=0).tolist()
        most = (alone - of_name).max(axis=0).tolist()
        figures = "".join(f"{each:>{width}.2f}" for each, width in zip([*mean, *missing, *most], WIDTHS, strict=True))
        print(f"{name:<24}{figures}", flush=True)
        tell(
            "drift",
            first=first,
            second=second,
            prices=name,
            orders=len(seeds),
            **{f"at_{at}": value for at, value in zip(SHOWN, mean, strict=True)},
            **{f"missing_{at}": value for at, value in zip(SHOWN, missing, strict=True)},
        )


def questions(folder: Path, lists: Sequence[str], times: int) -> tuple[int, list[PriceProblem], list[float]]:
    """How many nodes, what is asked when other pods arrive, and how many seconds of CPU the solver needs to ask it."""
    nodes = [each._replace(name=f"{each.name}-{copy}") for copy in range(times) for each in read_nodes(folder)]
    driven, asked, took = Driven(nodes), [], []
    cluster = driven.cluster
    for at in range(QUESTIONS):
        see(driven, drawn(folder, lists[at % len(lists)], SEEN_BETWEEN, at, f"q{at}-"), answers=False)
        began = time.process_time()
        keeping = cluster.prices
        found = price_problem(keeping.workload, keeping.models, cluster.solver.costs.suitable, cluster.quotas)
        took.append(time.process_time() - began)
        if found is not None:
            asked.append(found[0])
    return len(nodes), asked, took


def show_making(folder: Path, lists: Sequence[str], times: Sequence[int]) -> None:
    """Milliseconds of CPU: medians over questions that differ, in turn over the numbers of nodes; the first apart."""
    of_size = [questions(folder, lists, number) for number in times]
    began = time.process_time()
    program.solve(of_size[0][1][0])
    print(f"the first answer, the program written for it: {1e3 * (time.process_time() - began):.0f} ms")
    written: list[list[float]] = [[] for _ in times]
    solved: list[list[float]] = [[] for _ in times]
    for _ in range(REPEATS):
        for at in range(QUESTIONS):
            for size, (_, asked, _) in enumerate(of_size):
                began = time.process_time()
                program.solve(asked[at])
                solved[size].append(time.process_time() - began)
                began = time.process_time()
                program.the_program().problem.get_problem_data(cp.HIGHS)  # what `solve` has done before HiGHS
                written[size].append(time.process_time() - began)
    for (nodes, _, asking), again, whole in zip(of_size, written, solved, strict=True):
        ask, first = 1e3 * statistics.median(asking[1:]), 1e3 * asking[0]
        write, solve = 1e3 * statistics.median(again), 1e3 * statistics.median(whole)
        print(
            f"{nodes:>6} nodes: asked in {ask:.1f} ms (the first in {first:.1f}), answered in {solve:.1f} ms, "
            f"{write:.1f} of them ({100 * write / solve:.1f} %) to write the program again, "
            f"{solve / (1e3 * statistics.median(solved[0])):.2f} times as long as with {of_size[0][0]} nodes"
        )
        tell("making", nodes=nodes, first_ms=first, ask_ms=ask, answer_ms=solve, write_ms=write)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--lists", default="gpushare40,cpu250", help="what arrives first, and what then")
    parser.add_argument("--before", type=int, default=8000, help="arrivals of the first list")
    parser.add_argument("--after", default="0,2000", help="arrivals of the second one, comma between them")
    parser.add_argument("--seeds", default="42", help="orders, comma between them; empty: none")
    parser.add_argument("--times", default="1,41", help="nodes, times those of the trace; empty: none")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if not has_folder(options.folder):
        return
    if options.seeds:
        show_drift(options.folder, options, [int(each) for each in options.seeds.split(",")])
    if options.times:
        show_making(options.folder, options.lists.split(","), [int(each) for each in options.times.split(",")])


if __name__ == "__main__":
    main()
