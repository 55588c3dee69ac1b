"""The identity of a group of processes, by which kernels that know it decide who runs first.

-1 gives way at once and is kept off the cores of others, 2 goes first. Other kernels are told a
weight, or that a group runs only when nobody else wants to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_CPU_QOS
from berth.node_qos_enforcer.core.laws.classes import by_kube_qos, by_label
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.qos import BE, BEST_EFFORT, GUARANTEED, LS, LSR

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


def for_weights(rule: Rule) -> Rule:
    """The identities by which a kernel that has none is told weights: there no class loses against a lower one.

    Identities of 0 are those of a class that nobody holds. A kernel that knows identities lets others go before it as
    far as they ask; a smaller weight would take from it for good.
    """
    of_be = rule.pod_by_label[BE]
    of_ls = max(rule.pod_by_label[LS], of_be)
    of_lsr = max(rule.pod_by_label[LSR], of_ls)
    guaranteed = max(rule.pod_by_kube_qos[GUARANTEED], of_ls)
    return rule._replace(
        pod_by_label=by_label(of_lsr, of_ls, of_be),
        group_dir=by_kube_qos(rule.group_dir[GUARANTEED], of_ls, rule.group_dir[BEST_EFFORT]),
        pod_by_kube_qos=by_kube_qos(guaranteed, of_ls, of_be),
    )


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
