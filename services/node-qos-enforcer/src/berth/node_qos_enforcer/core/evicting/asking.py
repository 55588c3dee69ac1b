"""From one look after another to whom the node asks to have evicted.

An ask stands until its pod is gone, its answer was no, or its need is over before it was granted. Who is asked for
counts as leaving, so that one need asks for no more pods than it takes; who was refused is asked for again after a
while, and the next one has its turn at once. Between two pods that leave passes a while, in which the node can show
what the first one has released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import BATCH_CPU, CPU, MEMORY
from berth.contracts.node_pressure import ASKS_MAX, EvictionAsk
from berth.contracts.slo import NodePod
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.evicting.needs import Look, Need, needs_of
from berth.node_qos_enforcer.core.evicting.rounds import Task, counts_of, run_round
from berth.node_qos_enforcer.core.evicting.satisfaction import BestEffort
from berth.node_qos_enforcer.core.evicting.victims import Victim
from berth.node_qos_enforcer.core.strategies.seam import Snapshot, Spec
from berth.resources.amounts import Amounts
from berth.rules.cpus.qos import BE, qos_class
from berth.rules.node_evictions.candidates import Candidate
from berth.rules.node_evictions.class_request import class_request
from berth.rules.node_evictions.features import FEATURES
from berth.rules.node_evictions.thresholds import Thresholds, read_thresholds

REST_S: Final = {CPU: 20.0, MEMORY: 4.0}
"""How long after a pod began to leave the next round is held, by resource; a process begins with one."""
REFUSED_S: Final = 60.0
WINDOW_MAX_S: Final = 3_600.0
GRANTED: Final = "granted"


class _Asked(NamedTuple):
    ask: EvictionAsk
    resource: str
    at_s: float


class Asking:
    """One node's asks. Times are monotonic seconds."""

    def __init__(self, now_s: float) -> None:
        """Begin with nothing asked, as if somebody had just left."""
        self._asked: dict[str, _Asked] = {}
        self._refused: dict[str, float] = {}
        self._left: dict[str, dict[str, float]] = {CPU: {"": now_s}, MEMORY: {"": now_s}}
        """By resource: when whoever began to leave was asked for. Who was refused is no part of it."""
        self._needs: dict[str, str] = {}
        self._samples: deque[tuple[float, float, BestEffort]] = deque()
        self._number = 0

    def decide(
        self, snapshot: Snapshot, spec: Spec, told: Mapping[str, NodePod], now_ms: int
    ) -> tuple[list[EvictionAsk], Problem | None]:
        """What is asked for after a look, and what is wrong with the specification.

        Args:
            snapshot: the look.
            spec: what the node's NodeSLO says.
            told: pods as SLO has them, with its answers.
            now_ms: unix milliseconds, which number asks.
        """
        thresholds = read_thresholds(spec)
        self._take_answers({each.uid for each in snapshot.pods}, told, snapshot.now_s)
        if isinstance(thresholds, Problem) or not thresholds.enable:
            self._asked.clear()
            self._needs.clear()
            self._samples.clear()
            return [], thresholds if isinstance(thresholds, Problem) else None
        self._sample(snapshot, told, thresholds)
        for resource in (CPU, MEMORY):
            look = Look(snapshot, thresholds, partial(victims, snapshot, told, resource), self._samples)
            needs = needs_of(look, resource)
            self._name(resource, needs, now_ms)
            self._withdraw(resource, needs, told)
            if snapshot.now_s - max(self._left[resource].values(), default=float("-inf")) >= REST_S[resource]:
                self._ask(resource, needs, told, snapshot.now_s, now_ms)
        return [each.ask for each in self._asked.values()], None

    def _take_answers(self, there: set[str], told: Mapping[str, NodePod], now_s: float) -> None:
        for uid, asked in list(self._asked.items()):
            entry = told.get(uid)
            answer = None if entry is None else entry.eviction
            if uid not in there:
                del self._asked[uid]
            elif answer is not None and answer.number == asked.ask.number and answer.state != GRANTED:
                del self._asked[uid]
                self._left[asked.resource].pop(uid, None)
                self._refused[uid] = now_s + REFUSED_S
        self._refused = {uid: until for uid, until in self._refused.items() if uid in there and until > now_s}
        for resource, left in self._left.items():
            self._left[resource] = {uid: at_s for uid, at_s in left.items() if now_s - at_s < REST_S[resource]}

    def _sample(self, snapshot: Snapshot, told: Mapping[str, NodePod], thresholds: Thresholds) -> None:
        usage = snapshot.usage
        if usage.node_cores is not None:
            self._samples.append((snapshot.now_s, usage.node_cores * 1000, _best_effort(snapshot, told)))
        window_s = min(float(thresholds.cpu_evict_time_window_seconds or 0), WINDOW_MAX_S)
        while len(self._samples) > 1 and self._samples[0][0] <= snapshot.now_s - window_s:
            self._samples.popleft()

    def _name(self, resource: str, needs: Iterable[Need], now_ms: int) -> None:
        """A need keeps its name from the crossing of its threshold until it is over."""
        names = {each.feature.name for each in needs}
        for each in needs:
            self._needs.setdefault(each.feature.name, f"{each.feature.name}-{now_ms}")
        for name in [name for name in self._needs if name not in names and FEATURES[name].resource == resource]:
            del self._needs[name]

    def _withdraw(self, resource: str, needs: Iterable[Need], told: Mapping[str, NodePod]) -> None:
        """Nobody is asked for any more whose need is over, unless the answer was given."""
        open_ = {self._needs[each.feature.name] for each in needs}
        for uid, asked in list(self._asked.items()):
            entry = told.get(uid)
            is_granted = entry is not None and _is_leaving(entry)
            if asked.resource == resource and asked.ask.need not in open_ and not is_granted:
                del self._asked[uid]

    def _ask(self, resource: str, needs: list[Need], told: Mapping[str, NodePod], now_s: float, now_ms: int) -> None:
        tasks = [each.task for each in needs]
        by_name = {each.feature.name: each for each in needs}

        def evict(task: Task, uid: str, lacks: Amounts) -> bool:
            if uid in self._refused or len(self._asked) >= ASKS_MAX:
                return False
            need = by_name[task.name]
            self._number = max(now_ms, self._number + 1)
            ask = EvictionAsk(
                uid=uid,
                number=self._number,
                need=self._needs[task.name],
                feature=task.name,
                accumulator=task.accumulator,
                rank=list(task.victims).index(uid),
                release=dict(task.to_release),
                counts=counts_of(uid, tasks).get(task.accumulator, {}),
                inputs=dict(need.inputs),
                message=need.message,
            )
            self._asked[uid] = _Asked(ask, resource, now_s)
            self._left[resource][uid] = now_s
            return True

        def is_leaving(uid: str) -> bool:
            return uid in self._asked or _is_leaving(told[uid])

        run_round(tasks, is_leaving=is_leaving, evict=evict)


