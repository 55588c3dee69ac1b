"""How much of a GPU cluster is used: Berth's default beside Fragmentation Gradient Descent, on the same arrivals.

*Filling*: pods of a trace arrive until they ask for 1.3 times the GPUs, none leaves, what fits nowhere is dropped. The
figure is the part of all GPUs that is allocated while the pods that arrived ask for 100 % and for 130 % of them.
*Departures*: pods drawn from the trace arrive one after the other and stay for a random time (exponential), such that
they would ask for 0.95, 1.05 and 1.2 times the GPUs on average; after the first 25,000 of 60,000 arrivals it is
measured how much is allocated, which part of the asked GPUs was placed, and which part of the pods of eight GPUs.

Both are the protocol of "Beware of Fragmentation" (USENIX ATC 2023) and of `docs/benchmarks.md`. Prints the figures
and what lies between them; asserts nothing. The folder may have the published orders (`orders/TRACE-SEED.txt`); lists
of pods that it lacks are made (`mixes.py`). The *bound* is what nobody passes who places all pods that a run placed
before it refused one (`bound.py`); *waste* is what is missing to it, FGD's being 1.

The policy `score` is FGD as a score of a profile, in Berth.

    python tests/bench/bench_quality.py [FOLDER] [--traces default,cpu100] [--seeds 42,43] [--departures 1] [--jobs 2]
    python tests/bench/bench_quality.py [FOLDER] --traces all --departures 0
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from bound import bound
from fgd import Fgd, typical_pods
from mixes import TRACES, is_there, pods_of
from openb import Driven, add_folder, arrivals, gpu_milli, gpus_milli, has_folder
from told import tell

from berth.contracts import names
from berth.placement_solver.core.prices import program
from berth.placement_solver.core.trial import Trial
from berth.simcluster.generate.build import PodRequest
from berth.simcluster.openb import TraceNode, TracePod, read_nodes

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


class ByScore(ByBerth):
    """The yardstick as a score of a profile: the same nodes, and of a share's cards the tightest."""

    def __init__(self, nodes: Sequence[TraceNode], workload: Sequence[TracePod]) -> None:
        super().__init__(nodes, workload)
        score = "FragmentationGradientDescent"
        typical = [
            {"cpuMilli": cpu, "gpus": gpus, "gpuPercent": milli // 10 or 100, "models": list(models), "count": number}
            for (cpu, milli, gpus, models), number in typical_pods([pod.request for pod in workload])
        ]
        profile = {
            "schedulerName": names.SCHEDULER_NAME,
            "plugins": {"score": {"enabled": [{"name": score}], "disabled": [{"name": "*"}]}},
            "pluginConfig": [
                {"name": score, "args": {"typicalPods": typical}},
                {"name": "Berth", "args": {"decides": "kube-scheduler"}},
            ],
        }
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        if not self._driven.cluster.configuration.read(json.dumps({**head, "profiles": [profile]})):
            raise ValueError(self._driven.cluster.configuration.problems)


POLICIES: Final = {"FGD": ByFgd, "Berth": ByBerth, "score": ByScore}


class Filling(NamedTuple):
    """One run of filling, in percent of all GPUs, by how much has arrived.

    `refused_at`: how much had arrived when a pod was refused for the first time. `placed`: which part of the pods, and
    of those that need a whole node; None: none does. `bound`: None where not even a linear program places what was
    placed before.
    """

    trace: str
    seed: int
    policy: str
    allocated: tuple[float, ...]
    refused_at: float
    placed: float
    placed_whole: float | None
    bound: float | None


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
    arrived = allocated = wholes = placed_wholes = 0
    refused: int | None = None
    refused_at = 0.0
    count = 0
    seen_pods: list[PodRequest] = []
    seen: dict[int, list[float]] = {}
    for start in range(0, len(pods), batch):
        some = pods[start : start + batch]
        for pod, placed in zip(some, policy.place(some), strict=True):
            arrived += gpu_milli(pod)
            allocated += gpu_milli(pod) * placed
            if not placed and refused is None:
                refused, refused_at = len(seen_pods), 100 * arrived / whole
            seen_pods.append(pod.request)
            count += placed
            if pod.request.gpus == WHOLE_NODE:
                wholes, placed_wholes = wholes + 1, placed_wholes + placed
            seen.setdefault(round(100 * arrived / whole), []).append(100 * allocated / whole)
    return Filling(
        trace,
        seed,
        name,
        tuple(float(np.mean(seen[share])) for share in SHOWN),
        refused_at,
        count / len(pods),
        placed_wholes / wholes if wholes else None,
        bound(nodes, seen_pods, len(pods) if refused is None else refused),
    )


def churn(folder: Path, trace: str, every: int, run: tuple[float, int, str]) -> Churn:
    """One of them; on each so many-th node, of as much fewer arrivals."""
    load, seed, name = run
    rng = np.random.default_rng(seed)
    nodes, workload = read_nodes(folder), pods_of(folder, trace)
    nodes = [nodes[index] for index in rng.permutation(len(nodes))][::every]
    count, warm = ARRIVALS // every, WARM // every
    whole = gpus_milli(nodes)
    stays = load * whole / float(np.mean([gpu_milli(pod) for pod in workload]))
    drawn, stay = rng.integers(0, len(workload), count), rng.exponential(stays, count)
    policy: Policy = POLICIES[name](nodes, workload)
    leaving: list[tuple[float, int, TracePod]] = []
    allocated = asked = accepted = wholes = accepted_wholes = 0
    shares = []
    for at in range(count):
        while leaving and leaving[0][0] <= at:
            pod = heapq.heappop(leaving)[2]
            policy.leave(pod)
            allocated -= gpu_milli(pod)
        pod = workload[drawn[at]]._replace(name=f"p{at:06}")
        milli, (placed,) = gpu_milli(pod), policy.place([pod])
        if placed:
            allocated += milli
            heapq.heappush(leaving, (at + float(stay[at]), at, pod))
        if at >= warm:
            asked, accepted = asked + milli, accepted + milli * placed
            if pod.request.gpus == WHOLE_NODE:
                wholes, accepted_wholes = wholes + 1, accepted_wholes + placed
            shares.append(100 * allocated / whole)
    return Churn(load, seed, name, float(np.mean(shares)), accepted / asked, accepted_wholes / max(1, wholes))


def show_filling(filled: Sequence[Filling], traces: Sequence[str], policies: Sequence[str], folder: Path) -> None:
    """A line for each trace and policy: means over the orders."""
    print(
        f"{'filling':<24}{'at 100 %':>10}{'at 130 %':>10}{'spread':>8}{'refused at':>12}{'pods placed':>13}"
        f"{'of 8 GPUs':>11}{'bound':>8}{'waste':>7}"
    )
    wastes: dict[str, list[float]] = {name: [] for name in policies}
    above = {name: [0] * len(SHOWN) for name in policies}
    for trace in traces:
        base: np.ndarray[Any, Any] | None = None
        missing: float | None = None
        for name in policies:
            runs = [each for each in filled if each.trace == trace and each.policy == name]
            allocated = np.array([each.allocated for each in runs])
            mean, spread = allocated.mean(axis=0), float(allocated[:, -1].std(ddof=1)) if len(runs) > 1 else 0.0
            bounds = [each.bound for each in runs if each.bound is not None]
            most = float(np.mean(bounds)) if len(bounds) == len(runs) else None
            whole = [each.placed_whole for each in runs if each.placed_whole is not None]
            waste = None
            if base is None:
                base, missing = mean, None if most is None else most - mean[-1]
            if most is not None and missing:
                waste = (most - mean[-1]) / missing
                if not trace.startswith("gpuspec"):  # there some pods of few nodes are refused early, whoever decides
                    wastes[name].append(waste)
            above[name] = [so_far + bool(new > old) for so_far, new, old in zip(above[name], mean, base, strict=True)]
            refused_at, placed = np.mean([[each.refused_at, each.placed] for each in runs], axis=0)
            told = f"{trace}{'' if is_there(folder, trace) else ' (made)'}, {name}"
            print(
                f"{told:<24}{mean[0]:>10.2f}{mean[-1]:>10.2f}{spread:>8.2f}{refused_at:>12.1f}{placed:>13.4f}"
                f"{_shown(np.mean(whole) if whole else None, 11, 3)}{_shown(most, 8, 2)}{_shown(waste, 7, 2)}",
                flush=True,
            )
            tell(
                "filling",
                trace=trace,
                made=not is_there(folder, trace),
                policy=name,
                orders=len(runs),
                **{f"at_{at}": float(value) for at, value in zip(SHOWN, mean, strict=True)},
                spread=spread,
                refused_at=float(refused_at),
                placed=float(placed),
                placed_whole=float(np.mean(whole)) if whole else None,
                bound=most,
                waste=waste,
            )
    for name in policies[1:]:
        mean_waste = float(np.mean(wastes[name])) if wastes[name] else None
        listed = ", ".join(f"{count} at {at} %" for count, at in zip(above[name], SHOWN, strict=True))
        print(f"{name} above {policies[0]} on {listed} of {len(traces)} traces; mean waste{_shown(mean_waste, 5, 2)}")
        tell(
            "summary",
            policy=name,
            traces=len(traces),
            above=dict(zip(SHOWN, above[name], strict=True)),
            waste=mean_waste,
        )


def _shown(value: Any, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--traces", default="default", help="comma between them; all: the 17 of the publication")
    parser.add_argument("--seeds", default="42", help="orders of filling, comma between them; empty: none")
    parser.add_argument("--departures", type=int, default=1, help="how many seeds of departures; 0: none")
    parser.add_argument("--every", type=int, default=1, help="departures on each so many-th node alone")
    parser.add_argument("--policies", default="FGD,Berth")
    parser.add_argument("--batch", type=int, default=80, help="pods of a round while filling")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if not has_folder(options.folder):
        return
    policies = options.policies.split(",")
    traces = list(TRACES) if options.traces == "all" else options.traces.split(",")
    seeds = [int(each) for each in options.seeds.split(",") if each]
    with multiprocessing.Pool(options.jobs) as pool:
        runs = [(trace, seed, name) for trace in traces for seed in seeds for name in policies]
        filled = pool.map(partial(fill, options.folder, options.batch), runs, chunksize=1)
        if filled:
            show_filling(filled, traces, policies, options.folder)
        again = [(load, seed, name) for load in LOADS for seed in range(1, options.departures + 1) for name in policies]
        found = []
        for each in pool.imap(partial(churn, options.folder, traces[0], options.every), again):
            found.append(each)
            tell("runs with departures", every=options.every, **each._asdict())
    if found:
        print(f"\n{'departures':<26}{'allocated, %':>16}{'demand placed':>16}{'of 8 GPUs placed':>18}")
    for load in LOADS if found else ():
        for name in policies:
            runs = [each[3:] for each in found if each.load == load and each.policy == name]
            rows = np.mean(runs, axis=0)
            figures = ("allocated", "demand_placed", "whole_placed")
            told = dict(zip(figures, rows.tolist(), strict=True))
            tell("departures", trace=traces[0], load=load, policy=name, seeds=len(runs), **told)
            print(f"{f'load {load}, {name}':<26}{rows[0]:16.2f}{rows[1]:16.4f}{rows[2]:18.3f}")


if __name__ == "__main__":
    main()
