"""The pods and containers of the node as the runtime reports them, and whose limits are to be changed.

Nothing else is kept than what the runtime has reported: after a reconnection its whole state replaces what was known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.inside.cpus import AS_IT_IS, Wanted, wanted_limits, with_batch_limits
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.running import ContainerNow, PodNow
from berth.node_qos_enforcer.core.inside.seen import ContainerSeen, Limits, PodSeen
from berth.nri.core.adjusting import Resources, Update
from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset, read_cpuset
from berth.rules.cpus.kubelet import NodePod, kubelet_allocations
from berth.rules.cpus.qos import LSE
from berth.rules.cpus.resource_status import FIELD
from berth.rules.cpus.shared_pools import SharedPools, shared_pools

RETRY_S: Final = 10.0
"""After a refused update: the container may be starting or ending."""


@dataclass(slots=True)
class _Known:
    """A container. `base` is what kubelet asked for, None while that is not known; `limits` what the runtime has.

    `is_latest`: kubelet has asked for nothing else since. `before` is what is given back. `right` is what it was when
    nothing was to be changed about it.
    """

    id: str
    pod_id: str
    name: str
    limits: Limits
    base: Limits | None
    is_latest: bool
    before: Limits | None
    runs: bool
    retry_at_s: float = 0.0
    right: _Right | None = None


class _Right(NamedTuple):
    """All that the limits of one container follow from, but for what all have in common: `common` is its number.

    Values are compared as objects, since each change brings new ones.
    """

    common: int
    pod: PodSeen
    limits: Limits
    base: Limits | None
    is_latest: bool

    def holds(self, common: int, pod: PodSeen, known: _Known) -> bool:
        """Whether all is as it was."""
        return (
            self.common == common
            and self.pod is pod
            and self.limits is known.limits
            and self.base is known.base
            and self.is_latest == known.is_latest
        )


class Board:
    """Pods by the id of their sandbox, containers by their own."""

    def __init__(self) -> None:
        """Nothing is known."""
        self.pods: dict[str, PodSeen] = {}
        self.is_known = False
        """Whether the runtime has reported its whole state."""
        self.version = 0
        """Grows with every change that may concern the limits of containers."""
        self._containers: dict[str, _Known] = {}
        self._common: tuple[int, InsideFacts, SharedPools] | None = None
        self._now: dict[str, PodNow] | None = None
        self._coming: tuple[list[tuple[PodSeen, bool]], list[ContainerSeen]] = ([], [])

    def __len__(self) -> int:
        """How many containers there are."""
        return len(self._containers)

    def disconnected(self) -> None:
        """Containers may begin and end unseen from here on; what is known stays until the next state is reported."""
        self._coming = ([], [])

    def hear(
        self, pods: Iterable[tuple[PodSeen, bool]], containers: Iterable[ContainerSeen], *, more: bool
    ) -> list[ContainerSeen] | None:
        """Take a part of the runtime's state, each pod with whether its sandbox runs. All containers of a whole state.

        A sandbox that does not run and has no container has ended, and holds nothing any more.
        """
        coming_pods, coming = self._coming
        coming_pods += pods
        coming += (each for each in containers if not each.is_over)
        if more:
            return None
        self._coming = ([], [])
        used = {each.pod_id for each in coming}
        says_runs = any(runs for _, runs in coming_pods)
        self.pods = {pod.id: pod for pod, runs in coming_pods if runs or not says_runs or pod.id in used}
        self._containers = {each.id: _known(each) for each in coming}
        self.is_known = True
        self.version += 1
        self._now = None
        return coming

    def begin(self, pod: PodSeen) -> None:
        """A pod is there."""
        if self.pods.get(pod.id) != pod:
            self.pods[pod.id] = pod
            self.version += 1
            self._now = None

    def end(self, pod_id: str) -> None:
        """A pod has ended: its CPUs are free, its containers are no more."""
        if self.pods.pop(pod_id, None) is not None:
            self.version += 1
        for each in [each for each in self._containers.values() if each.pod_id == pod_id]:
            del self._containers[each.id]
        self._now = None

    def create(self, container: ContainerSeen, wanted: Wanted) -> None:
        """A container is being created with these limits. It cannot be updated before it runs."""
        limits = _changed(container.limits, wanted)
        self._containers[container.id] = _Known(
            container.id, container.pod_id, container.name, limits, container.limits, True, container.limits, False
        )
        self._now = None

    def start(self, container_id: str) -> None:
        """It runs: pools may have changed since it was created."""
        known = self._containers.get(container_id)
        if known is not None:
            known.runs = True
            self.version += 1
            self._now = None

    def remove(self, container_id: str) -> None:
        """It has stopped or is gone."""
        self._containers.pop(container_id, None)
        self._now = None

    def resized(self, container_id: str, asked: Limits) -> Limits:
        """Kubelet asks for other limits; those that are its word from here on. What it leaves out stays."""
        known = self._containers.get(container_id)
        if known is None:
            return asked
        known.base, known.is_latest = _laid_over(known.base or Limits(), asked), asked.quota_us is not None
        known.limits = _laid_over(known.limits, asked)
        self._now = None
        return known.base

    def has(self, container_id: str) -> bool:
        """Whether there is such a container."""
        return container_id in self._containers

    def id_of(self, pod_id: str, name: str) -> str:
        """The id of a pod's container; empty: there is none of that name."""
        return next((each.id for each in self._containers.values() if (each.pod_id, each.name) == (pod_id, name)), "")

    def now(self) -> Mapping[str, PodNow]:
        """Every pod with its containers, by uid, for who writes into their groups; another object after each change."""
        if self._now is None:
            self._now = self._pods_now()
        return self._now

    def _pods_now(self) -> dict[str, PodNow]:
        by_pod: dict[str, list[ContainerNow]] = {}
        for each in self._containers.values():
            by_pod.setdefault(each.pod_id, []).append(ContainerNow(each.id, each.name, each.base, each.runs))
        return {pod.uid: PodNow(pod, tuple(by_pod.get(pod.id, ()))) for pod in self.pods.values()}

    def pools(self, facts: InsideFacts) -> SharedPools:
        """The CPUs that pods without CPUs of their own share, with the pods that are there now."""
        pods = self._node_pods()
        return shared_pools(
            facts.layout,
            kubelet=kubelet_allocations(facts.checkpoint, pods, facts.held),
            pods=pods,
            reserved=facts.node.reserved_cpus,
            system=facts.node.system_cpus,
        )

    def exclusive(self, facts: InsideFacts) -> frozenset[int]:
        """CPUs that not even best-effort pods may use: those of pods of class LSE, and what kubelet has given out."""
        pods = self._node_pods()
        own = NO_CPUS.union(*(each.cpus for each in pods if each.qos == LSE))
        return own.union(*(each.cpus for each in kubelet_allocations(facts.checkpoint, pods, facts.held)))

    def updates(self, facts: InsideFacts, pools: SharedPools, now_s: float) -> list[Update]:
        """What is to be changed about running containers. `now_s` is monotonic.

        One of which nothing was to be changed is looked at again when something it follows from is new.
        """
        found = []
        common = self._number_of(facts, pools)
        for known in self._containers.values():
            pod = self.pods.get(known.pod_id)
            if pod is None or not known.runs or known.retry_at_s > now_s:
                continue
            if known.right is not None and known.right.holds(common, pod, known):
                continue
            wanted = (
                self._given_back(known, pod, pools, facts) if facts.gives_back else _wanted(known, pod, pools, facts)
            )
            resources = _difference(known.limits, wanted)
            if resources != Resources():
                known.right = None
                found.append(Update(known.id, resources))
            else:
                known.right = _Right(common, pod, known.limits, known.base, known.is_latest)
        return found

    def pushed(self, updates: Iterable[Update], failed: Iterable[str], now_s: float) -> list[tuple[str, str]]:
        """The runtime has taken these updates but for those that failed; pod and name of the containers of these."""
        refused = frozenset(failed)
        found = []
        for update in updates:
            known = self._containers.get(update.container_id)
            if known is None:
                continue
            if known.id in refused:
                known.retry_at_s = now_s + RETRY_S
                found.append((known.pod_id, known.name))
            else:
                given = update.resources
                wanted = Wanted(
                    given.cpus, given.cpu_quota_us, cpu_shares=given.cpu_shares, memory_limit=given.memory_limit
                )
                known.limits, known.retry_at_s = _changed(known.limits, wanted), 0.0
        return found

    def corrected(self, updates: Iterable[Update]) -> dict[str, tuple[str, str, Problem]]:
        """Which of these updates give a container the CPUs of its pod that it began without, by its id: pod, name and
        what is to be said. Ask before they are pushed."""
        found: dict[str, tuple[str, str, Problem]] = {}
        for update in updates:
            known, cpus = self._containers.get(update.container_id), update.resources.cpus
            pod = self.pods.get(known.pod_id) if known is not None else None
            if known is None or pod is None or cpus is None or known.before is not None or not _cpus_of(pod):
                continue
            was = f"CPUs {known.limits.cpus[:60]}" if known.limits.cpus else "all CPUs"
            message = f"began with {was}, and has its own, {cpus[:60]}, now"
            problem = Problem(field=f"{pod.key}.containers[{known.name}]", message=message)
            found[known.id] = (pod.id, known.name, problem)
        return found

    def shared_twice(self) -> Mapping[str, Problem]:
        """Pods, by sandbox, whose own CPUs are those of another pod as well; the one reported first is right."""
        holder: dict[int, PodSeen] = {}
        found: dict[str, Problem] = {}
        for pod in self.pods.values():
            for cpu in sorted(_cpus_of(pod)):
                other = holder.setdefault(cpu, pod)
                if other.uid != pod.uid:
                    cpus = format_cpuset(_cpus_of(pod) & _cpus_of(other))[:60]
                    message = f"CPUs {cpus} are those of {other.namespace}/{other.name} as well"
                    found[pod.id] = Problem(field=f"{pod.key}.{FIELD}.cpuset", message=message)
                    break
        return found

    def _number_of(self, facts: InsideFacts, pools: SharedPools) -> int:
        """Another number than before when what all containers have in common is new."""
        if self._common is None or self._common[1] != facts or self._common[2] != pools:
            self._common = (self._common[0] + 1 if self._common is not None else 0, facts, pools)
        return self._common[0]

    def _node_pods(self) -> list[NodePod]:
        return [NodePod(each.uid, each.qos, _cpus_of(each), each.namespace, each.name) for each in self.pods.values()]

    def _given_back(self, known: _Known, pod: PodSeen, pools: SharedPools, facts: InsideFacts) -> Wanted:
        """What it had before us: by its own word where it has one, else all CPUs if we would have given it some."""
        held = replace(facts, gives_back=False)
        every = format_cpuset(facts.layout.all) or None
        before = known.before
        if before is not None:
            found = Wanted(before.cpus or every, before.quota_us if before.is_limited else None)
            return _batch_given_back(known, before, found, with_batch_limits(AS_IT_IS, pod, known.name, held))
        ours = _wanted(known, pod, pools, held)
        return Wanted(every if ours.cpus is not None else None)


