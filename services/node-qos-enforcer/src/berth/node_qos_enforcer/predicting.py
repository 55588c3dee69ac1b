"""Predicts the peaks of this node's pods while it runs: trained every minute, kept on disk every ten.

What was kept is taken up again by the next process. What is lost, torn or of another version begins cold, and it is
said why: then less is lent, never more. Blocking, since it reads and writes a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.metrics import Usage
from berth.contracts.names import CPU, MEMORY
from berth.contracts.slo import NodePod
from berth.node_qos_enforcer.core.peaks.checkpoint import UnusableError, read, written
from berth.node_qos_enforcer.core.peaks.models import TRAINING_S, Known, Models
from berth.node_qos_enforcer.core.peaks.reclaimable import Rule
from berth.node_qos_enforcer.core.strategies.seam import Snapshot
from berth.node_qos_enforcer.store import replace_file
from berth.rules.load_aware.capacity import capacity_of

SAVE_S: Final = 600.0
SIZE_MAX: Final = 16 << 20
FIELD: Final = "peaks_file"


class Predicting:
    """One node's models. `path` empty: they are kept nowhere."""

    def __init__(self, node: str, path: str, rule: Rule) -> None:
        """Nothing is known before `load`."""
        self._node = node
        self._path = path
        self._rule = rule
        self._models = Models()
        self._trained_s: float | None = None
        self._saved_s: float | None = None
        self._now_s = 0.0
        self.problem: Problem | None = None
        self.reclaimable: Usage | None = None

    def load(self, now_s: float) -> None:
        """Take up what a former process kept. `now_s` is unix time."""
        if not self._path:
            return
        try:
            with Path(self._path).open("rb") as file:
                text = file.read(SIZE_MAX + 1)
            if len(text) > SIZE_MAX:
                raise UnusableError(f"it is larger than {SIZE_MAX} bytes")
            self._models = read(self._node, text, now_s)
        except FileNotFoundError:
            return
        except (OSError, UnusableError) as error:
            self.problem = Problem(field=FIELD, message=f"peaks begin cold: {error}"[:300])

    def step(self, snapshot: Snapshot, told: Mapping[str, NodePod], now_s: float) -> None:
        """Take one look; `now_s` is unix time, which does not go back here."""
        usage = snapshot.usage
        self._now_s = now_s = max(now_s, self._now_s)
        if usage.node_cores is None or usage.node_bytes is None:
            return
        if self._trained_s is not None and now_s - self._trained_s < TRAINING_S:
            return
        self._trained_s = now_s
        known = {uid: _known(entry) for uid, entry in told.items() if not entry.left}
        used = {
            uid: Usage(cpu_milli=int(cores * 1000), memory_bytes=usage.pod_bytes[uid])
            for uid, cores in usage.pod_cores.items()
            if uid in usage.pod_bytes
        }
        node = Usage(cpu_milli=int(usage.node_cores * 1000), memory_bytes=usage.node_bytes)
        self._models.keep_pods([each.uid for each in snapshot.pods])
        self._models.train(now_s, node, used, known)
        allocatable, _ = capacity_of(snapshot.node.allocatable, snapshot.node.annotations)
        there = [known[each.uid] for each in snapshot.pods if each.uid in known]
        found = self._models.reclaimable(now_s, there, allocatable, self._rule) if allocatable else None
        self.reclaimable = None if found is None else Usage(cpu_milli=found[CPU], memory_bytes=found[MEMORY])
        if self._saved_s is None:
            self._saved_s = now_s
        elif now_s - self._saved_s >= SAVE_S:
            self.save()

    def save(self) -> None:
        """Keep what is known."""
        self._saved_s = self._now_s
        if not self._path or not self._models.items:
            return
        try:
            replace_file(Path(self._path), written(self._node, self._models))
            self.problem = None
        except OSError as error:
            self.problem = Problem(field=FIELD, message=f"cannot be kept: {error}"[:300])


def _known(entry: NodePod) -> Known:
    return Known(entry.uid, entry.workload, entry.priority_class, entry.requests, is_alive=not entry.deleting)
