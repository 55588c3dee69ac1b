"""Estimates of starts on a trace with its own times: how often a pod had started by the first and the second time.

A few of the trace's GPU nodes, and its pods in the order and with the gaps in which they came, drawn together until
they ask for `--load` times of what there is. They stay for as long as they stayed; who stayed for more than a day is
left out. Every pod that waits is given an estimate once; what has happened by then is all that it stands on. The
constants were chosen on the trace `default`; others judge.

    python -m tests.bench.bench_estimates FOLDER --traces gpushare40,cpu100
"""

from __future__ import annotations

import argparse
import csv
import heapq
import multiprocessing
import time
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from tests.bench.openb import Driven, add_folder, gpu_milli, has_folder
from told import tell

from berth.contracts import subjects
from berth.contracts.state import Pod
from berth.placement_solver.core.decide import Basis, decisions_of
from berth.placement_solver.core.estimates.bands import Bands
from berth.placement_solver.core.estimates.playing import played
from berth.placement_solver.core.solve import Trial
from berth.placement_solver.estimating_ground import Gathering
from berth.rules.times import text_of
from berth.simcluster.openb import read_nodes, read_pods

BEGAN: Final = 1.7e9
"""Unix time of the trace's beginning."""
PLAYED: Final = 24
STAYS_MAX_S: Final = 86_400
JUDGED: Final = 0.75
"""Nothing is said any more when so many of the pods have come: the others let the end of those before be seen."""
DRAIN_S: Final = 864_000.0
BACK_OFF_S: Final = 15.0
EVENTS_MAX: Final = 400
EVERY_S: Final = 600.0
"""Between two looks at who waits, at least."""


class Result(NamedTuple):
    """What came of the words: so many pods, of which so many waited, had an estimate, and started by its times."""

    trace: str
    gpus: int
    pods: int
    waited: int
    judged: int
    half: float
    most: float
    second_half: tuple[float, float]
    look_ms: float


class Word(NamedTuple):
    """What was said of one: when, the starts of all games in seconds from then, and when it started."""

    said: float
    starts: list[float]
    started: float


class Living(Driven):
    """The solver's view while pods come, are placed and end; time is the trace's, in seconds."""

    def tell(self, at: float) -> None:
        """It is so late."""
        self.cluster.now, self.cluster.now_ms = at, int((BEGAN + at) * 1000)

    def rounds(self) -> list[Pod]:
        """Place what can be placed; who was, shown as bound."""
        cluster, bound = self.cluster, list[Pod]()
        if cluster.has_news:
            cluster.wake()
        while cluster.queue.has_ready(cluster.now):
            units, held = cluster.batch(80)
            for waiting, reason in held:
                cluster.queue.hold(waiting, (reason,), cluster.now)
            trial = Trial(cluster.capacity)
            solution = cluster.solver.solve(units, trial, "plan")
            basis = Basis(self.version, self.version, cluster.now_ms)
            decisions, _ = decisions_of(solution.placements, "plan", basis, cluster.nodes, cluster.quotas, {})
            trial.undo()
            for decision in decisions:
                bound.append(self._bind(decision))
            for refusal in solution.refusals:
                waiting = cluster.queue.waiting.get(refusal.candidate.name)
                if waiting is not None:
                    cluster.queue.refuse(waiting, refusal.reasons, cluster.now)
        return bound

    def _bind(self, decision: Any) -> Pod:
        pod = self.cluster.book.pods[decision.namespace, decision.name]
        self.version += 1
        fields = {name: getattr(pod, name) for name in pod.__struct_fields__}
        template = {name: getattr(pod.template, name) for name in pod.template.__struct_fields__}
        template["annotations"] = {**pod.template.annotations, **decision.annotations}
        fields |= {"template": type(pod.template)(**template), "node": decision.node, "phase": "Running"}
        fields |= {"version": self.version, "scheduled": text_of(self.cluster.now_ms / 1000)}
        shown = Pod(**fields)
        self.state(subjects.pod_key(pod.namespace, pod.name), shown)
        return shown


