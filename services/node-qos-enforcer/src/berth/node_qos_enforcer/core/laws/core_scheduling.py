"""Who may share a core with whom: groups of pods whose threads alone run on the siblings of one core at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts.names import LABEL_CORE_SCHED_GROUP, LABEL_CORE_SCHED_POLICY
from berth.node_qos_enforcer.core.laws.classes import by_kube_qos, by_label
from berth.rules.cpus.qos import SYSTEM, qos_class

POLICY: Final = "coreSched"
EXPELLER: Final = "-expeller"
"""What the groups of a class end in that keeps others off its cores, so that it has groups of its own."""
EXCLUSIVE: Final = "exclusive"
NONE: Final = "none"


class ClassRule(NamedTuple):
    """What holds for a class: whether it is grouped, keeps others off its cores, runs only when nobody else does."""

    enabled: bool = False
    expeller: bool = False
    cpu_idle: bool = False


OFF: Final = ClassRule()


class Rule(NamedTuple):
    """What holds on a node: by the label of pods, and by Kubernetes' class of those without one."""

    enabled: bool
    pod_by_label: Mapping[str, ClassRule]
    pod_by_kube_qos: Mapping[str, ClassRule]


def rule_of(policy: str, *, lsr: ClassRule, ls: ClassRule, be: ClassRule) -> Rule:
    """The rule of a node: what classes ask for counts under the policy of core scheduling alone."""
    if policy != POLICY:
        lsr = ls = be = OFF
    guaranteed = lsr if lsr.enabled else ls if ls.enabled else OFF
    return Rule(
        lsr.enabled or ls.enabled or be.enabled,
        by_label(lsr, ls, be),
        by_kube_qos(guaranteed, ls, be),
    )


class Group(NamedTuple):
    """The group of a pod; one that is not `enabled` is in none. Pods without a name of their group share one."""

    enabled: bool
    name: str


def group_of(rule: Rule, *, labels: Mapping[str, str], kube_qos: str, uid: str) -> Group:
    """The group that a pod belongs to."""
    policy = labels.get(LABEL_CORE_SCHED_POLICY, "")
    name = uid if policy == EXCLUSIVE else labels.get(LABEL_CORE_SCHED_GROUP, "")
    qos = qos_class(labels)
    if not rule.enabled or qos == SYSTEM:
        return Group(False, name)
    own = rule.pod_by_label.get(qos) or rule.pod_by_kube_qos.get(kube_qos, OFF)
    return Group(own.enabled and policy != NONE, name + (EXPELLER if own.expeller else ""))
