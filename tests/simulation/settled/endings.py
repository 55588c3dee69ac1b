"""Placements that are said to have ended: the cluster, ahead of every view, must have seen that end by then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.simulation.harness import Harness

from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.event import PlacementEnded
from berth.contracts.subjects import event_subject
from berth.simcluster.store.resource import PODS
from berth.testing.simulation.nats.stream import Stream
from berth.transaction.book import FINISHED_PHASES

ENDED = event_subject("placement", "ended")


class Endings:
    """Judges each `placement.ended` in the moment in which it is stored. Made before anything happens."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._add_stream = harness.nats.add_stream
        harness.nats.add_stream = self._added  # type: ignore[method-assign]
        self.untimely: list[str] = []
        """Ends of pods that were there, and ran."""

    def _added(self, stream: Stream) -> None:
        self._add_stream(stream)
        if stream.name != buckets.EVENTS:
            return
        tell = stream.tell

        def heard(stored: Iterable[Any]) -> None:
            stored = list(stored)
            for each in stored:
                if each.subject.startswith(f"{ENDED}."):
                    self._judge(decode(each.data, PlacementEnded))
            tell(stored)

        stream.tell = heard  # type: ignore[method-assign]

    def _judge(self, said: PlacementEnded) -> None:
        self._harness.observer.verdicts.judged("endings")
        pod = self._harness.kube.store.state.of(PODS).items.get(f"{said.namespace}/{said.name}")
        if pod is None or pod.uid != said.uid or pod.data.get("status", {}).get("phase") in FINISHED_PHASES:
            return
        now = self._harness.world.now
        self.untimely.append(f"{said.namespace}/{said.name} at {now:.1f} s: {said.reason}, and it is there")
