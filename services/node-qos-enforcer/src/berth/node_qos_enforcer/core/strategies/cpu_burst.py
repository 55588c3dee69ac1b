"""CPU burst: containers of services may use for a while what they have not used before, and more than their limit while
the shared CPUs are calm.

The kernel refuses a burst above the quota, so it is held to the quota that the limit is. What a container has above its
limit is a part of its quota, of which `core.compose` makes the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from berth.contracts.names import CPU
from berth.node_qos_enforcer.core.cgroup_files import Version, parse_cpu_usage_ns, parse_throttling
from berth.node_qos_enforcer.core.compose import base_quota
from berth.node_qos_enforcer.core.knob_texts import MAX, PERIOD_US
from berth.node_qos_enforcer.core.laws import cpu_burst as law
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.strategies.knobs import (
    CPU_BURST,
    CPU_QUOTA,
    CPU_STAT,
    CPU_USAGE,
    QUOTA_BURST,
)
from berth.node_qos_enforcer.core.strategies.node_slo import BURST
from berth.node_qos_enforcer.core.strategies.seam import (
    KEEP,
    Container,
    Decided,
    Needs,
    Pod,
    Ref,
    Snapshot,
    Spec,
    Strategy,
    Wanted,
)
from berth.rules.cpus.qos import LS

WINDOW_S: Final = 10.0
WINDOW_ROUNDS: Final = 5


class Counted(NamedTuple):
    """A container's counters at the last look, and its credit; None: none is kept of it."""

    at_s: float
    usage_ns: int
    periods: int
    throttled: int
    credit: int | None = None


class Busy(NamedTuple):
    """When, by the node, and by each pod by uid: cores."""

    at_s: float
    node_cores: float
    pod_cores: Mapping[str, float]


class Candidate(NamedTuple):
    """A container that may burst: by which rules, its quota without burst, and the files that tell what it has used."""

    container: Container
    config: Mapping[str, Any]
    policy: str
    base_us: int
    quota: Ref
    stat: Ref
    usage: Ref


