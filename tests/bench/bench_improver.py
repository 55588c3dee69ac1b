"""What the optimiser makes of contended batches: random ones, ones that would fit whole, and ones with more than their
quotas have room for.

    python -m tests.bench.bench_improver [--cases 300] [--from 0] [--nodes 1213 50000]

A batch is contended where the optimiser is asked about it: a gang found no room that another arrangement might give it.
Prints how many of those could have been placed better (by an exact program for the random ones, by how they were made
for those that fit whole), how many were, and that none is worse: a plan is taken if it is worth more. Then what asking
costs a round on large clusters, and what rounds cost while the child works. Times are CPU time of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Callable

import msgspec
from tests.bench.bench_bounds import PODS, TRIES, of_batch
from tests.bench.bench_explanations import solving
from tests.bench.bench_refusals import busy
from tests.bench.bench_solver import Driven
from tests.services.worlds.solver.batches import Batch, drawn, packed
from tests.services.worlds.solver.improved import Improved, best_of, improved

from berth.placement_solver.core.joint.problem import build_problem
from berth.placement_solver.core.plan import Solution
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.optimiser import Optimiser
from berth.testing.builders import pod

TURNS = 40


def whole(batch: Batch) -> tuple[tuple[int, int], ...]:
    """What a plan is worth that places all."""
    return ((0, len(batch.pods)),)


def pods_of(worth: tuple[tuple[int, int], ...] | None) -> int:
    return sum(count for _, count in worth or ())


def told(what: str, draw: Callable[[int], Batch], best: Callable[[Batch], object] | None, seeds: range) -> None:
    new_run = solving()
    asked: list[Improved] = []
    could = reached = 0
    for seed in seeds:
        batch = draw(seed)
        found = improved(batch, new_run)
        if found is None:
            continue
        asked.append(found)
        if found.wrong:
            print(f"seed {seed}: rejected: {found.wrong[:2]}")
        if best is not None:
            most = best(batch)
            could += most != found.greedy
            reached += found.is_better and found.joint == most
    better = sum(each.is_better for each in asked)
    gained = sum(pods_of(each.joint) - pods_of(each.greedy) for each in asked if each.is_better)
    took = sorted(each.took_ms for each in asked)
    known = f" of {could} that could be, {reached} the best" if best is not None else ""
    print(
        f"{what:<10}{len(asked)} of {len(seeds)} contended; {better} better ({better / len(asked):.0%}){known};"
        f" {gained} pods more of {sum(pods_of(each.greedy) for each in asked)};"
        f" median {statistics.median(took):.0f} ms, most {took[-1]:.0f}"
    )


def large(nodes: int) -> None:
    driven = Driven()
    busy(driven, nodes, random.Random(nodes))
    driven.pods(of_batch(number, 4_000_000) for number in range(PODS - 16))
    driven.pods(pod(f"m{number}").requests(cpu=20_000).gang("g", 16) for number in range(16))
    cluster = driven.cluster
    units, _ = cluster.batch(PODS)
    solver, plans, asks = cluster.solver, [], []
    for _ in range(TRIES):
        with Trial(cluster.capacity) as trial:
            began = time.process_time()
            greedy = solver.solve(units, trial, "plan")
            plans.append(1e3 * (time.process_time() - began))
        began = time.process_time()
        written = build_problem(units, greedy, cluster.nodes, solver.costs, solver.picker, cluster.quotas, 2.0)
        assert written is not None
        msgspec.msgpack.encode(written[0])
        asks.append(1e3 * (time.process_time() - began))
    print(
        f"{nodes:>6} nodes, {PODS} pods: plan {statistics.median(plans):.0f} ms, asked {statistics.median(asks):.0f} ms"
    )


async def beside(nodes: int) -> None:
    """What a plan for plain pods costs this process while the child works on a contended batch, turn about with the
    child at rest."""
    driven = Driven()
    busy(driven, nodes, random.Random(nodes))
    driven.pods(pod(f"m{number}").requests(cpu=20_000).gang("g", 16) for number in range(16))
    cluster = driven.cluster
    gang, _ = cluster.batch(PODS)
    driven.pods(pod(f"plain{number}").requests(cpu=500) for number in range(PODS))
    plain, _ = cluster.batch(PODS)
    solver, optimiser = cluster.solver, Optimiser()
    written = build_problem(gang, Solution((), ()), cluster.nodes, solver.costs, solver.picker, cluster.quotas, 2.0)
    assert written is not None
    took: dict[bool, list[float]] = {False: [], True: []}
    optimiser.warm_up()
    while not optimiser.is_ready:
        await asyncio.sleep(0.1)
    for turn in range(2 * TURNS):
        is_busy = bool(turn % 2)
        asked = asyncio.create_task(optimiser.solve(written[0])) if is_busy else None
        await asyncio.sleep(0.001)
        began = time.process_time()
        with Trial(cluster.capacity) as trial:
            solver.solve(plain, trial, "plan")
        took[is_busy].append(1e3 * (time.process_time() - began))
        if asked is not None:
            await asked
    await optimiser.stop()
    alone, child = (statistics.median(took[each]) for each in (False, True))
    print(f"{nodes:>6} nodes, a plan for {PODS} pods: {alone:.1f} ms, beside the child {child / alone:.2f} times that")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1_213, 50_000])
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.cases)
    told("random", lambda seed: drawn(random.Random(seed), gangs=True), best_of, seeds)
    told("fit whole", lambda seed: packed(random.Random(seed)), whole, seeds)
    told("quotas", lambda seed: packed(random.Random(seed), with_quotas=True), None, seeds)
    for nodes in options.nodes:
        large(nodes)
    asyncio.run(beside(options.nodes[0]))


if __name__ == "__main__":
    main()
