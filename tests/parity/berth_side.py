"""Berth's answer for the pods of a trace: the same objects through cluster-watcher's converters into a solver's view.

After each pod what kube-scheduler did is shown to the view, so that both go on from one state.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Final, NamedTuple

import msgspec
import numpy as np
from tests.parity.world import RESOURCES, Identity, Manifest

from berth.cluster_watcher.kinds import KINDS
from berth.contracts import subjects
from berth.contracts.base import Reason
from berth.contracts.codec import encode
from berth.contracts.ledger import Epoch
from berth.contracts.state import Synced
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.displacers.priority import Displacement, PriorityPreemption
from berth.placement_solver.core.displacers.seam import Nobody, Proposal
from berth.placement_solver.core.plan import Candidate, Refusal
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.preempting import Preempting, by_itself
from berth.placement_solver.verified import VerifiedSolver
from berth.rules.eviction_notes import Nominated, nomination_note

SCHEDULER: Final = "default-scheduler"
CONFIGURATION: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    pluginConfig: [{name: Berth, args: {decides: kube-scheduler}}]
"""
"""Berth places as kube-scheduler does by default, scores and all."""
_KINDS: Final = {kind.plural: kind for kind in KINDS}


class Choice(NamedTuple):
    """A node and who leaves it (namespace/name, sorted)."""

    node: str
    victims: tuple[str, ...]


class Answer(NamedTuple):
    """What Berth decides about a pod.

    `reasons` counts the nodes of each text, `plain` are reasons about no node in particular. `unsupported`: fields
    that it refuses by name. `scores`: by node what each plugin gives, weighted. `nominated`: where its victims leave;
    `choices`: every node with its victims that is as good. `preemption`: why nobody leaves.
    """

    verdict: str
    node: str = ""
    feasible: frozenset[str] = frozenset()
    reasons: Mapping[str, int] = {}
    plain: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    scores: Mapping[str, Mapping[str, int]] = {}
    nominated: str = ""
    victims: tuple[str, ...] = ()
    choices: frozenset[Choice] = frozenset()
    preemption: str = ""


