"""Who leaves for a node's sake: one need evicts once (I37), and nobody whom his labels keep (I11e).

The note on a pod says what the need wanted and what the pod counts for. Its revision says in which order pods of a node
were let go: whoever was let go later must have been missing while those before were leaving.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.contracts.names import LABEL_EVICTION_ENABLED, LABEL_QOS
from berth.invariants.facts import ENDED
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.cpus.qos import BE
from berth.rules.node_evictions.covered import Leaving, still_missing
from berth.rules.node_evictions.features import FEATURES
from berth.rules.node_evictions.notes import NodeEviction, noted_eviction

Json = Mapping[str, Any]
LAW: Final = "I37"


class PressedLaw:
    """`pods` are the objects as they are, by name."""

    def __init__(self, verdicts: Verdicts, pods: Mapping[tuple[str, str], Json]) -> None:
        self._verdicts = verdicts
        self._pods = pods

    def evicted(self, victim: Json, note: NodeEviction) -> None:
        """A pod begins to leave by our hand, for its node's sake."""
        meta = victim["metadata"]
        who = f"{meta.get('namespace', '')}/{meta['name']}"
        subject = f"{who}, need {note.need} of node {note.node}"
        self._verdicts.judged(LAW)
        if (victim.get("spec") or {}).get("nodeName") != note.node:
            self._verdicts.add(LAW, subject, f"{who}: is evicted for node {note.node}, where it is not")
        if not still_missing(note.accumulator, note.release, self._leaving(victim, note)):
            text = f"is evicted for {note.need} of node {note.node}, which others cover who leave already"
            self._verdicts.add(LAW, subject, f"{who}: {text}")
        if not _may_leave(victim, note):
            self._verdicts.add(LAW, subject, f"{who}: is evicted by {note.feature}, which its labels do not allow")

    def _leaving(self, victim: Json, note: NodeEviction) -> Iterator[Leaving]:
        for pod in self._pods.values():
            meta = pod["metadata"]
            if not meta.get("deletionTimestamp") or meta["uid"] == victim["metadata"]["uid"]:
                continue
            other = noted_eviction(meta.get("annotations") or {})
            if other is None or other.refused or other.node != note.node or other.revision >= note.revision:
                continue
            if (pod.get("status") or {}).get("phase") not in ENDED:
                yield Leaving(other.accumulator, other.counts)


def _may_leave(victim: Json, note: NodeEviction) -> bool:
    feature = FEATURES.get(note.feature)
    labels = victim["metadata"].get("labels") or {}
    if feature is None:
        return False
    return labels.get(LABEL_QOS) == BE if feature.best_effort else labels.get(LABEL_EVICTION_ENABLED) == "true"