def _laid_over(limits: Limits, asked: Limits) -> Limits:
    return Limits(
        asked.cpus or limits.cpus,
        limits.quota_us if asked.quota_us is None else asked.quota_us,
        asked.cpu_shares or limits.cpu_shares,
        asked.memory_limit or limits.memory_limit,
    )


def _known(seen: ContainerSeen) -> _Known:
    return _Known(seen.id, seen.pod_id, seen.name, seen.limits, seen.before, False, seen.before, seen.runs)


def _wanted(known: _Known, pod: PodSeen, pools: SharedPools, facts: InsideFacts) -> Wanted:
    """A quota that was scaled goes back to kubelet's when it is to be scaled no more. What kubelet asked for is not
    always known: it may have changed its mind while nobody listened, and then its latest word stays.

    A limit of memory is not changed here: the runtime refuses one below what is used, and all else with it. Who writes
    into control groups does that.
    """
    base = known.base or Limits()
    scaled = wanted_limits(pod, base, pools, facts)
    wanted = with_batch_limits(scaled, pod, known.name, facts)._replace(memory_limit=None)
    if wanted.quota_us is not None and (wanted.quota_us < 0 or wanted.quota_us != scaled.quota_us):
        return wanted
    if not known.is_latest and known.limits.quota_us not in (base.quota_us, wanted.quota_us):
        return wanted._replace(quota_us=None)
    return wanted if wanted.quota_us is not None or not base.is_limited else wanted._replace(quota_us=base.quota_us)