class Rules(NamedTuple):
    """What follows from pods and specification alone, and what it was made of."""

    basis: tuple[object, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    wanted: tuple[Wanted, ...] = ()


class Memory(NamedTuple):
    """Counters by container id, what was used in the last rounds, and what stands while the pods are the same."""

    counted: Mapping[str, Counted] = {}
    busy: tuple[Busy, ...] = ()
    rules: Rules = Rules()


def reads(snapshot: Snapshot, spec: Spec) -> Iterable[Ref]:
    """Quota and counters of each container whose quota may be raised."""
    for pod, container in _candidates(snapshot):
        if law.merged(spec[BURST], pod.annotations.get(law.ANNOTATION)).get("policy") not in law.QUOTA_BURST:
            continue
        yield from (Ref(container.group, knob) for knob in (CPU_QUOTA, CPU_STAT, CPU_USAGE))


def decide(snapshot: Snapshot, spec: Spec, memory: Memory) -> Decided:
    """One round."""
    section = spec[BURST]
    busy = _busy(snapshot, memory)
    state = _state(busy, snapshot, int(section.get("sharePoolThresholdPercent", 50)))
    rules = _rules(snapshot, section, memory.rules)
    wanted: list[Wanted] = list(rules.wanted)
    counted: dict[str, Counted] = {}
    for each in rules.candidates:
        container = each.container
        now = _counted(snapshot, each)
        current_us = _quota(snapshot.found.get(each.quota, ""))
        if now is None or current_us is None:
            wanted.append(Wanted(container.group, QUOTA_BURST, KEEP))
            continue
        before = memory.counted.get(container.id)
        is_allowed, now = _allowed(snapshot, container, each.config, before, now)
        counted[container.id] = now
        done = law.operation(each.policy, state, throttled=_throttled(before, now), is_allowed=is_allowed)
        next_us = law.next_quota(done, each.base_us, current_us, each.config.get("cfsQuotaBurstPercent"))
        if next_us > each.base_us:
            wanted.append(Wanted(container.group, QUOTA_BURST, str(next_us)))
    return Decided(tuple(wanted), Memory(counted, busy, rules), facts={"shared_cpus": state})


def _rules(snapshot: Snapshot, section: Mapping[str, Any], before: Rules) -> Rules:
    """What the kernel is to allow by itself, and whose quota may be raised."""
    basis = (snapshot.pods, section, snapshot.node.facts.cpu_ratio)
    if basis == before.basis:
        return before
    wanted: list[Wanted] = []
    candidates: list[Candidate] = []
    bursts: dict[str, int] = {}
    for pod, container in _candidates(snapshot):
        config = law.merged(section, pod.annotations.get(law.ANNOTATION))
        policy = str(config.get("policy", "none"))
        base_us = base_quota(container, None, _ratio(snapshot, pod))
        burst_us = law.kernel_burst_us(container.limits.get(CPU), policy, config.get("cpuBurstPercent"))
        if burst_us:
            bursts[pod.group] = bursts.get(pod.group, 0) + min(burst_us, base_us)
            wanted.append(Wanted(container.group, CPU_BURST, str(min(burst_us, base_us))))
        if policy in law.QUOTA_BURST:
            refs = (Ref(container.group, knob) for knob in (CPU_QUOTA, CPU_STAT, CPU_USAGE))
            candidates.append(Candidate(container, config, policy, base_us, *refs))
    wanted += [Wanted(group, CPU_BURST, str(burst_us)) for group, burst_us in bursts.items()]
    return Rules(basis, tuple(candidates), tuple(wanted))


def _candidates(snapshot: Snapshot) -> Iterable[tuple[Pod, Container]]:
    for pod in snapshot.pods:
        if law.never_bursts(pod.qos) or not pod.is_known or not pod.group:
            continue
        for each in pod.containers:
            if each.group and each.is_running and each.limits.get(CPU, 0) > 0 and not each.is_pinned:
                yield pod, each


def _ratio(snapshot: Snapshot, pod: Pod) -> str | None:
    ratio = snapshot.node.facts.cpu_ratio
    return str(ratio) if ratio is not None and ratio > 1 and pod.qos in ("", LS) else None


def _busy(snapshot: Snapshot, memory: Memory) -> tuple[Busy, ...]:
    """Of the last rounds and this one; a round in which the node's use is not known adds none."""
    recent = tuple(each for each in memory.busy if snapshot.now_s - each.at_s <= WINDOW_S)
    usage = snapshot.usage
    if usage.node_cores is None:
        return recent
    return (*recent, Busy(snapshot.now_s, usage.node_cores, usage.pod_cores))[-WINDOW_ROUNDS:]


def _state(busy: tuple[Busy, ...], snapshot: Snapshot, threshold_percent: int) -> law.State:
    """How busy the shared CPUs are, by averages."""
    if not busy:
        return "Unknown"
    pods = []
    rounds = [each.pod_cores for each in busy]
    for each in snapshot.pods:
        if law.never_bursts(each.qos):
            uid = each.uid
            used = [cores_of[uid] for cores_of in rounds if uid in cores_of]
            cores = sum(used) / len(used) if used else None
            pods.append(law.PoolPod(each.qos, each.requests.get(CPU, 0), cores))
    node_cores = sum(each.node_cores for each in busy) / len(busy)
    return law.node_state(node_cores, len(snapshot.node.processors) or None, threshold_percent, pods)


def _counted(snapshot: Snapshot, candidate: Candidate) -> Counted | None:
    """The counters of a container; None: they cannot be read."""
    version: Version = 2 if snapshot.node.version == 2 else 1
    stat, usage = snapshot.found.get(candidate.stat), snapshot.found.get(candidate.usage)
    if stat is None or usage is None:
        return None
    try:
        read = parse_throttling(stat, version)
        return Counted(snapshot.now_s, parse_cpu_usage_ns(usage, version), read.periods, read.throttled)
    except Malformed:
        return None


def _throttled(before: Counted | None, now: Counted) -> float | None:
    if before is None or now.periods < before.periods or now.throttled < before.throttled:
        return None
    periods = now.periods - before.periods
    return (now.throttled - before.throttled) / periods if periods else 0.0


def _allowed(
    snapshot: Snapshot, container: Container, config: Mapping[str, Any], before: Counted | None, now: Counted
) -> tuple[bool, Counted]:
    """Whether a container's credit lets it burst. One that is new begins with up to half of what it may save."""
    period_s, percent = config.get("cfsQuotaBurstPeriodSeconds"), config.get("cfsQuotaBurstPercent")
    if period_s is None or period_s < 0:
        return True, now
    if percent is None or percent < 100:
        return False, now
    capacity = law.credit_capacity(period_s, percent)
    if before is None or before.credit is None:
        tokens = int(capacity / 2 * snapshot.chance)
        return tokens > 0, now._replace(credit=tokens)
    elapsed_s = now.at_s - before.at_s
    used_ns = max(now.usage_ns - before.usage_ns, 0)
    limit_ns = container.limits[CPU] / 1_000 * elapsed_s * 1e9
    usage_percent = int(used_ns * 100 / limit_ns) if limit_ns > 0 else 0
    credit = law.spent(period_s, percent, before.credit, round(elapsed_s), usage_percent)
    return credit.is_allowed, now._replace(credit=credit.tokens)


def _quota(text: str) -> int | None:
    """A quota in 100 ms, -1 for none."""
    words = text.split()
    if not words:
        return None
    try:
        if words[0] in (MAX, "-1"):
            return -1
        period_us = int(words[1]) if len(words) > 1 else PERIOD_US
        return int(words[0]) * PERIOD_US // period_us
    except (ValueError, ZeroDivisionError):
        return None


CPU_BURST_STRATEGY: Final = Strategy(
    "cpu-burst",
    "enforce",
    decide,
    # A pod's annotation may ask for it where the node does not.
    lambda _: True,
    needs=Needs(knobs=(CPU_QUOTA, CPU_BURST)),
    reads=reads,
    memory=Memory(),
)
