"""Gives everything back: what files had before the first write, byte for byte."""

from __future__ import annotations

from berth.contracts.base import Problem
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.strategies.knobs import CPUSET
from berth.node_qos_enforcer.executor.writing import GONE, Executor
from berth.node_qos_enforcer.files import FileTree, Unreadable

GROUPS_MAX = 10_000
DEPTH_MAX = 8


def give_back(executor: Executor) -> tuple[Problem, ...]:
    """Give every file what it had. Returns what could not be written; it stays in the journal.

    On version 1 a container that began while the best-effort group was narrow has the CPUs of then: it gets those of
    its group.
    """
    was_narrow = any(kept.path.endswith(f"/{CPUSET}") for kept in executor.kept)
    problems = executor.undo()
    return problems + _widened(executor) if was_narrow else problems


def groups_below(tree: FileTree, where: cgroups.Controller, top: str) -> list[str]:
    """All groups below one, each after the one above it. Raises Unreadable when there are too many."""
    found: list[str] = []
    level = [top]
    for _ in range(DEPTH_MAX):
        level = [f"{each}/{name}" for each in level for name in tree.directories(where.path(each))]
        found += level
        if len(found) > GROUPS_MAX:
            raise Unreadable(top, f"more than {GROUPS_MAX} groups below it")
    return found


def _widened(executor: Executor) -> tuple[Problem, ...]:
    try:
        layout = cgroups.detect_layout(executor.tree)
        driver = cgroups.detect_driver(executor.tree, layout)
        if driver is None or layout.cpuset is None or layout.cpuset.version == 2:
            return ()
        top = qos_dir(driver, "BestEffort")
        text = executor.tree.read(layout.cpuset.path(top, CPUSET))
        groups = groups_below(executor.tree, layout.cpuset, top)
        cpus = parse_cpuset(text or "", field=CPUSET)
        for each in groups:
            path = layout.cpuset.path(each, CPUSET)
            now = executor.tree.read(path)
            if now is not None and text is not None and parse_cpuset(now, field=CPUSET) < cpus:
                executor.put(path, text.strip())
    except (Malformed, Unreadable) as error:
        return (Problem(field=CPUSET, message=str(error)[:300]),)
    except OSError as error:
        return () if error.errno in GONE else (Problem(field=CPUSET, message=str(error)[:300]),)
    return ()
