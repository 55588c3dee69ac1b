"""CPU normalisation: on a node whose CPUs do more than the reference's, a limit is worth so much less time.

Pods of class LS, or of none, without CPUs of their own. The plugin of the container runtime gives containers such a
quota from their beginning; this keeps it where there is no plugin, and for pods as a whole.
"""

from __future__ import annotations

from typing import Final

from berth.contracts.names import CPU
from berth.node_qos_enforcer.core.strategies.knobs import CPU_QUOTA, QUOTA_SCALE
from berth.node_qos_enforcer.core.strategies.seam import Decided, Needs, Snapshot, Spec, Strategy, Wanted
from berth.rules.cpus.qos import LS


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """The ratio, for each pod and container that it concerns."""
    ratio = snapshot.node.facts.cpu_ratio
    if ratio is None or ratio <= 1:
        return Decided()
    wanted: list[Wanted] = []
    for pod in snapshot.pods:
        if pod.qos not in ("", LS) or not pod.is_known or any(each.is_pinned for each in pod.containers):
            continue
        limited = [each for each in pod.containers if each.group and each.limits.get(CPU, 0) > 0]
        wanted += [Wanted(each.group, QUOTA_SCALE, str(ratio)) for each in limited]
        if limited and len(limited) == len(pod.containers):
            wanted.append(Wanted(pod.group, QUOTA_SCALE, str(ratio)))
    return Decided(tuple(wanted))


CPU_NORMALIZATION: Final = Strategy(
    "cpu-normalization", "enforce", decide, lambda _: True, needs=Needs(knobs=(CPU_QUOTA,)), is_steady=True
)
