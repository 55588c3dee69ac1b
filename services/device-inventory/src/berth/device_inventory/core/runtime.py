"""What a node's agent says of the container runtime: the label of the node, and what is reported of its pods.

An agent is not trusted beyond its node: what it finds counts of pods that are there alone, by uid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.node_runtime import NodeRuntime, PodFinding
from berth.contracts.state import Node
from berth.rules.cpus.kubelet import NodePod
from berth.vendors.nvidia import ISOLATION

STALE_S: Final = 180.0
"""An agent that has said nothing for so long does not run; it speaks once a minute."""
WINDOW_S: Final = 60.0
REPORTS_MAX: Final = 64
"""What is reported of a node in a window; more waits for the next one. An agent chooses what its findings say, and each
other text is another Event."""
BY_AGENT: Final = "node-agent"
CORRECTED: Final = "corrected"
REASONS: Final[Mapping[str, str]] = {
    "lacking": "StartedWithoutGrant",
    CORRECTED: "CPUsCorrected",
    "devices": "DevicesNotGiven",
    "cpus": "CPUsNotGiven",
    "update": "LimitsRefused",
    "files": "LimitNotLifted",
    "score": "OOMScoreNotGiven",
}
"""What an Event is called, by the kind of the finding; others are not reported."""
_MESSAGE_MAX: Final = 900
_CONTAINER_MAX: Final = 63


class Report(NamedTuple):
    """A finding that is new, or over (`lasts` false)."""

    finding: PodFinding
    lasts: bool = True

    @property
    def reason(self) -> str:
        """What an Event about it is called."""
        return REASONS[self.finding.kind]

    @property
    def id(self) -> str:
        """The same for the same finding of the same pod, whoever reports it."""
        parts = (self.finding.uid, self.finding.container, self.finding.kind, self.finding.message)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    @property
    def message(self) -> str:
        """For people."""
        container = f"container {self.finding.container}: " if self.finding.container else ""
        return f"{container}{self.finding.message}"


def follows_agent(node: Node) -> bool:
    """Whether the node's isolation label is said to follow its agent's word."""
    return names.LABEL_GPU_ISOLATION_BY in node.labels


def has_our_isolation(node: Node) -> bool:
    """Whether the label that the node shows names what agents isolate by, whoever wrote it."""
    return node.labels.get(names.LABEL_GPU_ISOLATION, "").lower() == ISOLATION.lower()


def isolation_label(node: Node, runtime: NodeRuntime | None, *, is_over: bool) -> dict[str, str | None]:
    """How the label that shared GPUs are isolated is to be changed on the node; None: taken off.

    It stands where the agent says that it works, beside one that says so: who reads the node alone knows then whose
    word it follows. Where no agent ever said anything it is not ours, nor is that of another provider anywhere.
    `is_over`: the agent does not run any more, or is no plugin.
    """
    shown, is_ours = node.labels.get(names.LABEL_GPU_ISOLATION, ""), has_our_isolation(node)
    works = runtime is not None and not is_over and runtime.isolation == ISOLATION
    wanted: dict[str, str | None] = {}
    if works and (is_ours or not shown):
        wanted = {names.LABEL_GPU_ISOLATION: ISOLATION, names.LABEL_GPU_ISOLATION_BY: BY_AGENT}
    elif is_ours and (runtime is not None or is_over):
        wanted = {names.LABEL_GPU_ISOLATION: None, names.LABEL_GPU_ISOLATION_BY: None}
    elif not is_ours:
        wanted = {names.LABEL_GPU_ISOLATION_BY: None}
    return {name: value for name, value in wanted.items() if node.labels.get(name) != value}


class Reported:
    """What was reported of the pods of each node."""

    def __init__(self) -> None:
        """Nothing was."""
        self._reported: dict[str, dict[PodFinding, None]] = {}
        self._windows: dict[str, _Window] = {}
        self.held_back = 0
        """How many reports did not fit their node's window, and waited or came to nothing."""

    def due(self, now_s: float) -> set[str]:
        """Nodes of which something waits that may be reported now. `now_s` is monotonic."""
        return {name for name, window in self._windows.items() if window.waits and now_s - window.began_s >= WINDOW_S}

    def clear(self) -> None:
        """What another replica has reported meanwhile is unknown: what lasts is reported again."""
        self._reported.clear()

    def news(self, node: str, runtime: NodeRuntime | None, pods: Iterable[NodePod], now_s: float) -> list[Report]:
        """What is to be reported now. A pod that is gone takes its findings with it; those of one that is not seen yet
        wait, and so does what is too much. What is over goes first, so that what is kept of a node stays bounded."""
        before = self._reported.get(node, {})
        if runtime is None or not (runtime.findings or before):
            self._reported.pop(node, None)
            if (window := self._windows.get(node)) is not None:
                window.waits = False
            return []
        there = {(pod.uid, pod.namespace, pod.name) for pod in pods}
        now = {
            finding: None
            for finding in map(_bounded, runtime.findings)
            if finding.kind in REASONS and _pod_of(finding) in there
        }
        over = [each for each in before if each not in now and each.kind != CORRECTED and _pod_of(each) in there]
        found = [Report(each, lasts=False) for each in over] + [Report(each) for each in now if each not in before]
        reported, late = self._fitting(node, found, now_s)
        waiting = {each.finding for each in late}
        kept = [each for each in over if each in waiting] + [each for each in now if each not in waiting]
        self._reported[node] = dict.fromkeys(kept)
        return reported

    def _fitting(self, node: str, found: list[Report], now_s: float) -> tuple[list[Report], list[Report]]:
        """What the node's window still takes, and the rest."""
        window = self._windows.get(node)
        if window is None or now_s - window.began_s >= WINDOW_S:
            self._windows.pop(node, None)
            if not found:
                return [], []
            over = [name for name, each in self._windows.items() if not each.waits and now_s - each.began_s >= WINDOW_S]
            for name in over:
                del self._windows[name]
            window = self._windows[node] = _Window(now_s)
        reported, late = found[: window.left], found[window.left :]
        window.left -= len(reported)
        window.waits = bool(late)
        self.held_back += len(late)
        return reported, late


@dataclass(slots=True)
class _Window:
    """What may still be reported of a node until its window is over, and whether something waits for that."""

    began_s: float
    left: int = REPORTS_MAX
    waits: bool = False


def _pod_of(finding: PodFinding) -> tuple[str, str, str]:
    return finding.uid, finding.namespace, finding.pod


def _bounded(finding: PodFinding) -> PodFinding:
    if len(finding.message) <= _MESSAGE_MAX and len(finding.container) <= _CONTAINER_MAX:
        return finding
    return PodFinding(
        namespace=finding.namespace,
        pod=finding.pod,
        uid=finding.uid,
        container=finding.container[:_CONTAINER_MAX],
        kind=finding.kind,
        message=finding.message[:_MESSAGE_MAX],
    )