def victims(snapshot: Snapshot, told: Mapping[str, NodePod], resource: str) -> list[Victim]:
    """Pods that SLO knows, with what they use and request. Who is not known there is nobody's victim."""
    usage, found = snapshot.usage, []
    for pod in snapshot.pods:
        entry = told.get(pod.uid)
        if entry is None or entry.left:
            continue
        if resource == CPU:
            cores = usage.pod_cores.get(pod.uid)
            used = None if cores is None else int(cores * 1000)
        else:
            used = usage.pod_bytes.get(pod.uid)
        candidate = Candidate(entry.labels, entry.annotations, entry.priority, entry.kube_qos, entry.phase or "Running")
        _, request = class_request(entry.priority_class, resource, entry.requests)
        found.append(Victim(pod.uid, entry.name, candidate, used, request, entry.priority_class))
    return found


def _best_effort(snapshot: Snapshot, told: Mapping[str, NodePod]) -> BestEffort:
    """What holds best-effort pods now, and what those labelled so use and have asked for."""
    node = snapshot.node
    limits = [] if node.best_effort_cpus is None else [len(node.best_effort_cpus) * 1000.0]
    if node.bandwidth is not None and node.bandwidth.quota_us != UNLIMITED:
        limits.append(node.bandwidth.quota_us * 1000 / node.bandwidth.period_us)
    labelled = [told[pod.uid] for pod in snapshot.pods if pod.uid in told and qos_class(told[pod.uid].labels) == BE]
    used = sum(snapshot.usage.pod_cores.get(each.uid, 0.0) for each in labelled) * 1000
    return BestEffort(min(limits, default=0.0), used, sum(each.requests.get(BATCH_CPU, 0) for each in labelled))


def _is_leaving(entry: NodePod) -> bool:
    return entry.deleting or (entry.eviction is not None and entry.eviction.state == GRANTED)
