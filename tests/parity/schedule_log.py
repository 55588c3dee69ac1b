"""What kube-scheduler's log says of one pod: the scores of each node, and how far a preemption is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_SCORE = re.compile(rb'"Plugin scored node for pod" pod="([^"]+)" plugin="([^"]+)" node="([^"]+)" score=(-?\d+)')
_BEGUN = re.compile(rb'"Start the preemption asynchronously" preemptor="([^"]+)"')
_ENDED = re.compile(rb'"Async Preemption finished completely" preemptor="([^"]+)"')
MODULES = "schedule_one=10,preemption=4"
"""The files of kube-scheduler that have to say it, as an argument of --vmodule."""


class Said(NamedTuple):
    """What was said of a pod. `scores`: by node, by plugin."""

    scores: dict[str, dict[str, int]]
    is_preempting: bool


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
        return Said(scores, _BEGUN.findall(text).count(name) > _ENDED.findall(text).count(name))
