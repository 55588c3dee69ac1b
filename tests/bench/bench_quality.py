"""How much of a GPU cluster is used: Berth's default beside Fragmentation Gradient Descent, on the same arrivals.

*Filling*: pods of a trace arrive until they ask for 1.3 times the GPUs, none leaves, what fits nowhere is dropped. The
figure is the part of all GPUs that is allocated while the pods that arrived ask for 100 % and for 130 % of them.
*Departures*: pods drawn from the trace arrive one after the other and stay for a random time (exponential), such that
they would ask for 0.95, 1.05 and 1.2 times the GPUs on average; after the first 25,000 of 60,000 arrivals it is
measured how much is allocated, which part of the asked GPUs was placed, and which part of the pods of eight GPUs.

Both are the protocol of "Beware of Fragmentation" (USENIX ATC 2023) and of `docs/performance.md`. Prints the figures
and what lies between them; asserts nothing. The folder may have the published orders (`orders/TRACE-SEED.txt`).

    python tests/bench/bench_quality.py [FOLDER] [--traces default,cpu100] [--seeds 42,43] [--departures 1] [--jobs 2]
"""

from __future__ import annotations

import argparse
import heapq
import multiprocessing
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from fgd import Fgd
from openb import Driven, add_folder, arrivals, gpu_milli, gpus_milli, has_folder

from berth.placement_solver.core.prices import program
from berth.placement_solver.core.solve import Trial
from berth.simcluster.openb import TraceNode, TracePod, read_nodes, read_pods

LOADS: Final = (0.95, 1.05, 1.2)
ARRIVALS, WARM = 60_000, 25_000
SHOWN: Final = (100, 130)
WHOLE_NODE: Final = 8


class Policy(Protocol):
    """Places pods one by one."""

    def place(self, pods: Sequence[TracePod]) -> list[bool]:
        """Which of them were placed, in their order; the others are dropped."""

    def leave(self, pod: TracePod) -> None:
        """A placed pod is gone."""


class ByFgd:
    """The yardstick."""

    def __init__(self, nodes: Sequence[TraceNode], workload: Sequence[TracePod]) -> None:
        self._fgd = Fgd(nodes, [pod.request for pod in workload])
        self._places: dict[str, Any] = {}

    def place(self, pods: Sequence[TracePod]) -> list[bool]:
        """One after the other."""
        placed = []
        for pod in pods:
            place = self._fgd.place(pod.request)
            placed.append(place is not None)
            if place is not None:
                self._places[pod.name] = place
        return placed

    def leave(self, pod: TracePod) -> None:
        """It frees what it had."""
        self._fgd.remove(pod.request, *self._places.pop(pod.name))


class ByBerth:
    """The solver's view and core."""

    def __init__(self, nodes: Sequence[TraceNode], workload: Sequence[TracePod]) -> None:
        self._driven = Driven(nodes)
        self._trials: dict[str, Trial] = {}

    def place(self, pods: Sequence[TracePod]) -> list[bool]:
        """In rounds of what has arrived."""
        cluster, placed = self._driven.cluster, set()
        self._driven.add(pods)
        while cluster.queue.has_ready(cluster.now):
            units, _ = cluster.batch(len(pods))
            for unit in units:
                trial = Trial(cluster.capacity)
                for each in cluster.solver.solve([unit], trial, "plan").placements:
                    name = each.candidate.name[1]
                    placed.add(name)
                    self._trials[name] = trial
        question = cluster.prices.question(0)
        if question is not None and (answer := program.solve(question)) is not None:  # in the service a child answers
            cluster.prices.answered(answer, 0)
        for pod in pods:
            if pod.name not in placed:
                self._driven.delete_pod(pod.name)
        return [pod.name in placed for pod in pods]

    def leave(self, pod: TracePod) -> None:
        """What it was charged is taken back."""
        self._trials.pop(pod.name).undo()
        self._driven.delete_pod(pod.name)
        # Nothing is bound here, so the view does not see that somebody who had a node is gone.
        if pod.request.gpus:
            self._driven.cluster.prices.workload.left()


POLICIES: Final = {"FGD": ByFgd, "Berth": ByBerth}


class Filling(NamedTuple):
    """One run of filling, in percent of all GPUs, by how much has arrived."""

    trace: str
    seed: int
    policy: str
    allocated: tuple[float, ...]


class Churn(NamedTuple):
    """One run with departures: percent of GPUs allocated, parts of the asked GPUs and of pods of eight placed."""

    load: float
    seed: int
    policy: str
    allocated: float
    accepted: float
    accepted_whole: float


