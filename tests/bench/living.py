"""The openb trace with its own times: a few of its GPU nodes, and pods that come, are placed by the solver, and end.

Pods come in the order and with the gaps in which they came, drawn together until they ask for so many times of what
there is, and stay for as long as they stayed; who stayed for more than a day is left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from mixes import pods_of
from openb import Driven, gpu_milli

from berth.contracts import names, subjects
from berth.contracts.state import Pod
from berth.placement_solver.core.decide import Basis, decisions_of
from berth.placement_solver.core.trial import Trial
from berth.rules.pod_reading import PodItem
from berth.rules.reading.pods import pod_of
from berth.rules.times import text_of
from berth.simcluster.openb import TraceNode, TracePod, read_nodes

BEGAN: Final = 1.7e9
"""Unix time of the trace's beginning."""
STAYS_MAX_S: Final = 86_400
DRAIN_S: Final = 864_000.0
"""So long it goes on after the last one has come."""
BACK_OFF_S: Final = 15.0
GANGS: Final = 0.2
"""Part of those with whole cards that come as gangs."""
GANG_MAX: Final = 4
TEAMS: Final = ("blue", "green")
TEAM_MOST: Final = 0.55
"""Part of the cards that each team may use."""


class Cell(NamedTuple):
    """What is played: so many pods of a trace from one on, on about so many GPUs, which they ask for so many times.

    `kind`: `singles`; `gangs`: some come as gangs; `quotas`: two teams pay, each of which may have a part of the cards.
    """

    trace: str
    kind: str = "singles"
    seed: int = 1
    skip: int = 0
    pods: int = 1000
    load: float = 0.9
    gpus: int = 32


class Job(NamedTuple):
    """A pod, or a gang of pods that are alike: who pays, when it comes, how long each stays."""

    pod: TracePod
    size: int
    team: str
    comes_s: float
    stays_s: float

    @property
    def cards_milli(self) -> int:
        """Thousandths of cards that all of it asks for."""
        return self.size * gpu_milli(self.pod)


def nodes_of(folder: Path, cell: Cell) -> list[TraceNode]:
    """Some of the trace's nodes."""
    found: list[TraceNode] = []
    nodes = [each for each in read_nodes(folder) if each.gpus]
    for index in np.random.default_rng(cell.seed).permutation(len(nodes)).tolist():
        if sum(each.gpus for each in found) >= cell.gpus:
            break
        found.append(nodes[index])
    return found


