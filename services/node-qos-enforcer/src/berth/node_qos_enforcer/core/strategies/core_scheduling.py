"""Threads of different groups never run on the siblings of one core at a time: cookies of the kernel's core scheduling.

A group of pods shares a cookie; who has which is found out and given by `executor`, process by process.
"""

from __future__ import annotations

from typing import Final

from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.laws.core_scheduling import POLICY, ClassRule, Rule, group_of, rule_of
from berth.node_qos_enforcer.core.strategies.knobs import CORE_COOKIE, CPU_IDLE, IDENTITY_ENABLED, SCHED_CORE
from berth.node_qos_enforcer.core.strategies.node_slo import BE_CLASS, LS_CLASS, LSR_CLASS
from berth.node_qos_enforcer.core.strategies.seam import Decided, Needs, Ref, Snapshot, Spec, Strategy, Wanted
from berth.node_qos_enforcer.core.strategies.sections import block_of, policy_of
from berth.rules.cpus.qos import BEST_EFFORT, BURSTABLE

SYSCTL: Final = "sys/kernel"


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """Give each pod the group whose cookie its processes are to have, oldest pods first."""
    driver = snapshot.node.driver
    if driver is None:
        return Decided(skipped="no kubelet here")
    rule = _rule(spec)
    wanted: list[Wanted] = []
    # A kernel that has both takes one at a time, and has to let go of the other first.
    if Ref(SYSCTL, IDENTITY_ENABLED) in snapshot.found:
        wanted.append(Wanted(SYSCTL, IDENTITY_ENABLED, "0"))
    if Ref(SYSCTL, SCHED_CORE) in snapshot.found:
        wanted.append(Wanted(SYSCTL, SCHED_CORE, "1"))
    for kube_qos in (BURSTABLE, BEST_EFFORT):
        idle = rule.pod_by_kube_qos[kube_qos].cpu_idle
        wanted.append(Wanted(qos_dir(driver, kube_qos), CPU_IDLE, str(int(idle))))
    groups: set[str] = set()
    for pod in sorted(snapshot.pods, key=lambda pod: (pod.created, pod.uid)):
        group = group_of(rule, labels=pod.labels, kube_qos=pod.kube_qos, uid=pod.uid)
        if not pod.is_known or not group.enabled:
            continue
        groups.add(group.name)
        places = (*(each.group for each in pod.containers if each.is_running), pod.sandbox_group)
        wanted += [Wanted(place, CORE_COOKIE, group.name) for place in places if place]
    return Decided(tuple(wanted), facts={"groups": len(groups)})


def _rule(spec: Spec) -> Rule:
    lsr, ls, be = (_of_class(spec, name) for name in (LSR_CLASS, LS_CLASS, BE_CLASS))
    return rule_of(policy_of(spec, "cpuPolicy"), lsr=lsr, ls=ls, be=be)


def _of_class(spec: Spec, name: str) -> ClassRule:
    block = block_of(spec, name, "cpuQOS")
    return ClassRule(block.get("enable") is True, block.get("coreExpeller") is True, block.get("schedIdle") == 1)


def _is_on(spec: Spec) -> bool:
    return policy_of(spec, "cpuPolicy") == POLICY and _rule(spec).enabled


def _reads(snapshot: Snapshot, spec: Spec) -> tuple[Ref, ...]:
    return Ref(SYSCTL, IDENTITY_ENABLED), Ref(SYSCTL, SCHED_CORE)


CORE_SCHEDULING: Final = Strategy(
    "core-scheduling",
    "enforce-cores",
    decide,
    _is_on,
    needs=Needs(
        knobs=(CORE_COOKIE, CPU_IDLE, IDENTITY_ENABLED, SCHED_CORE), capabilities=("SYS_PTRACE",), host_pid=True
    ),
    reads=_reads,
    is_steady=True,
)
