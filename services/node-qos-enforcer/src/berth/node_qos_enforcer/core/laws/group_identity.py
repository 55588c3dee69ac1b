"""The identity of a group of processes, by which kernels that know it decide who runs first.

-1 gives way at once and is kept off the cores of others, 2 goes first. On other kernels `stand_in` says what comes
nearest: whether a group runs only when nobody else wants to, or by which weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_CPU_QOS
from berth.node_qos_enforcer.core.laws.classes import by_kube_qos, by_label
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.qos import LS

POLICY: Final = "groupIdentity"
LOWEST: Final = -1
HIGHEST: Final = 2


class ClassRule(NamedTuple):
    """Whether a class has an identity, and which."""

    enabled: bool = False
    value: int = 0


class Rule(NamedTuple):
    """The identities on a node: of pods by label, of the groups of Kubernetes' classes, of pods without a label."""

    enabled: bool
    pod_by_label: Mapping[str, int]
    group_dir: Mapping[str, int]
    pod_by_kube_qos: Mapping[str, int]


class _Own(msgspec.Struct, frozen=True, rename="camel"):
    enable: bool | None = None
    group_identity: int | None = None


def rule_of(policy: str, *, lsr: ClassRule, ls: ClassRule, be: ClassRule) -> Rule:
    """The rule of a node. Under another policy than that of identities each is 0."""
    is_on = policy in ("", POLICY)
    of_lsr, of_ls, of_be = (each.value if is_on and each.enabled else 0 for each in (lsr, ls, be))
    guaranteed = of_lsr if lsr.enabled else of_ls
    return Rule(
        is_on and (lsr.enabled or ls.enabled or be.enabled),
        by_label(of_lsr, of_ls, of_be),
        by_kube_qos(0, of_ls, of_be),
        by_kube_qos(guaranteed, of_ls, of_be),
    )


def identity_of(rule: Rule, *, qos: str, kube_qos: str, annotations: Mapping[str, str]) -> int | Problem:
    """The identity of a pod.

    A pod of class LS may choose its own by an annotation that is enabled, or have none by one that is not. An
    annotation that cannot be used leaves the pod as it is, whatever its class.
    """
    own = read_annotation(annotations, ANNOTATION_CPU_QOS, _Own)
    if isinstance(own, Problem):
        return own
    if own is not None:
        if own.group_identity is not None and not LOWEST <= own.group_identity <= HIGHEST:
            field = f"{annotation_field(ANNOTATION_CPU_QOS)}.groupIdentity"
            return Problem(field=field, message=f"is not within {LOWEST}..{HIGHEST}: {own.group_identity}")
        if qos == LS and not own.enable:
            return 0
        if qos == LS and own.group_identity is not None:
            return own.group_identity
    return rule.pod_by_label.get(qos, rule.pod_by_kube_qos.get(kube_qos, 0))


class StandIn(NamedTuple):
    """What a kernel without identities is told: `cpu.idle`, or by how much the weight of the group is multiplied."""

    idle: bool
    factor: int = 1


def stand_in(identity: int) -> StandIn:
    """What comes nearest to an identity: below 0 the group runs when nobody else wants to; above, its weight grows."""
    return StandIn(identity < 0, 2 ** max(identity, 0))
