"""The doers of this machine, put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.doers.cookies import CookieDoer
from berth.node_qos_enforcer.doers.doing import Doers
from berth.node_qos_enforcer.doers.interference import CycleDoer, StallDoer
from berth.node_qos_enforcer.doers.network import NetworkDoer
from berth.node_qos_enforcer.doers.perf import PerfEvents
from berth.node_qos_enforcer.doers.prctl import CoreCookies
from berth.node_qos_enforcer.executor.undoing import groups_below
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.interference_figures import InterferenceFigures
from berth.node_qos_enforcer.machine import read_online_cpus
from berth.node_qos_enforcer.store import JournalFile

PROCESSES: Final = "cgroup.procs"
DONE_ENDING: Final = ".done"
"""What the name of the file ends in that says what was done, beside the journal."""


class Groups:
    """The groups of containers, with their processes. A group that cannot be read has none."""

    def __init__(self, tree: DiskTree) -> None:
        """Take the root of control groups."""
        self._tree = tree

    def processes(self, group: str) -> Iterable[int]:
        """The processes of a group, and of those that a runtime has nested in it."""
        try:
            where = cgroups.detect_layout(self._tree).cpu
            if where is None:
                return ()
            groups = [group, *(f"{group}/{name}" for name in self._tree.directories(where.path(group)))]
            texts = [self._tree.read(where.path(each, PROCESSES)) or "" for each in groups]
        except Unreadable:
            return ()
        return tuple(int(each) for text in texts for each in text.split() if each.isdecimal())

    def all_of_pods(self) -> Iterable[str]:
        """All groups of pods and containers."""
        try:
            layout = cgroups.detect_layout(self._tree)
            driver = cgroups.detect_driver(self._tree, layout)
            if layout.cpu is None or driver is None:
                return ()
            return groups_below(self._tree, layout.cpu, qos_dir(driver, "Guaranteed"))
        except Unreadable:
            return ()


def doers_of(tree: DiskTree, sys: DiskTree, journal_file: str, boot: str, figures: InterferenceFigures) -> Doers:
    """All of them. What they have done is kept beside the journal."""
    groups = Groups(tree)
    file = JournalFile(journal_file + DONE_ENDING if journal_file else "")
    cookies = CookieDoer(CoreCookies(), groups.processes, groups.all_of_pods)
    cycles = CycleDoer(PerfEvents(), tree, lambda: read_online_cpus(sys), figures)
    return Doers((cookies, NetworkDoer(), cycles, StallDoer(tree, figures)), file, boot=boot)
