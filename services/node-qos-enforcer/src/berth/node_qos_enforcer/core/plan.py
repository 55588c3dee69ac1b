"""What would be written to the best-effort group now: its CFS quota, its CPUs, or nothing.

One knob holds the group, by the strategy's policy; the other is let go of in the same round, so that a change of policy
leaves nothing behind. A round without a target, or without a view of the knob, leaves everything as it is. A strategy
that is switched off lets go of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED, Bandwidth
from berth.node_qos_enforcer.core.choose import choose_cpus
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.node_qos_enforcer.core.strategy import Strategy
from berth.node_qos_enforcer.core.suppress import quota_step
from berth.node_qos_enforcer.core.topology import Processor

PERIOD_US = 100_000
"""The period that quotas of the protocol are given for."""
ALL = frozenset[int]()
"""No CPUs of its own: the group may use whatever the group of all pods may."""


class Held(NamedTuple):
    """What holds the best-effort group now; None: not known, or not to be had on this machine.

    `cpus` are those that it may really use, `all_cpus` those of the group of all pods.
    """

    bandwidth: Bandwidth | None = None
    cpus: frozenset[int] | None = None
    all_cpus: frozenset[int] | None = None

    @property
    def quota_us(self) -> int | None:
        """Return the quota for the protocol's period."""
        if self.bandwidth is None or self.bandwidth.quota_us == UNLIMITED:
            return None if self.bandwidth is None else UNLIMITED
        return self.bandwidth.quota_us * PERIOD_US // self.bandwidth.period_us

    @property
    def has_all_cpus(self) -> bool:
        """Say whether the group is held by no cpuset, as far as is known."""
        return self.cpus is None or self.all_cpus is None or self.cpus == self.all_cpus


NOT_HELD = Held()


class Plan(NamedTuple):
    """What to write: a quota for `PERIOD_US` and CPUs (`ALL`: no cpuset of its own), None to leave; or why nothing."""

    quota_us: int | None = None
    cpus: frozenset[int] | None = None
    reason: str = ""

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing to write."""
        return self.quota_us is None and self.cpus is None


def release(held: Held, reason: str = "") -> Plan:
    """Plan to let go of the group: no quota, no CPUs of its own."""
    return Plan(
        quota_us=None if held.quota_us in (None, UNLIMITED) else UNLIMITED,
        cpus=None if held.has_all_cpus else ALL,
        reason=reason,
    )


def plan(
    strategy: Strategy,
    *,
    target_milli: int | None,
    skipped: str,
    held: Held,
    capacity_milli: int,
    facts: NodeFacts,
    processors: Sequence[Processor],
    lsr: frozenset[int] = ALL,
    lse: frozenset[int] = ALL,
) -> Plan:
    """Plan one round.

    Args:
        strategy: the rule in force.
        target_milli: what best-effort pods may use; None: not known in this round.
        skipped: why it is not known.
        held: what holds the group now.
        capacity_milli: CPU of the node.
        facts: which CPUs the cluster takes out of the best-effort group's reach.
        processors: the CPUs that are online.
        lsr: CPUs of pods of class LSR, of which best-effort pods get their part.
        lse: CPUs of pods of class LSE, which they never get.
    """
    if not strategy.enabled:
        return release(held, "the strategy is switched off")
    if target_milli is None:
        return Plan(reason=skipped)
    if strategy.policy == "cfsQuota":
        return _by_quota(target_milli, held, capacity_milli, facts, lse)
    return _by_cpuset(target_milli, held, facts, processors, lsr, lse)


def _by_quota(target_milli: int, held: Held, capacity_milli: int, facts: NodeFacts, lse: frozenset[int]) -> Plan:
    if held.quota_us is None:
        return Plan(reason="the best-effort group has no CFS quota on this machine")
    step = quota_step(
        target_milli=target_milli,
        current_quota_us=held.quota_us,
        node_cores=capacity_milli // 1000,
    )
    step = None if step == held.quota_us else step
    return Plan(step, _unheld(held, facts, lse), "" if step is not None else "the quota in force is close enough")


def _unheld(held: Held, facts: NodeFacts, lse: frozenset[int]) -> frozenset[int] | None:
    """Give the CPUs of a group that is held by its quota: all but those the cluster keeps from it; None if it has."""
    if held.cpus is None or held.all_cpus is None:
        return None
    allowed = held.all_cpus - facts.reserved_cpus - facts.system_cpus - lse
    if held.cpus == allowed or not allowed:
        return None
    return ALL if allowed == held.all_cpus else allowed


def _by_cpuset(
    target_milli: int,
    held: Held,
    facts: NodeFacts,
    processors: Sequence[Processor],
    lsr: frozenset[int],
    lse: frozenset[int],
) -> Plan:
    if held.cpus is None:
        return Plan(reason="the best-effort group has no cpuset on this machine")
    within = held.all_cpus
    chosen = frozenset(
        choose_cpus(
            target_milli=target_milli,
            processors=[row for row in processors if within is None or row.cpu in within],
            current=held.cpus,
            reserved=facts.reserved_cpus,
            exclusive_system=facts.system_cpus,
            lsr=lsr,
            lse=lse,
        )
    )
    lifted = UNLIMITED if held.quota_us not in (None, UNLIMITED) else None
    if not chosen:
        return Plan(lifted, None, "too few CPUs are left to choose from")
    if chosen == held.cpus:
        return Plan(lifted, None, "the CPUs in force are the right ones")
    return Plan(lifted, ALL if chosen == within else chosen)