def _batch_given_back(known: _Known, before: Limits, found: Wanted, ours: Wanted) -> Wanted:
    """The same with limits of batch resources, where the container still has them: kubelet knows nothing of these."""
    limits = known.limits
    if ours.quota_us is not None and ours.quota_us == limits.quota_us and not before.is_limited:
        found = found._replace(quota_us=UNLIMITED)
    if ours.cpu_shares is not None and ours.cpu_shares == limits.cpu_shares:
        found = found._replace(cpu_shares=before.cpu_shares)
    if ours.memory_limit is not None and ours.memory_limit == limits.memory_limit:
        found = found._replace(memory_limit=before.memory_limit or UNLIMITED)
    return found


def _cpus_of(pod: PodSeen) -> frozenset[int]:
    return NO_CPUS if isinstance(pod.status, Problem) else pod.status.cpus


def _changed(limits: Limits, wanted: Wanted) -> Limits:
    return Limits(
        wanted.cpus or limits.cpus,
        limits.quota_us if wanted.quota_us is None else wanted.quota_us,
        limits.cpu_shares if wanted.cpu_shares is None else wanted.cpu_shares,
        limits.memory_limit if wanted.memory_limit is None else wanted.memory_limit,
    )


def _difference(limits: Limits, wanted: Wanted) -> Resources:
    cpus, quota_us = wanted.cpus, wanted.quota_us
    if cpus is not None and read_cpuset(cpus, "") == read_cpuset(limits.cpus, ""):
        cpus = None
    if quota_us is not None and (quota_us == limits.quota_us or (quota_us < 0 and not limits.is_limited)):
        quota_us = None
    shares, memory = wanted.cpu_shares, wanted.memory_limit
    return Resources(
        cpus=cpus,
        cpu_quota_us=quota_us,
        cpu_shares=None if shares == limits.cpu_shares else shares,
        memory_limit=None if memory == limits.memory_limit else memory,
    )
