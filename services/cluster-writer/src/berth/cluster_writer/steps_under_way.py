"""Steps that decisions take before their binds: since when, what their requests have left, what they wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.core.judge import Volumes
from berth.cluster_writer.core.progress import View
from berth.contracts.ledger import Decision
from berth.runtime.clock import Clock

Key = tuple[str, int]
"""Uid and attempt of a decision."""
Awaited = tuple[str, ...]
"""A claim or volume (`StorageKey`), or a pod: POD, its namespace and name."""
POD = "pod"
TIMEOUT_LEAST_S = 1.0
"""A profile that gives volumes no time at all still has them asked for: they may be there at the next try."""


class _Steps:
    """The steps of one decision: since when they are looked at, and what their requests have left behind."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.asked: dict[int, int] = {}


class StepsUnderWay:
    """Of all decisions that are being carried out."""

    def __init__(self, cluster: ClusterView, clock: Clock, timeout_s: float) -> None:
        """`timeout_s`: how long they may take where a decision does not say."""
        self._cluster = cluster
        self._clock = clock
        self._default_s = timeout_s
        self._under_way: dict[Key, _Steps] = {}

    def volumes(self, decision: Decision) -> Volumes:
        """What is known of the decision's volumes. From its first look on the time of its steps is counted."""
        cluster, key = self._cluster, (decision.uid, decision.attempt)
        view = View(cluster.storage, cluster.storage_known, cluster.book.pods)
        steps = self._under_way.get(key)
        if steps is None and decision.before:
            steps = self._under_way[key] = _Steps(self._clock.monotonic())
        waited_s = self._clock.monotonic() - steps.since if steps is not None else 0.0
        asked = steps.asked if steps is not None else {}
        return Volumes(view, cluster.volume_holders, asked, waited_s, self._timeout_s(decision))

    def _timeout_s(self, decision: Decision) -> float:
        """How long its steps may take: what its profile says goes before the writer's own setting."""
        said_s = decision.bind_timeout_s
        return self._default_s if said_s is None else max(float(said_s), TIMEOUT_LEAST_S)

    def left(self, decision: Decision, step: int, version: int) -> None:
        """The request of a step has left its object at this version."""
        steps = self._under_way.get((decision.uid, decision.attempt))
        if steps is not None:
            steps.asked[step] = version

    def late(self, decisions: Mapping[Key, Decision]) -> Iterator[Decision]:
        """Those of them whose steps have taken too long."""
        now = self._clock.monotonic()
        for key, steps in self._under_way.items():
            decision = decisions.get(key)
            if decision is not None and now - steps.since >= self._timeout_s(decision):
                yield decision

    def forget(self, key: Key) -> None:
        """The decision is over."""
        self._under_way.pop(key, None)

    def awaited_by(self, decision: Decision) -> Iterator[Awaited]:
        """The claims, volumes and pods that the steps of a decision are about."""
        for step in decision.before:
            if step.pod:
                yield (POD, step.namespace, step.pod)
                continue
            yield (decision.namespace, step.claim)
            claim = self._cluster.storage.claim((decision.namespace, step.claim))
            volume = step.volume or (claim.volume if claim is not None else "")
            if volume:
                yield ("", volume)
