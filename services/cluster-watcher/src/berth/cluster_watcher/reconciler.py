"""From the events of a reflector to steps for the publisher: one conversion and one encode per object, right when it is
read, so that nothing keeps the objects themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from berth import telemetry
from berth.bus.port import Clock
from berth.cluster_watcher import metrics
from berth.cluster_watcher.core.packing import pack
from berth.cluster_watcher.core.published_view import PublishedView
from berth.cluster_watcher.outbox import Absent, Began, Finished, Gone, Nothing, Outbox, Put, Reached
from berth.cluster_watcher.source import Source
from berth.contracts import state
from berth.contracts.base import Problem
from berth.contracts.kube import AnyObject
from berth.kube import Answer, ChangeKind, Handler
from berth.rules.reading.findings import problems_of

UNNAMED = "an object without a name"
ABSENT_AFTER_S = 2.0
"""How long the API server has to say that it does not know a kind before that is believed."""


class Reconciler(Handler[Any]):
    """Handles the events of one reflector for one source, until `close`."""

    def __init__(
        self,
        source: Source,
        outbox: Outbox,
        published: PublishedView,
        *,
        clock: Clock,
        report: Callable[[str, str, Problem], None] = lambda kind, key, problem: None,
    ) -> None:
        self._source = source
        self._kind = source.scope.kind
        self._outbox = outbox
        self._published = published
        self._clock = clock
        self._report = report
        self._is_open = True
        self._traces = self._kind.message is state.Pod
        self._malformed = metrics.MALFORMED.labels(self._kind.plural)
        self._relists = metrics.RELISTS.labels(self._kind.plural)
        self._handed_over: dict[str, int] = {}
        """Of a quiet kind, by key: the digest of what was last handed over, without its version."""

    def close(self) -> None:
        """Whatever this reflector still reports is void."""
        self._is_open = False

    # --- called by the reflector --------------------------------------------------------------------------------------

    def began(self) -> None:
        """See `berth.kube.Handler`."""
        if self._is_open:
            self._relists.inc()
            self._handed_over.clear()
            self._outbox.add(Began(self._source))

    def seen(self, raw: bytes, item: Any, version: int) -> None:
        """See `berth.kube.Handler`."""
        self._take(item, version)

    def finished(self, version: int, keys: frozenset[str]) -> None:
        """See `berth.kube.Handler`."""
        if self._is_open:
            self._source.refusal = self._source.missing_since = None
            self._outbox.add(Finished(self._source, version, keys))

    def changed(self, kind: ChangeKind, item: Any) -> None:
        """See `berth.kube.Handler`."""
        if self._is_open:
            self._source.refusal = None
        self._take(item, int(item.metadata.resource_version or 0))

    def deleted(self, item: Any | AnyObject, version: int) -> None:
        """See `berth.kube.Handler`."""
        if self._is_open:
            self._source.refusal = None
            meta = item.metadata
            key = self._kind.key(meta.namespace, meta.name)
            self._handed_over.pop(key, None)
            self._outbox.add(Gone(self._source, key, version))

    def bookmark(self, version: int) -> None:
        """See `berth.kube.Handler`."""
        if self._is_open:
            self._source.refusal = None
            self._outbox.add(Reached(self._source, version))

    def malformed(self, key: str, uid: str, version: int, field: str, message: str) -> None:
        """See `berth.kube.Handler`."""
        if not self._is_open:
            return
        problem = problems_of([(field, message)])[0]
        self._refuse(key or UNNAMED, problem)
        if not key:
            return
        at = self._kind.key_of_listed(key)
        bare = self._kind.unreadable(key, uid, version, problem)
        holds_capacity = self._kind.holds_capacity and at in self._published.keys(self._kind.prefix)
        value = None if bare is None or holds_capacity else pack(bare).value
        if value is None:
            self._outbox.add(Nothing(self._source, version))
        else:
            self._outbox.add(Put(self._source, at, version, value))

    def refused(self, answer: Answer, wait_s: float) -> None:
        """See `berth.kube.Handler`."""
        if not self._is_open:
            return
        source, now = self._source, self._clock.monotonic()
        source.refusal = answer
        if not answer.not_installed:
            source.missing_since = None
        elif source.missing_since is None:
            source.missing_since = now
        elif now - source.missing_since >= ABSENT_AFTER_S:
            self._outbox.add(Absent(source))

    async def wait_while_full(self) -> None:
        """See `berth.kube.Handler`."""
        await self._outbox.wait_while_full()

    # --- conversion ---------------------------------------------------------------------------------------------------

    def _take(self, item: Any, version: int) -> None:
        if not self._is_open:
            return
        meta = item.metadata
        key = self._kind.key(meta.namespace, meta.name)
        message: Any = self._kind.convert(item, version)
        value, cut = pack(message)
        if cut or getattr(message, "problems", None):
            self._refuse(key, problems_of(cut[:1])[0] if cut else message.problems[0])
        if value is None or (self._kind.is_quiet and self._says_nothing_new(key, message)):
            self._outbox.add(Nothing(self._source, version))
            return
        traceparent = None
        if self._traces and telemetry.recording():
            traceparent = self._begin_trace(key, message)
        self._outbox.add(Put(self._source, key, version, value, traceparent))

    def _says_nothing_new(self, key: str, message: Any) -> bool:
        """Since the list began, the same was handed over already."""
        digest = hash(msgspec.json.encode(msgspec.structs.replace(message, version=0)))
        if self._handed_over.get(key) == digest:
            return True
        self._handed_over[key] = digest
        return False

    def _begin_trace(self, key: str, message: state.Pod) -> str | None:
        """The first sight of an unbound pod is where its way through the services begins."""
        if message.node or key in self._published.keys(self._kind.prefix):
            return None
        now_ns = int(self._clock.now() * 1e9)
        attributes = {"k8s.namespace.name": message.namespace, "k8s.pod.name": message.name, "k8s.pod.uid": message.uid}
        return telemetry.emit_span("pod seen", None, now_ns, now_ns, attributes)

    def _refuse(self, key: str, problem: Problem) -> None:
        self._malformed.inc()
        self._source.malformed += 1
        self._report(self._kind.plural, key, problem)
