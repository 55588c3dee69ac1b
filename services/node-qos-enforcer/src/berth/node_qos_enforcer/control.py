"""Holds the best-effort group and lets go of it: its CFS quota and its CPUs.

Nothing outside of that group is ever written here, and no other file. Version 2 takes the CPUs at the top, since groups
below see what it leaves them. Version 1 wants every group within the one above: growth goes from the top down, then
shrinking from the bottom up. A group that vanishes on the way is nothing special.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from berth.contracts.base import Problem
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.plan import PERIOD_US, Held, Plan, release
from berth.node_qos_enforcer.executor import GONE, Executor
from berth.node_qos_enforcer.files import Unreadable
from berth.rules.cpus.cpuset import format_cpuset

QUOTA_V1, QUOTA_V2, CPUS = "cpu.cfs_quota_us", "cpu.max", "cpuset.cpus"
WRITABLE = frozenset({QUOTA_V1, QUOTA_V2, CPUS})
KERNEL_MIN_QUOTA_US = 1_000
GROUPS_MAX = 10_000
DEPTH_MAX = 8
ATTEMPTS = 3
"""How often a cpuset is written when a group that appeared meanwhile stands in the way."""


class Control:
    """Writes plans. What holds the group is read from the same files."""

    def __init__(self, executor: Executor) -> None:
        """Take who writes to files below the control-group root."""
        self._executor = executor
        self._tree = executor.tree

    @property
    def is_held(self) -> bool:
        """Whether this process or a former one has written to the group and not let go of it."""
        return self._executor.is_kept(_is_of_the_group)

    def let_go(self) -> tuple[Problem, ...]:
        """No quota, no CPUs of its own. Returns what could not be written.

        That is what a group has that nobody holds; what it had before may be what a former process held it to.
        """
        try:
            held = self.held()
        except (Malformed, Unreadable) as error:
            return (Problem(field="best_effort", message=str(error)[:300]),)
        problems = self.apply(release(held), held)
        if not problems:
            self._executor.forget(_is_of_the_group)
        return problems

    def held(self) -> Held:
        """Read what holds the best-effort group now. Raises Malformed, Unreadable."""
        layout = cgroups.detect_layout(self._tree)
        driver = cgroups.detect_driver(self._tree, layout)
        if driver is None:
            return Held()
        group, above = qos_dir(driver, "BestEffort"), qos_dir(driver, "Guaranteed")
        return Held(
            cgroups.read_bandwidth(self._tree, layout, group),
            cgroups.read_cpuset(self._tree, layout, group),
            cgroups.read_cpuset(self._tree, layout, above),
        )

    def apply(self, plan: Plan, held: Held) -> tuple[Problem, ...]:
        """Write a plan. Returns what could not be written; the other knob is written all the same."""
        problems: list[Problem] = []
        for field, value, write in (
            ("best_effort.quota", plan.quota_us, self._write_quota),
            ("best_effort.cpus", plan.cpus, self._write_cpus),
        ):
            if value is None:
                continue
            try:
                write(plan, held)
            except (OSError, Malformed, Unreadable) as error:
                problems.append(Problem(field=field, message=_sentence(error)))
        return tuple(problems)

    def _write_quota(self, plan: Plan, held: Held) -> None:
        layout, group = self._place()
        if layout.cpu is None or held.bandwidth is None or plan.quota_us is None:
            raise Malformed("cpu", "no quota to be had on this machine")
        period_us = held.bandwidth.period_us
        quota_us = plan.quota_us
        if quota_us != UNLIMITED:
            quota_us = max(quota_us * period_us // PERIOD_US, KERNEL_MIN_QUOTA_US)
        if layout.cpu.version == 1:
            self._write(layout.cpu, group, QUOTA_V1, str(quota_us))
        else:
            self._write(layout.cpu, group, QUOTA_V2, f"{'max' if quota_us == UNLIMITED else quota_us} {period_us}")

    def _write_cpus(self, plan: Plan, held: Held) -> None:
        layout, group = self._place()
        where = layout.cpuset
        if where is None or plan.cpus is None:
            raise Malformed("cpuset", "no cpuset to be had on this machine")
        if where.version == 2:
            self._write(where, group, CPUS, format_cpuset(plan.cpus))
            return
        cpus = plan.cpus or held.all_cpus
        if not cpus:
            raise Malformed(CPUS, "the CPUs of the group above are not known")
        for attempt in range(ATTEMPTS):
            try:
                self._write_levels(where, group, cpus)
                return
            except OSError as error:
                # A container that started meanwhile has the CPUs of before, and its parent cannot shrink below them.
                if error.errno != errno.EBUSY or attempt == ATTEMPTS - 1:
                    raise

    def _write_levels(self, where: cgroups.Controller, group: str, cpus: frozenset[int]) -> None:
        groups = self._groups(where, group)
        self._executor.note(where.path(each, CPUS) for each in groups)
        for each in groups:
            self._write_if(where, each, lambda old: old | cpus)
        for each in reversed(groups):
            self._write_if(where, each, lambda _: cpus)

    def _write_if(
        self, where: cgroups.Controller, group: str, wanted: Callable[[frozenset[int]], frozenset[int]]
    ) -> None:
        text = self._tree.read(where.path(group, CPUS))
        if text is None:
            return
        old = parse_cpuset(text, field=CPUS)
        new = wanted(old)
        if new == old:
            return
        try:
            self._write(where, group, CPUS, format_cpuset(new))
        except OSError as error:
            if error.errno not in GONE:
                raise

    def _groups(self, where: cgroups.Controller, top: str) -> list[str]:
        """Return the group and all below it, each after the one above it. Raises Unreadable when there are too many."""
        found = [top]
        for depth in range(DEPTH_MAX):
            level = [each for each in found if each.count("/") == top.count("/") + depth]
            for each in level:
                found += [f"{each}/{name}" for name in self._tree.directories(where.path(each))]
            if len(found) > GROUPS_MAX:
                raise Unreadable(top, f"more than {GROUPS_MAX} groups below it")
        return found

    def _place(self) -> tuple[cgroups.Layout, str]:
        layout = cgroups.detect_layout(self._tree)
        driver = cgroups.detect_driver(self._tree, layout)
        if driver is None:
            raise Malformed("kubepods", "kubelet's groups are not there")
        return layout, qos_dir(driver, "BestEffort")

    def _write(self, where: cgroups.Controller, group: str, file: str, text: str) -> None:
        """Write one knob. Whatever went wrong before: never outside of the best-effort group, never another file."""
        inside = any(f"{group}/".startswith(f"{top}/") for top in cgroups.BEST_EFFORT_DIRS)
        if not inside or ".." in group.split("/") or file not in WRITABLE:
            raise AssertionError(f"not ours to write: {group}/{file}")
        self._executor.write(where.path(group, file), text)


def _is_of_the_group(path: str) -> bool:
    """Whether it is a file that holds the group: its quota, its CPUs, or those of a group below it.

    `path` begins with the folder of the controller, where there is one.
    """
    group, _, file = f"/{path}".rpartition("/")
    tops = cgroups.BEST_EFFORT_DIRS
    if file in (QUOTA_V1, QUOTA_V2):
        return any(group.endswith(f"/{top}") for top in tops)
    return file == CPUS and any(f"/{top}/" in f"{group}/" for top in tops)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        reason = errno.errorcode.get(error.errno or 0, str(error))
        hint = "; writing needs root and a control-group root that is not mounted read-only"
        return f"cannot be written: {reason}{hint if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else ''}"
    return str(error)[:300]
