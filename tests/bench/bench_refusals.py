"""What a refusal costs beside a placement, and what many pods that fit nowhere cost one that fits.

Driven message by message without a bus. Compared within one run: a pod that is placed, one that no node takes (by a
class that is known, while nodes change under it), and what is done for that one after the round: its words, and its
explanation with repairs. Then a pod that fits, alone and beside many that wait and fit nowhere. Times are those of the
process.

    python tests/bench/bench_refusals.py [--nodes 1213 50000] [--waiting 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Sequence

from tests.bench.bench_solver import Driven, cluster
from tests.services.worlds.solver.bench import SolverBench
from told import tell

from berth.placement_solver.core.plan import Unit
from berth.placement_solver.core.trial import Trial
from berth.testing.builders import GI, PodBuilder, pod

TRIES = 200


def small(number: int) -> PodBuilder:
    return pod(f"small-{number}").requests(cpu=500, memory=GI)


def huge(number: int, classes: int) -> PodBuilder:
    """Fits nowhere; one of so many classes."""
    return pod(f"huge-{number}").requests(cpu=4_000_000 + number % classes, memory=GI)


def busy(driven: Driven, nodes: int, rng: random.Random) -> None:
    """Every third node has something on it."""
    cluster(driven, nodes, rng)
    for number in range(0, nodes, 3):
        driven.pod(pod(f"held-{number}").requests(cpu=1000, memory=GI).on(f"node-{number}"))


def units(driven: Driven, builders: Sequence[PodBuilder]) -> list[Unit]:
    driven.pods(builders)
    found, _ = driven.cluster.batch(len(builders))
    return found


def core(nodes: int) -> None:
    """Medians in microseconds. Between two tries something is placed, so that a node changes each time."""
    driven = Driven()
    busy(driven, nodes, random.Random(nodes))
    solver, capacity = driven.cluster.solver, driven.cluster.capacity
    fitting = units(driven, [small(number) for number in range(2 * TRIES)])
    refused = units(driven, [huge(number, 1) for number in range(TRIES)])
    took: dict[str, list[float]] = {"placement": [], "refusal": [], "with words": []}

    def timed(what: str, unit: Unit, *, tells: bool) -> None:
        solver.tells = tells
        began = time.process_time()
        solver.solve([unit], Trial(capacity), "plan")
        took[what].append(1e6 * (time.process_time() - began))

    for number in range(TRIES):
        timed("placement", fitting[2 * number], tells=False)
        timed("refusal", refused[number], tells=False)
        timed("placement", fitting[2 * number + 1], tells=False)
        timed("with words", refused[number], tells=True)
    place = statistics.median(took["placement"][2:])
    for what, each in took.items():
        median = statistics.median(each[2:])
        print(f"{nodes:>6} nodes  {what:<12}{median:>9.0f} us  {median / place:>6.2f} of a placement")
        tell("refusals", nodes=nodes, what=what, median_us=median, ratio=median / place)


async def beside(nodes: int, waiting: int, classes: int) -> None:
    """Milliseconds of CPU from a pod that fits to its decision, and what those who wait have cost until they rest."""
    medians: list[float] = []
    for count in (0, waiting):
        driven = Driven()
        busy(driven, nodes, random.Random(nodes))
        bench = SolverBench(driven)
        driven.pods(huge(number, classes) for number in range(count))
        began = time.process_time()
        await bench.until_idle(limit=1_000_000)
        rest_s = time.process_time() - began
        took = []
        for number in range(TRIES):
            driven.pod(small(number))
            if number % 4 == 3:  # something ends: those who wait may be helped
                driven.delete_pod(f"small-{number - 1}")
            bench.clock.time += 0.5
            began = time.process_time()
            while ("default", f"small-{number}") not in driven.cluster.book.ledger.decisions:
                if not await bench.rounds.round():
                    break
            took.append(1e3 * (time.process_time() - began))
            while await bench.rounds.explain():
                pass
        medians.append(statistics.median(took))
        print(
            f"{nodes:>6} nodes  {count:>6} wait ({classes} classes): {medians[-1]:.2f} ms to a decision "
            f"(p99 {sorted(took)[-2]:.2f}); {1e6 * rest_s / max(count, 1):.0f} us each until they rested"
        )
    print(f"{nodes:>6} nodes  ratio {medians[1] / medians[0]:.2f}")
    tell("beside", nodes=nodes, waiting=waiting, alone_ms=medians[0], beside_ms=medians[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1_213, 50_000])
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=100)
    options = parser.parse_args()
    for nodes in options.nodes:
        core(nodes)
    asyncio.run(beside(options.nodes[0], options.waiting, options.classes))


if __name__ == "__main__":
    main()
