"""What only its beginning can give a container as a whole: its OOM score, and its part of the caches.

Both are held afterwards as well, by who looks at processes; those that begin with them have them from their first
instruction.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_RESCTRL
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.groups import kube_qos_of
from berth.node_qos_enforcer.core.inside.seen import ContainerSeen, PodSeen
from berth.node_qos_enforcer.core.laws.oom_scores import allowed, score_of
from berth.node_qos_enforcer.core.strategies.caches import beginning_group


class Beginning(NamedTuple):
    """None: as its creator says."""

    oom_score_adj: int | None = None
    cache_group: str | None = None


AS_ASKED: Final = Beginning()


def beginning(
    pod: PodSeen, container: ContainerSeen, facts: InsideFacts, *, may_lower: bool | None
) -> tuple[Beginning, Problem | None]:
    """What a container begins with, and what it cannot have.

    A score below kubelet's waits until somebody says whether the pod's namespace may have one.

    Args:
        pod: its pod.
        container: as it was asked for.
        facts: what is known of the node.
        may_lower: whether the pod's namespace may have others die before it; None: nobody has said it yet.
    """
    if facts.gives_back:
        return AS_ASKED, None
    score, problem = _score(pod, container, may_lower), None
    if isinstance(score, Problem):
        problem = Problem(field=f"{pod.key}.{score.field}"[:300], message=score.message)
        score = None
    kube_qos = kube_qos_of(pod.cgroup_parent, pod.uid)
    group = ""
    if kube_qos is not None and facts.cache_groups:
        asks = ANNOTATION_RESCTRL in pod.annotations
        group = beginning_group(pod.uid, pod.qos, kube_qos, asks=asks, there=facts.cache_groups, spec=facts.spec)
    return Beginning(None if score == container.oom_score_adj else score, group or None), problem


def _score(pod: PodSeen, container: ContainerSeen, may_lower: bool | None) -> int | Problem | None:
    score, of_kubelet = score_of(pod.annotations, container.name), container.oom_score_adj
    if score is None or isinstance(score, Problem) or of_kubelet is None:
        return score if isinstance(score, Problem) else None
    if score < of_kubelet and may_lower is None:
        return None
    return allowed(score, container.name, of_kubelet=of_kubelet, may_lower=bool(may_lower))
