"""A thousand random small batches: each bound held against an exact program; then what a bound costs on large clusters.

    python -m tests.bench.bench_bounds [--cases 1000] [--from 0] [--nodes 1213 50000]

Prints what is wrong with which seed; of the batches of which not all were placed the gaps, how often the bound is what
can be reached, and the time of the child. Then how long a round writes the question, and the child's time with it.
Times are CPU time of the process.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import Counter

import msgspec
from tests.bench.bench_explanations import solving
from tests.bench.bench_refusals import busy
from tests.bench.bench_solver import Driven
from tests.services.worlds.solver.batches import drawn
from tests.services.worlds.solver.bounded import Judged, judged

from berth.placement_solver.core.bounds.problem import bound_problem
from berth.placement_solver.core.bounds.program import solve
from berth.placement_solver.core.trial import Trial
from berth.testing.builders import GI, PodBuilder, pod

PODS = 80
TRIES = 5


def small(first: int, cases: int) -> int:
    """How many bounds are wrong."""
    new_run = solving()
    wrong = 0
    contended: list[Judged] = []
    kinds: Counter[str] = Counter()
    for seed in range(first, first + cases):
        case = judged(drawn(random.Random(seed)), new_run)
        wrong += bool(case.wrong)
        for each in case.wrong:
            print(f"seed {seed}: {each}")
        if case.bound.placed < case.bound.pods:
            contended.append(case)
            kinds[f"{case.bound.status}, {case.bound.method}"] += 1
    gaps = [case.bound.gap for case in contended]
    took = [case.bound.took_ms for case in contended]
    reached = sum(case.bound.bound == case.most for case in contended) / len(contended)
    print(f"{cases} batches, {wrong} bounds wrong; {len(contended)} not placed whole: {dict(kinds)}")
    print(f"gap of the plan: median {statistics.median(gaps):.3f}, mean {statistics.mean(gaps):.3f}")
    print(
        f"the bound can be reached in {reached:.1%};"
        f" child: median {statistics.median(took):.1f} ms, most {max(took):.0f}"
    )
    return wrong


def of_batch(number: int, cluster_cpu: int) -> PodBuilder:
    """Pods of eight kinds, one of which fits nowhere."""
    kind = number % 8
    builder = pod(f"p{number}").requests(cpu=500 * (1 + kind) if kind else cluster_cpu, memory=GI)
    return builder.share(20 + 10 * kind) if kind % 2 else builder


def large(nodes: int) -> None:
    driven = Driven()
    busy(driven, nodes, random.Random(nodes))
    driven.pods(of_batch(number, 4_000_000) for number in range(PODS))
    units, _ = driven.cluster.batch(PODS)
    written, asked = [], []
    size = 0
    for _ in range(TRIES):
        with Trial(driven.cluster.capacity) as trial:
            driven.cluster.solver.solve(units, trial, "plan")
            began = time.process_time()
            draft = bound_problem(units, driven.cluster.solver, trial.claims)
            assert draft is not None
            data = msgspec.msgpack.encode(draft.problem)
            written.append(1e3 * (time.process_time() - began))
        size = len(data)
        began = time.process_time()
        found = solve(draft.problem)
        asked.append(1e3 * (time.process_time() - began))
        assert found is not None
    print(
        f"{nodes:>6} nodes, {PODS} pods: written in {statistics.median(written):.1f} ms ({size / 1e6:.1f} MB), child"
        f" {statistics.median(asked):.0f} ms"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1_213, 50_000])
    options = parser.parse_args()
    wrong = small(options.first, options.cases)
    for nodes in options.nodes:
        large(nodes)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