def jobs_of(folder: Path, cell: Cell, nodes: Sequence[TraceNode]) -> list[Job]:
    """Those that come, in order."""
    largest, total = max(each.gpus for each in nodes), sum(each.gpus for each in nodes)
    timed = [
        (each.created_s, each.deleted_s, each)
        for each in pods_of(folder, cell.trace)
        if each.created_s is not None and each.deleted_s is not None
    ]
    last = max(deleted for _, deleted, _ in timed)
    chosen = sorted(
        (created, place, deleted - created, each)
        for place, (created, deleted, each) in enumerate(timed)
        if 0 < each.request.gpus <= largest and deleted < last and deleted - created <= STAYS_MAX_S
    )[cell.skip : cell.skip + cell.pods]
    rng = np.random.default_rng([cell.seed, 1])
    began, jobs = chosen[0][0], list[Job]()
    for created, _, stays, pod in chosen:
        whole = pod.request.gpus > 1 or pod.request.gpu_milli == 1000
        many = cell.kind == "gangs" and whole and rng.random() < GANGS
        size = min(int(rng.integers(2, GANG_MAX + 1)), total // pod.request.gpus) if many else 1
        team = TEAMS[int(rng.integers(len(TEAMS)))] if cell.kind == "quotas" else ""
        jobs.append(Job(pod, max(size, 1), team, float(created - began), float(stays)))
    work = sum(each.cards_milli / 1000 * each.stays_s for each in jobs)
    pace = work / (cell.load * total) / jobs[-1].comes_s
    return [each._replace(comes_s=pace * each.comes_s) for each in jobs]


class Living(Driven):
    """The solver's view while pods come, are placed and end; time is the trace's, in seconds."""

    def __init__(self, folder: Path, cell: Cell) -> None:
        nodes = nodes_of(folder, cell)
        super().__init__(nodes)
        self.jobs = jobs_of(folder, cell, nodes)
        self.gpus = sum(each.gpus for each in nodes)
        self.placed_at: dict[str, float] = {}
        """When each pod was placed, by `namespace/name`."""
        self._stays: dict[str, float] = {}
        self._ending: list[tuple[float, str]] = []
        if cell.kind == "quotas":
            for team in TEAMS:
                most = int(100 * TEAM_MOST * self.gpus)
                self.quota(team, max={names.GPU_CORE: most, names.GPU_MEMORY_RATIO: most})

    def live(self) -> Iterator[tuple[int, float]]:
        """After each that has come, and what could be was placed: how many have, and the time. Then to the end."""
        for index, job in enumerate(self.jobs):
            self._until(job.comes_s)
            self._come(job)
            self._place(job.comes_s)
            yield index + 1, job.comes_s
        self._until(self.jobs[-1].comes_s + DRAIN_S)

    def _come(self, job: Job) -> None:
        labels = {names.LABEL_QUOTA_NAME: job.team} if job.team else {}
        if job.size > 1:
            self.pod_group(job.pod.name, job.size)
            labels[names.LABEL_POD_GROUP] = job.pod.name
        for member in range(job.size):
            name = job.pod.name if job.size == 1 else f"{job.pod.name}-{member}"
            manifest = {**job.pod.manifest(name=name), "apiVersion": "v1", "kind": "Pod"}
            manifest["metadata"]["uid"] = f"uid-{name}"
            manifest["metadata"]["labels"] |= labels
            item = msgspec.json.decode(msgspec.json.encode(manifest), type=PodItem)
            self.version += 1
            self._stays[name] = job.stays_s
            self.state(subjects.namespaced_key("pod", "default", name), pod_of(item, self.version))

    def _until(self, at: float) -> None:
        queue = self.cluster.queue
        while True:
            retry = queue.next_retry()
            if retry > self.cluster.now + BACK_OFF_S:
                retry = np.inf  # by the clock alone: nothing has changed
            ends = self._ending[0][0] if self._ending else np.inf
            soonest = min(ends, max(retry, self.cluster.now + 0.5))
            if soonest > at:
                break
            self._tell(soonest)
            while self._ending and self._ending[0][0] <= soonest:
                self.delete_pod(heapq.heappop(self._ending)[1])
            self._place(soonest)
        self._tell(at)

    def _tell(self, at: float) -> None:
        """It is so late."""
        self.cluster.now, self.cluster.now_ms = at, int((BEGAN + at) * 1000)

    def _place(self, at: float) -> None:
        """Place what can be placed, and show it as bound."""
        cluster = self.cluster
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
                self._bind(decision, at)
            for refusal in solution.refusals:
                waiting = cluster.queue.waiting.get(refusal.candidate.name)
                if waiting is not None:
                    cluster.queue.refuse(waiting, refusal.reasons, cluster.now)

    def _bind(self, decision: Any, at: float) -> None:
        pod = self.cluster.book.pods[decision.namespace, decision.name]
        self.version += 1
        fields = {name: getattr(pod, name) for name in pod.__struct_fields__}
        template = {name: getattr(pod.template, name) for name in pod.template.__struct_fields__}
        template["annotations"] = {**pod.template.annotations, **decision.annotations}
        fields |= {"template": type(pod.template)(**template), "node": decision.node, "phase": "Running"}
        fields |= {"version": self.version, "scheduled": text_of(self.cluster.now_ms / 1000)}
        self.state(subjects.pod_key(pod.namespace, pod.name), Pod(**fields))
        heapq.heappush(self._ending, (at + self._stays[pod.name], pod.name))
        self.placed_at[f"{pod.namespace}/{pod.name}"] = at