class BerthSide:
    """One solver's view of a world."""

    def __init__(self, objects: Iterable[Manifest]) -> None:
        self._view = ClusterView([SCHEDULER], "solver")
        self._view.configuration.read(CONFIGURATION)
        verifier = Verifier(self._view)
        self._preempting = Preempting(self._view, verifier, VerifiedSolver(self._view, verifier), Random(1))
        self._version = 0
        for each in objects:
            self.show(each)
        self._view.read_ledger(subjects.EPOCH_KEY, encode(Epoch(epoch=1, pods_version=0)), False, 1)
        for kind in _KINDS:
            marker = Synced(kind=kind, version=self._version, complete=True)
            self._view.read_state(subjects.synced_key(kind), encode(marker), deleted=False, gap=False, trace=None)
        self._view.end_of_state()

    @property
    def constraints(self) -> frozenset[str]:
        """The names of the constraints that Berth has."""
        registry = self._view.profiles.of(SCHEDULER)
        return frozenset(each.name for each in (*registry.of_class, *registry.of_pod))

    def show(self, item: Manifest) -> None:
        """An object is there, or has changed. Kinds that cluster-watcher does not follow are left out."""
        kind = _KINDS.get(RESOURCES[item["kind"]].plural)
        if kind is None:
            return
        item = _noted(item)
        version = int(item["metadata"]["resourceVersion"])
        self._version = max(self._version, version)
        message = kind.convert(msgspec.json.decode(json.dumps(item).encode(), type=kind.item), version)
        meta = item["metadata"]
        self._read(kind.key(meta.get("namespace", ""), meta["name"]), encode(message), deleted=False)

    def delete(self, which: Identity) -> None:
        """An object is gone."""
        kind = _KINDS.get(RESOURCES[which.kind].plural)
        if kind is not None:
            self._version += 1
            self._read(kind.key(which.namespace, which.name), str(self._version).encode(), deleted=True)

    def _read(self, key: str, value: bytes, *, deleted: bool) -> None:
        self._view.read_state(key, value, deleted=deleted, gap=False, trace=None)

    def decide(self, pod: Manifest) -> Answer:
        """What Berth would do with a pod that is created now. It stays pending in the view."""
        self.show(pod)
        view = self._view
        name = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        for waiting in view.queue.waiting.values():
            waiting.ready = waiting.name == name
        units, held = view.batch(1)
        mine = [unit for unit in units if unit.candidates[0].name == name]
        if not mine:
            return Answer("held" if held else "gated")
        candidate = mine[0].candidates[0]
        trial = Trial(view.capacity)
        solution = view.solver.solve(mine, trial, "plan")
        trial.undo()
        if solution.placements:
            node = solution.placements[0].claim.node
            with self._as_placed(candidate):
                feasible = frozenset(self._feasible(candidate))
                return Answer("bound", node=node, feasible=feasible, scores=self._scores(candidate, feasible))
        refusal = solution.refusals[0]
        answer = _refused(refusal.reasons)
        return answer if answer.unsupported else self._preempt(refusal, answer)

    def _preempt(self, refusal: Refusal, answer: Answer) -> Answer:
        """Who leaves for a refused pod, as a round proposes it; and what is as good, whatever node is tried first."""
        refused = by_itself(refusal)
        if not self._preempting.concerns(refused):
            return answer
        found = self._preempting.propose(refused, "plan")
        if not isinstance(found, Proposal):
            return answer._replace(preemption=found.message if isinstance(found, Nobody) else "free")
        mine = _choice(found.placements[0].claim.node, found)
        offsets = range(len(self._view.nodes))
        by_priority = next(each for each in self._view.displacers if isinstance(each, PriorityPreemption))
        others = (by_priority.choose(refusal.candidate, offset) for offset in offsets)
        names = self._view.nodes.names
        as_good = {_choice(names[each.target.row], each) for each in others if isinstance(each, Displacement)}
        return answer._replace(nominated=mine.node, victims=mine.victims, choices=frozenset(as_good))

    @contextmanager
    def _as_placed(self, candidate: Candidate) -> Iterator[None]:
        """With the nominations that count against the pod, as when it is placed."""
        capacity = self._view.capacity
        trial = Trial(capacity)
        trial.release(candidate.name)
        with capacity.nominated.without_lower(candidate.object.template.priority):
            yield
        trial.undo()

    def _feasible(self, candidate: Candidate) -> Iterable[str]:
        """The nodes that Berth would bind the pod to."""
        view = self._view
        view.solver.costs.of(candidate.cls)
        for row, name in enumerate(view.nodes.names):
            trial = Trial(view.capacity)
            if view.nodes.alive[row] and view.solver.place_on(candidate, row, trial, "plan") is not None:
                yield name
            trial.undo()

    def _scores(self, candidate: Candidate, feasible: Collection[str]) -> dict[str, dict[str, int]]:
        """What each plugin gives each of these nodes, weighted; a plugin that has nothing to rate is left out."""
        nodes, registry = self._view.nodes, candidate.cls.rules
        names = sorted(feasible)
        rows = np.array([nodes.row(name) for name in names], np.intp)
        scores: dict[str, dict[str, int]] = {name: {} for name in names}
        for score, weight, _ in (*registry.scores_of_class, *registry.scores_of_pod):
            query = score.prescore(candidate.spec)
            if query is not None:
                given = weight * score.normalise(query, score.raw(query, rows), rows)
                for name, amount in zip(names, given, strict=True):
                    scores[name][score.name] = int(amount)
        return scores


def _noted(item: Manifest) -> Manifest:
    """A nomination of kube-scheduler with the note that Berth's own carry: without it, it holds nothing."""
    node = item.get("status", {}).get("nominatedNodeName") if item["kind"] == "Pod" else None
    if not node:
        return item
    meta = item["metadata"]
    note = nomination_note(Nominated(plan=f"of {meta['name']}", node=node))
    return {**item, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), **note}}}


def _choice(node: str, displacement: Displacement | Proposal) -> Choice:
    return Choice(node, tuple(sorted(f"{each.namespace}/{each.name}" for each in displacement.victims)))


def _refused(reasons: Iterable[Reason]) -> Answer:
    counted: Counter[str] = Counter()
    plain, unsupported = [], []
    for each in reasons:
        if each.code == "unsupported":
            unsupported.append(each.field)
        elif each.nodes:
            counted[each.message] += each.nodes
        else:
            plain.append(each.message)
    return Answer("unschedulable", reasons=counted, plain=tuple(plain), unsupported=tuple(unsupported))
