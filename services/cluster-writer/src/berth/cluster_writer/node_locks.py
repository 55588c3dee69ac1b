"""Locks of nodes: an annotation under which one pod at a time is bound to a node whose device plugin wants it so.

The plugin takes it off after its work. It is taken off here when a bind has come to nothing. A lock that neither does
counts no longer once its pod runs, has ended or is gone, is bound elsewhere or was withdrawn, and after five minutes
whatever its pod does, so that it never stays in the way.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from berth.cluster_writer import metrics
from berth.cluster_writer.cluster_view import ClusterView
from berth.contracts import kube, names
from berth.contracts.kube import View
from berth.contracts.ledger import Decision
from berth.kube import resources
from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.runtime.clock import Clock
from berth.telemetry import get_logger
from berth.vendors.handing_off import is_held_by, judge_lock, lock_value, read_lock
from berth.vendors.vendor import Bind

log = get_logger(__name__)

TRIES: Final = 5
PAUSE_S: Final = 0.1
OVER: Final = frozenset({"Running", "Succeeded", "Failed"})
"""Phases of a pod whose devices the plugin has prepared, or never will."""
Place = tuple[str, str]
"""A node and the name of its lock."""
Key = tuple[str, int]
"""Uid and attempt of a decision."""


class _Spec(View, frozen=True, kw_only=True):
    node_name: str = ""


class _Status(View, frozen=True, kw_only=True):
    phase: str = ""


class _Pod(View, frozen=True, kw_only=True):
    metadata: kube.Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_NODE: Final = msgspec.json.Decoder(kube.AnyObject)
_POD: Final = msgspec.json.Decoder(_Pod)


class NodeLocks:
    """Those that this process has or is about to take: of each node one bind at a time."""

    def __init__(self, cluster: ClusterView, api: KubeApi, clock: Clock) -> None:
        self._cluster = cluster
        self._api = api
        self._clock = clock
        self._held: dict[Place, Key] = {}

    def has(self, key: Key, place: Place) -> bool:
        """Whether the lock was taken for this decision."""
        return self._held.get(place) == key

    def places_of(self, key: Key) -> list[Place]:
        """The locks that were taken for this decision."""
        return [place for place, holder in self._held.items() if holder == key]

    async def take(self, key: Key, bind: Bind, lock: str) -> str:
        """Write the bind's lock onto the node; empty when it stands there, else why not yet."""
        place = (bind.node, lock)
        if self._held.setdefault(place, key) != key:
            return "another pod of this node is being bound"
        reason = await self._write(bind, lock)
        if reason:
            self.leave(key, place)
        metrics.NODE_LOCKS.labels("waits" if reason else "taken").inc()
        return reason

    def leave(self, key: Key, place: Place) -> None:
        """The bind is over, or has to wait; what stands on the node stays."""
        if self.has(key, place):
            del self._held[place]

    async def free(self, key: Key, decision: Decision, lock: str) -> None:
        """Nothing has come of the bind: take its lock off the node, whichever process wrote it there.

        One that a later decision of the same pod is bound under, or may be already, is that decision's. While this goes
        on nobody else takes the place.
        """
        place = (decision.node, lock)
        if self._is_of_another(key, decision) or self._held.setdefault(place, key) != key:
            self.leave(key, place)
            return
        for _ in range(TRIES):
            answer = await self._api.get(resources.NODES, "", decision.node)
            meta = _meta_of(answer)
            if answer.missing or (
                meta is not None and not is_held_by(_lock_of(meta, lock), decision.namespace, decision.name)
            ):
                break
            if meta is not None:
                answer = await self._patch(decision.node, meta, lock, None)
                if answer.ok:
                    metrics.NODE_LOCKS.labels("freed").inc()
                    break
            await self._clock.sleep(PAUSE_S)
        self.leave(key, place)

    def _is_of_another(self, key: Key, decision: Decision) -> bool:
        """Whether another decision stands for this name on the same node."""
        found = self._cluster.book.open_decision((decision.namespace, decision.name))
        return found is not None and found.node == decision.node and (found.uid, found.attempt) != key

    async def _write(self, bind: Bind, lock: str) -> str:
        answer = Answer(0)
        for _ in range(TRIES):
            answer = await self._api.get(resources.NODES, "", bind.node)
            meta = _meta_of(answer)
            if meta is not None:
                text = _lock_of(meta, lock)
                verdict = judge_lock(lock, text, bind, holder_exists=bool(text) and await self._needs(text, bind.node))
                if not verdict.may_take:
                    return verdict.problem.message if verdict.problem is not None else "is held"
                if text and not is_held_by(text, bind.namespace, bind.pod):
                    log.warning("the lock of a node is taken over", node=bind.node, lock=lock, held=text[:80])
                    metrics.NODE_LOCKS.labels("taken over").inc()
                answer = await self._patch(bind.node, meta, lock, lock_value(bind))
                if answer.ok:
                    return ""
            await self._clock.sleep(PAUSE_S)
        return f"the node cannot be written: {answer.status} {answer.reason}"

    async def _needs(self, text: str, node: str) -> bool:
        """Whether the pod that a lock names may still be about to get its devices. Who does not answer says nothing."""
        lock = read_lock(text)
        if lock is None:
            return False
        answer = await self._api.get(resources.PODS, lock.namespace, lock.pod)
        if answer.missing:
            return False
        pod = _read(_POD, answer)
        if pod is None:
            return True
        if pod.status.phase in OVER or pod.spec.node_name not in ("", node):
            return False
        if pod.spec.node_name or names.ANNOTATION_ATTEMPT not in (pod.metadata.annotations or {}):
            return True
        decision = self._cluster.book.open_decision((lock.namespace, lock.pod))
        return decision is not None and decision.node == node  # else its decision for this node was withdrawn

    async def _patch(self, node: str, meta: kube.Meta, lock: str, value: str | None) -> Answer:
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        return await self._api.patch(resources.NODES, "", node, {"metadata": {**guard, "annotations": {lock: value}}})


def _lock_of(meta: kube.Meta, lock: str) -> str:
    return (meta.annotations or {}).get(lock, "")


def _meta_of(answer: Answer) -> kube.Meta | None:
    found = _read(_NODE, answer)
    return found.metadata if found is not None else None


def _read(decoder: msgspec.json.Decoder[Any], answer: Answer) -> Any:
    """The object in an answer; None without a readable one."""
    if not answer.ok:
        return None
    try:
        return decoder.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
