"""Takes one look at the node: /proc, /sys and the control groups of kubelet's pods.

A file that is gone is nothing special; one that cannot be read or parsed becomes a problem of the sample, and the
rest is read all the same. Blocking, so that it runs in a thread. Between two looks nothing is kept but descriptors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from berth.contracts.base import Problem
from berth.node_qos_enforcer import cgroups, machine
from berth.node_qos_enforcer.core.cgroup_paths import KUBE_QOS, Driver, KubeQos, pod_uid_of, qos_dir
from berth.node_qos_enforcer.core.laws.cold_memory import HOT_CACHE, WITH_CACHE
from berth.node_qos_enforcer.core.laws.host_applications import HostApplication
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.measure import PRESSURE_NAMES
from berth.node_qos_enforcer.core.plan import Held
from berth.node_qos_enforcer.core.pressure import StallPair, parse_pressure
from berth.node_qos_enforcer.core.proc import MemInfo, parse_cpu_ticks, parse_meminfo
from berth.node_qos_enforcer.core.sample import RESOURCES, ApplicationSample, GroupSample, NodeSample, PodSample
from berth.node_qos_enforcer.core.usage import Reading
from berth.node_qos_enforcer.files import FileTree, Unreadable
from berth.node_qos_enforcer.kept_files import KeptFiles

MAX_PODS = 2_000
MAX_PROBLEMS = 50

T = TypeVar("T")


class Trees(NamedTuple):
    """Where to read: /proc, /sys, and the control-group root."""

    proc: FileTree
    sys: FileTree
    cgroup: FileTree


class _Pass:
    """One pass over the files, with what went wrong on the way."""

    def __init__(
        self, trees: Trees, monotonic: Callable[[], float], clock_ticks_per_s: int, kept: KeptFiles | None
    ) -> None:
        self.trees = trees
        self.kept = kept
        self.monotonic = monotonic
        self.clock_ticks_per_s = clock_ticks_per_s
        self.policy = ""
        self.problems: list[Problem] = []
        self.vanished = 0

    def attempt(self, field: str, read: Callable[[], T | None]) -> T | None:
        """Read one thing; what is wrong with it becomes a problem named by its field."""
        try:
            return read()
        except (Malformed, Unreadable) as error:
            self.report(field, str(error))
            return None

    def report(self, field: str, message: str) -> None:
        """Note a problem; a machine full of odd files must not make an endless message."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(field=field, message=message[:300]))

    def node_cpu(self) -> Reading | None:
        text = self.trees.proc.read("stat")
        if text is None:
            raise Malformed("/proc/stat", "not there")
        at = self.monotonic()
        return Reading(parse_cpu_ticks(text) * 1_000_000_000 // self.clock_ticks_per_s, at)

    def node_memory(self) -> MemInfo | None:
        text = self.trees.proc.read("meminfo")
        if text is None:
            raise Malformed("/proc/meminfo", "not there")
        return parse_meminfo(text)

    def choose(self, layout: cgroups.Layout, policy: str) -> int:
        """Take the policy, if it can be followed. Returns how much of the node's memory nobody touches."""
        if policy == WITH_CACHE:
            self.policy = policy
        if policy != HOT_CACHE:
            return 0
        idle = self.attempt("memory_policy", lambda: cgroups.read_idle_pages(self.trees.cgroup.read, layout, ""))
        self.policy = "" if idle is None else policy
        return 0 if idle is None else idle.cold_bytes

    def node_pressure(self) -> dict[str, StallPair]:
        """Read the node's pressure."""
        found = {
            resource: self._pressure(self.trees.proc, f"pressure/{resource}", f"{resource}_pressure")
            for resource in RESOURCES
        }
        return {resource: stalls for resource, stalls in found.items() if stalls is not None}

    def group_pressure(self, layout: cgroups.Layout, name: str, group: str) -> dict[str, StallPair]:
        """Read the pressure on a group; control groups of version 1 have none."""
        found: dict[str, StallPair] = {}
        for resource in RESOURCES:
            path = cgroups.pressure_path(layout, group, resource)
            field = f"pressure_by_group[{name}].{resource}"
            stalls = None if path is None else self._pressure(self.trees.cgroup, path, field)
            if stalls is not None:
                found[resource] = stalls
        return found

    def _pressure(self, tree: FileTree, path: str, field: str) -> StallPair | None:
        """Read one pressure file; a kernel without pressure has no such file, or refuses to read it."""
        try:
            text = tree.read(path)
            return None if text is None else parse_pressure(text, file=path)
        except Unreadable as error:
            if error.reason != "EOPNOTSUPP":
                self.report(field, str(error))
        except Malformed as error:
            self.report(field, str(error))
        return None

    def class_group(self, layout: cgroups.Layout, qos: KubeQos, path: str, with_pressure: bool) -> GroupSample:
        """Read the group of a QoS class."""
        found = self.group(layout, f"by_qos[{qos}]", path)
        return (
            replace(found, pressure=self.group_pressure(layout, PRESSURE_NAMES[qos], path)) if with_pressure else found
        )

    def held(self, layout: cgroups.Layout, driver: Driver) -> Held:
        """Read what holds the best-effort group."""
        tree, group, above = self.trees.cgroup, qos_dir(driver, "BestEffort"), qos_dir(driver, "Guaranteed")
        return Held(
            self.attempt("best_effort.quota", lambda: cgroups.read_bandwidth(tree, layout, group)),
            self.attempt("best_effort.cpus", lambda: cgroups.read_cpuset(tree, layout, group)),
            self.attempt("best_effort.cpus", lambda: cgroups.read_cpuset(tree, layout, above)),
        )

    def group(self, layout: cgroups.Layout, field: str, path: str, *, incarnation: int | None = None) -> GroupSample:
        """Read the use of a group. `incarnation` None: it is asked for."""
        if incarnation is None and layout.cpuacct is not None:
            where = layout.cpuacct.path(path)
            incarnation = self.attempt(f"{field}.cpu", lambda: self.trees.cgroup.incarnation(where))
        if incarnation is None:
            return GroupSample(memory_bytes=self._memory(layout, field, path, self.trees.cgroup.read))
        read = self.trees.cgroup.read if self.kept is None else partial(self.kept.read, incarnation=incarnation)
        cpu: Reading | None = None
        try:
            used_ns = cgroups.read_cpu_usage_ns(read, layout, path)
            if used_ns is not None:
                cpu = Reading(used_ns, self.monotonic(), incarnation)
        except (Malformed, Unreadable) as error:
            self.report(f"{field}.cpu", str(error))
        return GroupSample(cpu=cpu, memory_bytes=self._memory(layout, field, path, read))

    def _memory(self, layout: cgroups.Layout, field: str, path: str, read: cgroups.Read) -> int | None:
        try:
            return cgroups.read_memory(read, layout, path, self.policy)
        except (Malformed, Unreadable) as error:
            self.report(f"{field}.memory", str(error))
            return None

    def _directories(self, layout: cgroups.Layout, group: str) -> list[tuple[str, int]]:
        where = layout.cpuacct or layout.memory
        if where is None:
            return []
        return self.attempt("pods", lambda: self.trees.cgroup.incarnations(where.path(group))) or []

    def application(self, layout: cgroups.Layout, app: HostApplication) -> ApplicationSample:
        """Read the group of an application. One that is not there counts as the system's."""
        group = self.group(layout, f"hostApplications[{app.name[:64]}]", app.group)
        return ApplicationSample(
            name=app.name,
            is_best_effort=app.is_best_effort,
            group=group,
            qos=app.qos,
            priority_class=app.priority_class,
        )

    def pods(self, layout: cgroups.Layout, driver: Driver) -> list[PodSample]:
        found: list[PodSample] = []
        seen: set[str] = set()
        for qos in KUBE_QOS:
            base = qos_dir(driver, qos)
            for name, incarnation in self._directories(layout, base):
                uid = pod_uid_of(driver, name)
                if uid is None:
                    continue
                if len(found) >= MAX_PODS:
                    self.report("pods", f"more than {MAX_PODS} pods; the others are not measured")
                    return found
                if uid in seen:
                    self.report("pods", f"pod {uid[:64]} has two directories; only the first is measured")
                    continue
                seen.add(uid)
                group = self.group(layout, f"pods[{uid[:64]}]", f"{base}/{name}", incarnation=incarnation)
                if group.cpu is None and group.memory_bytes is None:
                    self.vanished += 1
                    continue
                found.append(PodSample(uid=uid, kube_qos=qos, group=group))
        return found


def take_sample(
    trees: Trees,
    *,
    monotonic: Callable[[], float],
    clock_ticks_per_s: int = 100,
    applications: Callable[[Driver], Iterable[HostApplication]] = lambda _: (),
    kept: KeptFiles | None = None,
    with_pressure: bool = True,
    memory_policy: str = "",
) -> NodeSample:
    """Look at the node once.

    Args:
        trees: where to read.
        monotonic: the clock that counters are stamped with, seconds.
        clock_ticks_per_s: unit of the ticks in /proc/stat.
        applications: the node's applications outside of pods.
        kept: control groups whose files stay open between two looks; None: nothing does.
        with_pressure: read it, which takes as many files again.
        memory_policy: which memory counts as used (`cold_memory`); where idle pages cannot be told from others, that
            without page cache.
    """
    look = _Pass(trees, monotonic, clock_ticks_per_s, kept)
    cpu = look.attempt("node_usage.cpu", look.node_cpu)
    memory = look.attempt("node_usage.memory", look.node_memory)
    online = look.attempt("cpu_total", lambda: machine.read_online_cpus(trees.sys))
    layout = look.attempt("cgroup_version", lambda: cgroups.detect_layout(trees.cgroup)) or cgroups.Layout("none")
    driver: Driver | None = look.attempt("cgroup_driver", lambda: cgroups.detect_driver(trees.cgroup, layout))
    cold_bytes = look.choose(layout, memory_policy)
    groups: dict[KubeQos, GroupSample] = {}
    pods: list[PodSample] = []
    held = Held()
    outside: tuple[ApplicationSample, ...] = ()
    if driver is not None:
        pods = look.pods(layout, driver)
        groups = {qos: look.class_group(layout, qos, qos_dir(driver, qos), with_pressure) for qos in KUBE_QOS}
        held = look.held(layout, driver)
        outside = tuple(look.application(layout, each) for each in applications(driver))
    return NodeSample(
        cpu=cpu,
        memory=memory,
        pressure=look.node_pressure() if with_pressure else {},
        online_cpus=len(online or ()),
        cgroup_version=layout.version,
        driver=driver,
        groups=groups,
        pods=tuple(pods),
        best_effort=held,
        applications=outside,
        vanished=look.vanished,
        problems=tuple(look.problems),
        memory_policy=look.policy,
        cold_bytes=cold_bytes,
    )
