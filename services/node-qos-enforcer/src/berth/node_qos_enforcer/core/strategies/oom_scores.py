"""Which processes of pods the kernel kills first when memory runs out, as pods ask for it.

A score below the one that kubelet gives makes others die first. It takes a label of the pod's namespace, which whoever
may only make pods cannot write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_OOM_SCORE, ANNOTATION_OOM_SCORES, MEMORY
from berth.node_qos_enforcer.core.laws.oom_scores import allowed, score_of, score_of_kubelet
from berth.node_qos_enforcer.core.strategies.knobs import OOM_SCORE, PROCESSES
from berth.node_qos_enforcer.core.strategies.seam import (
    Container,
    Decided,
    Needs,
    Pod,
    Ref,
    Snapshot,
    Spec,
    Strategy,
    Wanted,
)

LOOK_EVERY_S: Final = 5
"""Processes of one pod are looked at this often; those that others start have their score by themselves."""


def decide(snapshot: Snapshot, spec: Spec, memory: tuple[Wanted, ...]) -> Decided:
    """Give the processes of containers their scores."""
    reports: list[Problem] = []
    wanted: list[Wanted] = []
    for pod in snapshot.pods:
        for container in pod.containers if _asks(pod) else ():
            score = allowed_score(pod, container, snapshot.node.capacity.get(MEMORY, 0))
            if isinstance(score, Problem):
                reports.append(Problem(field=f"{pod.key}.{score.field}"[:300], message=score.message))
            elif score is not None:
                wanted += _written(snapshot, container, score, memory)
    return Decided(tuple(wanted), tuple(wanted), tuple(reports))


def allowed_score(pod: Pod, container: Container, memory_capacity: int) -> int | Problem | None:
    """The score that a container may have; None: it asks for none."""
    score = score_of(pod.annotations, container.name)
    if score is None or isinstance(score, Problem):
        return score
    of_kubelet = score_of_kubelet(
        pod.kube_qos, memory_request=container.requests.get(MEMORY, 0), memory_capacity=memory_capacity
    )
    return allowed(score, container.name, of_kubelet=of_kubelet, may_lower=pod.may_lower_oom_scores)


def _written(snapshot: Snapshot, container: Container, score: int, memory: tuple[Wanted, ...]) -> Iterator[Wanted]:
    """One value for each process. Between two looks those of the last one stand."""
    ref = Ref(container.group, PROCESSES)
    if ref in snapshot.found:
        for process in snapshot.found[ref].split():
            yield Wanted(process, OOM_SCORE, str(score), container.group)
    else:
        for each in memory:
            if each.key == container.group:
                yield each


def _asks(pod: Pod) -> bool:
    return ANNOTATION_OOM_SCORE in pod.annotations or ANNOTATION_OOM_SCORES in pod.annotations


def _reads(snapshot: Snapshot, spec: Spec) -> Iterator[Ref]:
    turn = int(snapshot.now_s) % LOOK_EVERY_S
    for pod in snapshot.pods:
        if _asks(pod) and sum(pod.uid.encode()) % LOOK_EVERY_S == turn:
            for container in pod.containers:
                if container.group:
                    yield Ref(container.group, PROCESSES)


def _is_on(spec: Spec) -> bool:
    return True


OOM_SCORES: Final = Strategy(
    "oom-scores",
    "enforce-kernel",
    decide,
    _is_on,
    needs=Needs(knobs=(OOM_SCORE,), capabilities=("SYS_RESOURCE",), host_pid=True),
    reads=_reads,
    reads_by_turns=True,
    memory=(),
)
