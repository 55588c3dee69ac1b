"""Latency-sensitive pods go before best-effort ones: by the identity of their groups, where the kernel knows it.

Other kernels are told what comes nearest. The best-effort group runs only when nobody else wants to (`cpu.idle`). Among
the others shares are lowered, never raised: kubelet's own stay the measure between pods of one identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from berth.contracts.base import Problem
from berth.contracts.names import CPU
from berth.node_qos_enforcer.core.cgroup_paths import KUBE_QOS, qos_dir
from berth.node_qos_enforcer.core.laws.cpu_values import SHARES_MIN, milli_to_shares
from berth.node_qos_enforcer.core.laws.group_identity import (
    LOWEST,
    POLICY,
    ClassRule,
    Rule,
    for_weights,
    identity_of,
    rule_of,
)
from berth.node_qos_enforcer.core.strategies.knobs import BVT, CPU_IDLE, CPU_SHARES, IDENTITY_ENABLED, SCHED_CORE
from berth.node_qos_enforcer.core.strategies.node_slo import BE_CLASS, LS_CLASS, LSR_CLASS
from berth.node_qos_enforcer.core.strategies.outside import applications_of
from berth.node_qos_enforcer.core.strategies.seam import (
    Decided,
    Needs,
    Pod,
    Ref,
    Snapshot,
    Spec,
    Strategy,
    Wanted,
)
from berth.node_qos_enforcer.core.strategies.sections import block_of, policy_of
from berth.rules.cpus.qos import BEST_EFFORT, BURSTABLE, GUARANTEED

SYSCTL: Final = "sys/kernel"


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """Give every group of pods its identity."""
    driver = snapshot.node.driver
    if driver is None:
        return Decided(skipped="no kubelet here")
    best_effort = qos_dir(driver, "BestEffort")
    knows = Ref(best_effort, BVT) in snapshot.found or Ref(SYSCTL, IDENTITY_ENABLED) in snapshot.found
    rule = _rule(spec) if knows else for_weights(_rule(spec))
    reports: list[Problem] = []
    identities = [(pod, _identity(rule, pod, reports)) for pod in snapshot.pods]
    if not knows:
        return Decided(tuple(_stood_in(rule, identities, best_effort)), reports=tuple(reports))
    wanted = [Wanted(SYSCTL, SCHED_CORE, "0")] if Ref(SYSCTL, SCHED_CORE) in snapshot.found else []
    if Ref(SYSCTL, IDENTITY_ENABLED) in snapshot.found:
        wanted.append(Wanted(SYSCTL, IDENTITY_ENABLED, "1"))
    wanted += [Wanted(qos_dir(driver, each), BVT, str(rule.group_dir[each])) for each in KUBE_QOS]
    for pod, identity in identities:
        if identity is not None:
            groups = (pod.group, pod.sandbox_group, *(each.group for each in pod.containers))
            wanted += [Wanted(group, BVT, str(identity)) for group in groups if group]
    applications, problems = applications_of(spec, driver)
    wanted += [Wanted(each.group, BVT, str(rule.pod_by_label.get(each.qos, 0))) for each in applications]
    return Decided(tuple(wanted), reports=(*reports, *problems))


def _identity(rule: Rule, pod: Pod, reports: list[Problem]) -> int | None:
    found = identity_of(rule, qos=pod.qos, kube_qos=pod.kube_qos, annotations=pod.annotations)
    if isinstance(found, Problem):
        reports.append(Problem(field=f"{pod.key}.{found.field}"[:300], message=found.message))
        return None
    return found


def _stood_in(rule: Rule, pods: list[tuple[Pod, int | None]], best_effort: str) -> Iterator[Wanted]:
    """What a kernel without identities is told."""
    if rule.group_dir[BEST_EFFORT] < 0:
        yield Wanted(best_effort, CPU_IDLE, "1")
    highest = max(rule.pod_by_kube_qos[GUARANTEED], rule.group_dir[BURSTABLE], 0)
    for pod, identity in pods:
        if identity is None or not pod.group or not pod.is_known or pod.kube_qos == BEST_EFFORT:
            continue
        of_siblings = rule.group_dir[BURSTABLE] if pod.kube_qos == BURSTABLE else highest
        if identity <= LOWEST:
            yield Wanted(pod.group, CPU_IDLE, "1")
        elif identity < of_siblings:
            shares = milli_to_shares(pod.requests.get(CPU, 0)) >> (of_siblings - identity)
            yield Wanted(pod.group, CPU_SHARES, str(max(shares, SHARES_MIN)))


def _rule(spec: Spec) -> Rule:
    lsr, ls, be = (_of_class(spec, name) for name in (LSR_CLASS, LS_CLASS, BE_CLASS))
    return rule_of(policy_of(spec, "cpuPolicy"), lsr=lsr, ls=ls, be=be)


def _of_class(spec: Spec, name: str) -> ClassRule:
    block: dict[str, Any] = block_of(spec, name, "cpuQOS")
    value = block.get("groupIdentity")
    return ClassRule(block.get("enable") is True, value if type(value) is int else 0)


def _is_on(spec: Spec) -> bool:
    return policy_of(spec, "cpuPolicy") in ("", POLICY) and _rule(spec).enabled


def _reads(snapshot: Snapshot, spec: Spec) -> tuple[Ref, ...]:
    if snapshot.node.driver is None:
        return ()
    best_effort = qos_dir(snapshot.node.driver, "BestEffort")
    return Ref(best_effort, BVT), Ref(SYSCTL, IDENTITY_ENABLED), Ref(SYSCTL, SCHED_CORE)


GROUP_IDENTITY: Final = Strategy(
    "group-identity",
    "enforce",
    decide,
    _is_on,
    needs=Needs(knobs=(BVT, CPU_IDLE, CPU_SHARES, IDENTITY_ENABLED, SCHED_CORE)),
    reads=_reads,
    is_steady=True,
)
