"""What kube-scheduler's log says of one pod: the scores of each node, and how far a preemption is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_SCORE = re.compile(rb'"Plugin scored node for pod" pod="([^"]+)" plugin="([^"]+)" node="([^"]+)" score=(-?\d+)')
_BEGUN = re.compile(rb'"Start the preemption asynchronously" preemptor="([^"]+)"')
_VICTIM = re.compile(
    rb'"(?:Preemptor Pod preempted victim Pod|Victim Pod is already deleted)" preemptor="([^"]+)" victim="([^"]+)"'
)
_ENDED = re.compile(rb'"Async Preemption finished completely" preemptor="([^"]+)"')
MODULES = "schedule_one=10,preemption=4"
"""The files of kube-scheduler that have to say it, as an argument of --vmodule."""


class Said(NamedTuple):
    """What was said of a pod. `scores`: by node, by plugin. `victims`: who left for it, namespace/name."""

    scores: dict[str, dict[str, int]]
    is_preempting: bool
    victims: tuple[str, ...] = ()


class ScheduleLog:
    """A log that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def size(self) -> int:
        """Where it ends now."""
        return self._path.stat().st_size

    def said_of(self, pod: str, since: int) -> Said:
        """What it says after a position about a pod (namespace/name)."""
        with self._path.open("rb") as file:
            file.seek(since)
            text = file.read()
        name = pod.encode()
        scores: dict[str, dict[str, int]] = {}
        for of, plugin, node, score in _SCORE.findall(text):
            if of == name:
                scores.setdefault(node.decode(), {})[plugin.decode()] = int(score)
        is_preempting = _BEGUN.findall(text).count(name) > _ENDED.findall(text).count(name)
        victims = sorted({victim.decode() for of, victim in _VICTIM.findall(text) if of == name})
        return Said(scores, is_preempting, tuple(victims))

    def has_running_preemption(self, since: int) -> bool:
        """Whether after a position a preemption, of whichever pod, has begun and not ended."""
        with self._path.open("rb") as file:
            file.seek(since)
            text = file.read()
        return len(_BEGUN.findall(text)) > len(_ENDED.findall(text))