def fill(folder: Path, batch: int, run: tuple[str, int, str]) -> Filling:
    """One of them."""
    trace, seed, name = run
    nodes, workload, pods = arrivals(folder, trace, seed)
    policy: Policy = POLICIES[name](nodes, workload)
    whole = gpus_milli(nodes)
    arrived = allocated = 0
    seen: dict[int, list[float]] = {}
    for start in range(0, len(pods), batch):
        some = pods[start : start + batch]
        for pod, placed in zip(some, policy.place(some), strict=True):
            arrived += gpu_milli(pod)
            allocated += gpu_milli(pod) * placed
            seen.setdefault(round(100 * arrived / whole), []).append(100 * allocated / whole)
    return Filling(trace, seed, name, tuple(float(np.mean(seen[share])) for share in SHOWN))


def churn(folder: Path, trace: str, run: tuple[float, int, str]) -> Churn:
    """One of them."""
    load, seed, name = run
    rng = np.random.default_rng(seed)
    nodes, workload = read_nodes(folder), read_pods(folder, trace)
    nodes = [nodes[index] for index in rng.permutation(len(nodes))]
    whole = gpus_milli(nodes)
    stays = load * whole / float(np.mean([gpu_milli(pod) for pod in workload]))
    drawn, stay = rng.integers(0, len(workload), ARRIVALS), rng.exponential(stays, ARRIVALS)
    policy: Policy = POLICIES[name](nodes, workload)
    leaving: list[tuple[float, int, TracePod]] = []
    allocated = asked = accepted = wholes = accepted_wholes = 0
    shares = []
    for at in range(ARRIVALS):
        while leaving and leaving[0][0] <= at:
            pod = heapq.heappop(leaving)[2]
            policy.leave(pod)
            allocated -= gpu_milli(pod)
        pod = workload[drawn[at]]._replace(name=f"p{at:06}")
        milli, (placed,) = gpu_milli(pod), policy.place([pod])
        if placed:
            allocated += milli
            heapq.heappush(leaving, (at + float(stay[at]), at, pod))
        if at >= WARM:
            asked, accepted = asked + milli, accepted + milli * placed
            if pod.request.gpus == WHOLE_NODE:
                wholes, accepted_wholes = wholes + 1, accepted_wholes + placed
            shares.append(100 * allocated / whole)
    return Churn(load, seed, name, float(np.mean(shares)), accepted / asked, accepted_wholes / max(1, wholes))


def _means(found: Iterable[Filling], trace: str, name: str) -> np.ndarray[Any, Any]:
    return np.mean([each.allocated for each in found if each.trace == trace and each.policy == name], axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--traces", default="default", help="comma between them")
    parser.add_argument("--seeds", default="42", help="orders of filling, comma between them")
    parser.add_argument("--departures", type=int, default=1, help="how many seeds of departures; 0: none")
    parser.add_argument("--policies", default="FGD,Berth")
    parser.add_argument("--batch", type=int, default=80, help="pods of a round while filling")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if not has_folder(options.folder):
        return
    policies, traces = options.policies.split(","), options.traces.split(",")
    seeds = [int(each) for each in options.seeds.split(",")]
    with multiprocessing.Pool(options.jobs) as pool:
        runs = [(trace, seed, name) for trace in traces for seed in seeds for name in policies]
        filled = pool.map(partial(fill, options.folder, options.batch), runs, chunksize=1)
        print(
            f"{'GPUs allocated, %':<26}" + "".join(f"{name + f' at {at} %':>16}" for at in SHOWN for name in policies)
        )
        for trace in traces:
            each = {name: _means(filled, trace, name) for name in policies}
            figures = (each[name][place] for place in range(len(SHOWN)) for name in policies)
            print(f"{trace:<26}" + "".join(f"{figure:16.2f}" for figure in figures), flush=True)
        again = [(load, seed, name) for load in LOADS for seed in range(1, options.departures + 1) for name in policies]
        found = pool.map(partial(churn, options.folder, traces[0]), again, chunksize=1)
    if found:
        print(f"\n{'departures':<26}{'allocated, %':>16}{'demand placed':>16}{'of 8 GPUs placed':>18}")
    for load in LOADS if found else ():
        for name in policies:
            rows = np.mean([each[3:] for each in found if each.load == load and each.policy == name], axis=0)
            print(f"{f'load {load}, {name}':<26}{rows[0]:16.2f}{rows[1]:16.4f}{rows[2]:18.3f}")


if __name__ == "__main__":
    main()
