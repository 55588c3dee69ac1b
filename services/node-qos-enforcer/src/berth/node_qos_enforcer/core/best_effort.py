"""The best-effort part of one look: the target, what follows from it, and how the message reports it."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts.metrics import BestEffortCpu
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.node_qos_enforcer.core.plan import Held, Plan
from berth.node_qos_enforcer.core.sample import NodeSample
from berth.node_qos_enforcer.core.strategy import Strategy
from berth.node_qos_enforcer.core.suppress import HostApp, Pod, Target, skip_reason, suppress_target
from berth.rules.cpus.cpuset import format_cpuset

ALL_CPUS = "all"
"""What the message says for a group that is not held by a cpuset of its own."""


def capacity_milli(sample: NodeSample, facts: NodeFacts) -> int:
    """Return the node's CPU: as the cluster says, else what the machine has online."""
    return facts.capacity_milli if facts.capacity_milli is not None else sample.online_cpus * 1000


def target_of(
    sample: NodeSample,
    node_cores: float | None,
    pod_cores: Mapping[str, float],
    strategy: Strategy,
    facts: NodeFacts,
    application_cores: Mapping[str, float],
) -> tuple[Target | None, str]:
    """Compute the suppress target, or say why this round has none.

    The label of a pod is not seen from the node, so its Kubernetes QoS class decides; a pod labelled best-effort in
    another class counts as not best-effort, which makes the target smaller, never larger.
    """
    skipped = skip_reason(node_used_cores=node_cores, pods=len(sample.pods), pod_usages=len(pod_cores))
    if skipped or node_cores is None:
        return None, skipped
    target = suppress_target(
        capacity_milli=capacity_milli(sample, facts),
        allocatable_milli=facts.allocatable_milli,
        annotation_reserved_milli=facts.annotation_reserved_milli,
        node_used_cores=node_cores,
        pod_used_cores=pod_cores,
        pods=[Pod(pod.uid, kube_qos=pod.kube_qos) for pod in sample.pods],
        threshold_percent=strategy.threshold_percent,
        min_percent=strategy.min_percent,
        host_apps=[HostApp(each.name, each.is_best_effort) for each in sample.applications],
        host_app_used_cores=application_cores,
    )
    return target, ""


def message_of(strategy: Strategy, held: Held, plan: Plan, *, enforced: bool) -> BestEffortCpu:
    """Return what the node's message says of the best-effort group."""
    return BestEffortCpu(
        policy=strategy.policy if strategy.enabled else "",
        enforced=enforced,
        quota_us=held.quota_us,
        cpus=format_cpuset(held.cpus or ()),
        next_quota_us=plan.quota_us,
        next_cpus="" if plan.cpus is None else format_cpuset(plan.cpus) or ALL_CPUS,
        reason=plan.reason,
    )
