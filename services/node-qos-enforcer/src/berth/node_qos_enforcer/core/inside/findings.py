"""What is wrong inside the node, and with whom: kept until it is right, or nobody is concerned any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from berth.contracts.base import Problem

Kind = Literal["cpus", "devices", "lacking", "update", "kubelet", "files"]
KINDS: Final[tuple[Kind, ...]] = ("cpus", "devices", "lacking", "update", "kubelet", "files")
FINDINGS_MAX: Final = 1_000


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

    def note(self, key: Key, problem: Problem | None) -> bool:
        """Keep a finding, or drop it (None); whether it is a new one."""
        if problem is None:
            self._found.pop(key, None)
            return False
        if self._found.get(key) == problem or (key not in self._found and len(self._found) >= FINDINGS_MAX):
            return False
        self._found[key] = problem
        return True

    def forget(self, is_meant: Callable[[Key], bool]) -> None:
        """Drop all of these."""
        for key in [each for each in self._found if is_meant(each)]:
            del self._found[key]

    def problems(self) -> tuple[Problem, ...]:
        """In the order in which they were found, each once."""
        return tuple(dict.fromkeys(self._found.values()))
