"""Why a service is slow: cycles for an instruction of each container, and how long pods and containers wait.

Nothing is set. What is wanted of a group is that it is looked at; the value says whose group it is.
"""

from __future__ import annotations

from typing import Final

from berth.node_qos_enforcer.core.strategies.knobs import CYCLES, STALLS
from berth.node_qos_enforcer.core.strategies.seam import (
    Container,
    Decided,
    Needs,
    Pod,
    Snapshot,
    Spec,
    Strategy,
    Wanted,
)


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """Every pod that is known by name, and its containers that run."""
    wanted: list[Wanted] = []
    for pod in snapshot.pods:
        if not pod.name or not pod.group:
            continue
        wanted.append(Wanted(pod.group, STALLS, whose(pod)))
        for each in pod.containers:
            if each.group and each.is_running:
                wanted += [Wanted(each.group, knob, whose(pod, each)) for knob in (CYCLES, STALLS)]
    return Decided(tuple(wanted))


def whose(pod: Pod, container: Container | None = None) -> str:
    """Whose group it is, in the order of the labels that figures have: none of it has a slash."""
    own = ("", "") if container is None else (container.id, container.name)
    return "/".join((*own, pod.uid, pod.name, pod.namespace))


INTERFERENCE: Final = Strategy(
    "interference",
    "enforce-perf",
    decide,
    lambda _: True,
    needs=Needs(knobs=(CYCLES, STALLS), capabilities=("PERFMON",)),
    is_steady=True,
)
