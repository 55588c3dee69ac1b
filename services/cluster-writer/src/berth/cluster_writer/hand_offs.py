"""What binds hand to the device plugins of their nodes, and the locks under which they are bound there."""

from __future__ import annotations

from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.core.handing import NOTHING, bind_of, handed
from berth.cluster_writer.node_locks import NodeLocks
from berth.contracts.base import Problem
from berth.contracts.ledger import Decision
from berth.kube.api import KubeApi
from berth.runtime.clock import Clock
from berth.telemetry import get_logger
from berth.vendors.vendor import Bind, HandOff

log = get_logger(__name__)


class HandOffs:
    """As the view shows nodes and pods now. Nothing where no vendor's hand-off is on."""

    def __init__(self, cluster: ClusterView, api: KubeApi, clock: Clock, vendors: frozenset[str]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._vendors = vendors
        self._locks = NodeLocks(cluster, api, clock)

    def _bind_of(self, decision: Decision) -> Bind | None:
        """The bind as vendors see it now; None where nothing is handed off."""
        if not self._vendors:
            return None
        seen = self._cluster.book.pods.get((decision.namespace, decision.name))
        labels = seen.template.labels if seen is not None else {}
        device, time_ns = self._cluster.devices.get(decision.node), int(self._clock.now() * 10**9)
        bind = bind_of(decision, labels, device, self._vendors, time_ns)
        return None if isinstance(bind, Problem) else bind

    def of(self, decision: Decision) -> HandOff:
        """What is written for it, and under which lock."""
        found = handed(self._bind_of(decision), self._cluster.devices.get(decision.node))
        return NOTHING if isinstance(found, Problem) else found

    def lock_to_take(self, decision: Decision) -> str:
        """The lock under which it has to be bound, and that it has not taken; empty: none."""
        lock = self.of(decision).lock
        return "" if self._locks.has((decision.uid, decision.attempt), (decision.node, lock)) else lock

    async def has_locked(self, decision: Decision, lock: str) -> bool:
        """Take a lock for it; whether it stands on the node now."""
        bind = self._bind_of(decision)
        if bind is None:
            return True
        reason = await self._locks.take((decision.uid, decision.attempt), bind, lock)
        if reason:
            log.debug("a bind waits for the lock of its node", node=decision.node, lock=lock, reason=reason)
        return not reason

    async def unlock(self, decision: Decision, *, is_bound: bool) -> None:
        """The decision is over: its locks are its pod's until the device plugin takes them off, or nobody's.
        `is_bound`: the API server has said so, whatever the view shows."""
        key = (decision.uid, decision.attempt)
        # Its node may have other devices by now: what it took then is not what it would take now.
        locks = {lock for _, lock in self._locks.places_of(key)} | {self.of(decision).lock} - {""}
        if not locks:
            return
        seen = self._cluster.book.seen((decision.namespace, decision.name))
        is_there = seen is not None and seen.uid == decision.uid and seen.node == decision.node
        for lock in sorted(locks):
            if is_there or is_bound:
                self._locks.leave(key, (decision.node, lock))
            else:
                await self._locks.free(key, decision, lock)