def run(folder: Path, options: argparse.Namespace, trace: str) -> Result:
    """One trace from the beginning."""
    rng = np.random.default_rng(options.seed)
    nodes, gpus = [], 0
    whole = [each for each in read_nodes(folder) if each.gpus]
    for index in rng.permutation(len(whole)):
        if gpus >= options.gpus:
            break
        nodes.append(whole[index])
        gpus += whole[index].gpus
    times = _times(folder, trace)
    largest = max(each.gpus for each in nodes)
    pods = [each for each in read_pods(folder, trace) if 0 < each.request.gpus <= largest and each.name in times]
    pods = sorted(pods, key=lambda each: times[each.name][0])[options.skip : options.skip + options.pods]
    begins = times[pods[0].name][0]
    work = sum(gpu_milli(each) / 1000 * (times[each.name][1] - times[each.name][0]) for each in pods)
    pace = work / (options.load * gpus) / (times[pods[-1].name][0] - begins)
    times = {
        each.name: (pace * (times[each.name][0] - begins), times[each.name][1] - times[each.name][0]) for each in pods
    }
    world = Living(nodes)
    ending: list[tuple[float, str]] = []
    waited: set[str] = set()
    looked, looks, spent = 0.0, 0, 0.0
    said: dict[str, Word] = {}

    def placed(at: float) -> None:
        for pod in world.rounds():
            heapq.heappush(ending, (at + times[pod.name][1], pod.name))
            if (word := said.get(f"default/{pod.name}")) is not None:
                said[f"default/{pod.name}"] = word._replace(started=at)

    def until(at: float) -> None:
        nonlocal looked, looks, spent
        while True:
            retry = world.cluster.queue.next_retry()
            if retry > world.cluster.now + BACK_OFF_S:
                retry = np.inf  # by the clock alone: nothing has changed
            soonest = min(ending[0][0] if ending else np.inf, max(retry, world.cluster.now + 0.5))
            if soonest > at:
                break
            world.tell(soonest)
            while ending and ending[0][0] <= soonest:
                world.delete_pod(heapq.heappop(ending)[1])
            placed(soonest)
        world.tell(at)

    for index, pod in enumerate(pods):
        at = times[pod.name][0]
        until(at)
        world.add([pod])
        placed(at)
        waiting = {"/".join(name) for name in world.cluster.queue.waiting}
        waited |= waiting
        fresh = waiting - said.keys()
        if fresh and at - looked >= EVERY_S and index < JUDGED * len(pods):
            looked, looks, began = at, looks + 1, time.perf_counter()
            now_s = BEGAN + at
            ground = Gathering(world.cluster, now_s).ground()
            curves = world.cluster.stays.lifetimes.curves((each.kind, each.age_s) for each in ground.runs)
            for unit, starts in played(ground, curves, looks, PLAYED, lambda: False, EVENTS_MAX).items():
                if unit not in said and len(starts) == PLAYED:
                    said[unit] = Word(at, sorted(starts), np.inf)
            spent += time.perf_counter() - began
    until(times[pods[-1].name][0] + DRAIN_S)
    words = list(said.values())
    if options.keep:
        (options.keep / f"{trace}.json").write_bytes(msgspec.json.encode([(*each[:2], each.started) for each in words]))
    hits = judged(words)
    later = hits[len(hits) // 2 :]
    return Result(
        trace, gpus, len(pods), len(waited), len(hits), *_shares(hits), _shares(later), 1000 * spent / max(looks, 1)
    )


def judged(words: list[Word]) -> list[tuple[bool, bool]]:
    """Whether each had started by its times, in the order in which it was said; what is corrected is by what was known
    until then."""
    bands, hits = Bands(), dict[int, tuple[bool, bool]]()
    moments = [(each.said, 1, index) for index, each in enumerate(words)]
    moments += [(each.started, 0, index) for index, each in enumerate(words) if each.started < np.inf]
    for at, is_said, index in sorted(moments):
        bands.tick(at)
        word = words[index]
        if not is_said:
            bands.started(str(index), at)
        elif (band := bands.band(word.starts, at)) is not None:
            bands.say(str(index), band)
            hits[index] = word.started <= band.half_at, word.started <= band.most_at
    return [hits[index] for index in sorted(hits)]


def _shares(hits: list[tuple[bool, bool]]) -> tuple[float, float]:
    count = max(1, len(hits))
    return 100 * sum(half for half, _ in hits) / count, 100 * sum(most for _, most in hits) / count


def _times(folder: Path, trace: str) -> dict[str, tuple[float, float]]:
    """When each pod came and ended, for those that did."""
    with (folder / f"openb_pod_list_{trace}.csv").open() as file:
        rows = list(csv.DictReader(file))
    last = max(int(row["deletion_time"] or 0) for row in rows)
    return {
        row["name"]: (float(row["creation_time"]), float(row["deletion_time"]))
        for row in rows
        if row["deletion_time"]
        and int(row["deletion_time"]) < last
        and int(row["deletion_time"]) - int(row["creation_time"]) <= STAYS_MAX_S
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--traces", default="default,gpushare40", help="comma between them")
    parser.add_argument("--gpus", type=int, default=32, help="about so many in the cluster")
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for what was said, to try other constants with")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if not has_folder(options.folder):
        return
    with multiprocessing.Pool(options.jobs) as pool:
        found = pool.map(partial(run, options.folder, options), options.traces.split(","), chunksize=1)
    print("trace         GPUs   pods  waited  judged    50 %    90 %   later half   a look")
    for each in found:
        print(
            f"{each.trace:<12}{each.gpus:>6}{each.pods:>7}{each.waited:>8}{each.judged:>8}"
            f"{each.half:>7.1f}{each.most:>8.1f}   {each.second_half[0]:.1f}, {each.second_half[1]:.1f}"
            f"{each.look_ms:>8.0f} ms"
        )
        tell(
            "bands",
            trace=each.trace,
            gpus=each.gpus,
            judged=each.judged,
            half=each.half,
            most=each.most,
            look_ms=each.look_ms,
        )


if __name__ == "__main__":
    main()
