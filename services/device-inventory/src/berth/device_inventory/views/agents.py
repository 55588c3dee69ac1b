"""What the agents of nodes say: what is on them, and how they stand with their container runtimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from berth.bus.port import Entry
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.node_report import NodeReport
from berth.contracts.node_runtime import NodeRuntime
from berth.contracts.subjects import parts

AGENT: Final = "report"
AGENT_KEYS: Final = f"{AGENT}.>"
"""What of METRICS is read: figures change all the time and say nothing here."""
RUNTIME: Final = "runtime"
RUNTIME_KEYS: Final = f"{RUNTIME}.>"
Said = TypeVar("Said", NodeReport, NodeRuntime)


class AgentView:
    """What the agents of nodes report, by node name.

    `withdrawn`: nodes whose agent said that it reports no longer. A node that is in neither says nothing: its report
    may have been lost with the bucket.
    """

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.reports: dict[str, NodeReport] = {}
        self.withdrawn: set[str] = set()
        self.unreadable = 0
        self._mark = mark

    def reset(self) -> None:
        """The bucket begins anew."""
        self.reports.clear()
        self.withdrawn.clear()

    def apply(self, entry: Entry) -> None:
        """One report. One that cannot be read leaves what was known."""
        name = _node_of(entry, AGENT)
        if not name:
            return
        try:
            report = _of_node(entry, name, NodeReport)
        except InvalidMessage:
            self.unreadable += 1
            return
        if report is None:
            self.reports.pop(name, None)
            self.withdrawn.add(name)
        else:
            self.reports[name] = report
            self.withdrawn.discard(name)
        self._mark(name)

    def end(self, sequence: int) -> None:
        """Nothing waits for reports: a node without one is as its objects say."""


class RuntimeView:
    """How the agents of nodes stand with their container runtimes, by node name.

    `sequences`: that of the newest message, which each new one changes. `withdrawn`: nodes whose agent is no plugin.
    """

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.runtimes: dict[str, NodeRuntime] = {}
        self.sequences: dict[str, int] = {}
        self.withdrawn: set[str] = set()
        self.unreadable = 0
        self._mark = mark

    def reset(self) -> None:
        """The bucket begins anew."""
        self.runtimes.clear()
        self.sequences.clear()
        self.withdrawn.clear()

    def apply(self, entry: Entry) -> None:
        """One message. One that cannot be read leaves what was known, which grows old."""
        name = _node_of(entry, RUNTIME)
        if not name:
            return
        try:
            runtime = _of_node(entry, name, NodeRuntime)
        except InvalidMessage:
            self.unreadable += 1
            return
        if runtime is None:
            self.runtimes.pop(name, None)
            self.sequences.pop(name, None)
            self.withdrawn.add(name)
        else:
            self.runtimes[name], self.sequences[name] = runtime, entry.sequence
            self.withdrawn.discard(name)
        self._mark(name)

    def end(self, sequence: int) -> None:
        """Nothing waits for them."""


def _node_of(entry: Entry, kind: str) -> str:
    """The node that an entry of this kind is about; empty for other kinds."""
    try:
        found, name = parts(entry.key)
    except ValueError:
        return ""
    return name if found == kind else ""


def _of_node(entry: Entry, name: str, message: type[Said]) -> Said | None:
    """What an agent said of its node; None where it says nothing any more. Raises InvalidMessage."""
    if entry.deleted:
        return None
    found = decode(entry.value, message)
    if found.node != name:
        raise InvalidMessage("node", "is not the name in the key")
    return found
