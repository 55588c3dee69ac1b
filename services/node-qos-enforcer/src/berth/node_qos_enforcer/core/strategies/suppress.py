"""Best-effort pods get the CPU that others leave below a threshold: by the quota of their group, or by its CPUs.

The arithmetic is in `core.suppress` and `core.choose`, what follows from a target in `core.plan`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core import suppress
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.laws.host_applications import HostApplication
from berth.node_qos_enforcer.core.plan import Held, Plan, plan
from berth.node_qos_enforcer.core.strategies.knobs import CPU_QUOTA, CPUSET
from berth.node_qos_enforcer.core.strategies.node_slo import THRESHOLD
from berth.node_qos_enforcer.core.strategies.outside import applications_of
from berth.node_qos_enforcer.core.strategies.seam import Decided, Needs, Node, Pod, Snapshot, Spec, Strategy, Wanted
from berth.node_qos_enforcer.core.strategy import Strategy as Rule
from berth.node_qos_enforcer.core.strategy import rule_of
from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset
from berth.rules.cpus.qos import LSE, LSR
from berth.rules.cpus.resource_status import read_resource_status


class Memory(msgspec.Struct, frozen=True):
    """What was wanted last: what a plan leaves out stays."""

    quota: str | None = None
    cpus: str | None = None


def decide(snapshot: Snapshot, spec: Spec, memory: Memory) -> Decided:
    """Hold the best-effort group to what the others leave."""
    rule = rule_of(spec.get(THRESHOLD, {}))
    if isinstance(rule, Problem):
        return Decided(memory=memory, reports=(rule,), skipped=rule.field)
    node = snapshot.node
    if node.driver is None:
        return Decided(memory=memory, skipped="no kubelet here")
    applications, problems = applications_of(spec, node.driver)
    target, skipped = target_of(snapshot, rule, applications)
    found = plan(
        rule,
        target_milli=None if target is None else target.target_milli,
        skipped=skipped,
        held=Held(node.bandwidth, node.best_effort_cpus, node.all_cpus),
        capacity_milli=node.capacity_milli,
        facts=node.facts,
        processors=node.processors,
        lsr=cpus_of(snapshot.pods, LSR),
        lse=cpus_of(snapshot.pods, LSE),
    )
    if not rule.enabled:
        # What a killed process without a journal held is let go of as well. Held by nothing, nothing is wanted.
        return Decided(_wanted(node, _laid_over(Memory(), found)), Memory())
    if target is None:
        return Decided(memory=memory, skipped=skipped)
    memory = _laid_over(memory, found)
    facts: dict[str, int | float | str] = {name: int(value) for name, value in target._asdict().items()}
    return Decided(_wanted(node, memory), memory, problems, facts=facts)


def target_of(
    snapshot: Snapshot, rule: Rule, applications: Iterable[HostApplication] = ()
) -> tuple[suppress.Target | None, str]:
    """The target, or why there is none in this round."""
    usage, facts = snapshot.usage, snapshot.node.facts
    skipped = suppress.skip_reason(
        node_used_cores=usage.node_cores, pods=len(snapshot.pods), pod_usages=len(usage.pod_cores)
    )
    if skipped or usage.node_cores is None:
        return None, skipped
    target = suppress.suppress_target(
        capacity_milli=snapshot.node.capacity_milli,
        allocatable_milli=facts.allocatable_milli,
        annotation_reserved_milli=facts.annotation_reserved_milli,
        node_used_cores=usage.node_cores,
        pod_used_cores=usage.pod_cores,
        pods=[suppress.Pod(each.uid, each.qos, each.kube_qos) for each in snapshot.pods],
        threshold_percent=rule.threshold_percent,
        min_percent=rule.min_percent,
        host_apps=[suppress.HostApp(each.name, each.is_best_effort) for each in applications],
        host_app_used_cores=usage.application_cores,
    )
    return target, ""


def cpus_of(pods: tuple[Pod, ...], qos: str) -> frozenset[int]:
    """The CPUs that pods of a class have for themselves. A record that cannot be read gives none."""
    records = (read_resource_status(each.annotations) for each in pods if each.qos == qos)
    return NO_CPUS.union(*(each.cpus for each in records if not isinstance(each, Problem)))


def _laid_over(memory: Memory, found: Plan) -> Memory:
    quota, cpus = memory.quota, memory.cpus
    if found.quota_us is not None:
        quota = "max" if found.quota_us == UNLIMITED else str(found.quota_us)
    if found.cpus is not None:
        cpus = format_cpuset(found.cpus)
    return Memory(quota, cpus)


def _wanted(node: Node, memory: Memory) -> tuple[Wanted, ...]:
    """The group's own files. On version 1 the groups below it have CPUs of their own, which have to lie within."""
    if node.driver is None:
        return ()
    group = qos_dir(node.driver, "BestEffort")
    wanted = [Wanted(group, CPU_QUOTA, memory.quota)] if memory.quota is not None else []
    if memory.cpus is not None and node.version == 2:
        wanted.append(Wanted(group, CPUSET, memory.cpus))
    elif memory.cpus is not None and (cpus := memory.cpus or format_cpuset(node.all_cpus or ())):
        wanted += [Wanted(each, CPUSET, cpus) for each in (group, *node.below_best_effort)]
    return tuple(wanted)


SUPPRESS: Final = Strategy(
    "suppress", "enforce", decide, lambda _: True, needs=Needs(knobs=(CPU_QUOTA, CPUSET)), memory=Memory()
)
