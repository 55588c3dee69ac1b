"""What is wrong inside the node, and with whom: kept until it is right, or nobody is concerned any more.

That a container began with other CPUs than its own and has its own now is nothing that lasts: it is kept for a while,
to be said, and is no problem of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from berth.contracts import node_runtime
from berth.contracts.base import Problem
from berth.contracts.node_runtime import PodFinding
from berth.node_qos_enforcer.core.inside.seen import PodSeen

Kind = Literal["cpus", "devices", "score", "lacking", "update", "kubelet", "files", "corrected"]
KINDS: Final[tuple[Kind, ...]] = ("cpus", "devices", "score", "lacking", "update", "kubelet", "files", "corrected")
CORRECTED: Final = "corrected"
CORRECTED_S: Final = 600.0
FINDINGS_MAX: Final = 1_000
TOLD_MAX: Final = node_runtime.FINDINGS_MAX
"""Findings of pods that are published, each with a message of at most `MESSAGE_MAX` characters."""
MESSAGE_MAX: Final = 800


class Key(NamedTuple):
    """Of a pod's sandbox and one of its containers, by name; empty: of the whole pod, or of the node."""

    kind: Kind
    pod: str = ""
    container: str = ""


class Findings:
    """The latest finding of each kind about each container."""

    def __init__(self) -> None:
        """There is none."""
        self._found: dict[Key, Problem] = {}
        self._until: dict[Key, float] = {}

    def note(self, key: Key, problem: Problem | None) -> bool:
        """Keep a finding, or drop it (None); whether it is a new one."""
        if problem is None:
            self._found.pop(key, None)
            return False
        if self._found.get(key) == problem or (key not in self._found and len(self._found) >= FINDINGS_MAX):
            return False
        self._found[key] = problem
        return True

    def correct(self, pod: str, container: str, problem: Problem, now_s: float) -> bool:
        """Keep for a while what a container began with; whether that is new. `now_s` is monotonic."""
        key = Key(CORRECTED, pod, container)
        is_new = self.note(key, problem)
        if key in self._found:
            self._until[key] = now_s + CORRECTED_S
        return is_new

    def expire(self, now_s: float) -> None:
        """Drop what was to be said for a while."""
        for key in [each for each, until in self._until.items() if until <= now_s or each not in self._found]:
            del self._until[key]
            self._found.pop(key, None)

    def forget(self, is_meant: Callable[[Key], bool]) -> None:
        """Drop all of these."""
        for key in [each for each in self._found if is_meant(each)]:
            del self._found[key]

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong now, in the order in which it was found, each once."""
        return tuple(dict.fromkeys(problem for key, problem in self._found.items() if key.kind != CORRECTED))

    def of_pods(self, pods: Mapping[str, PodSeen]) -> list[PodFinding]:
        """What is to be said about these pods, by the id of their sandboxes; of the rest there is nobody to tell."""
        found: list[PodFinding] = []
        for key, problem in self._found.items():
            pod = pods.get(key.pod)
            if pod is not None and len(found) < TOLD_MAX:
                where = problem.field.removeprefix(pod.key).removeprefix(f".containers[{key.container}]").lstrip(".")
                message = f"{where}: {problem.message}" if where else problem.message
                found.append(
                    PodFinding(
                        namespace=pod.namespace,
                        pod=pod.name,
                        uid=pod.uid,
                        container=key.container,
                        kind=key.kind,
                        message=message[:MESSAGE_MAX],
                    )
                )
        return found
