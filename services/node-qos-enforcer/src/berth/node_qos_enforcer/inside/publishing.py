"""Publishes how the agent stands with the container runtime, and what it finds wrong with pods.

Whoever reads it must know an agent that does not run from one that has nothing to say, so it is written once a minute
as well. An agent that is no plugin withdraws what a former one has published.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from berth.bus.port import OwnedPort
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.node_runtime import NodeRuntime
from berth.contracts.subjects import named_key
from berth.node_qos_enforcer.inside.known import Inside
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context, Periodic

LOOK_S: Final = 1.0
REPEAT_S: Final = 60.0
CONNECT_S: Final = 1.0
"""For so long the first word waits for the runtime: an agent that is only started anew has its label stay."""


class RuntimePublisher:
    """One node's entry."""

    def __init__(self, ctx: Context[Settings], known: KnownNode, inside: Inside) -> None:
        """Nothing is published before `run`."""
        self._ctx = ctx
        self._known = known
        self._inside = inside
        self._key = named_key("runtime", known.node)
        self._last: NodeRuntime | None = None
        self._published_s = 0.0
        self._began_s = ctx.clock.monotonic()
        self._bucket: OwnedPort

    async def run(self) -> None:
        """Publish until cancelled."""
        ctx = self._ctx
        self._bucket = ctx.bus.owned(
            buckets.METRICS, keys=self._key, on_conflict=lambda _: self._again(), on_reset=self._again
        )
        await self._bucket.ready()
        if not ctx.settings.nri_socket:
            published = self._bucket.keys()
            if self._key in published:
                self._bucket.delete(self._key)
            return
        async for _ in Periodic(ctx.clock, LOOK_S).ticks(at_once=True):
            self.look()

    def look(self) -> None:
        """Publish what is new, or what was said a while ago."""
        now_s = self._ctx.clock.monotonic()
        found = self._found()
        if self._last is None and not self._is_connected and now_s - self._began_s < CONNECT_S:
            return
        is_same = self._last is not None and replace(found, at=self._last.at) == self._last
        if not is_same or now_s - self._published_s >= REPEAT_S:
            self._last, self._published_s = found, now_s
            self._bucket.put(self._key, encode(found))

    @property
    def _is_connected(self) -> bool:
        plugin = self._known.plugin()
        return plugin is not None and plugin.connected

    def _found(self) -> NodeRuntime:
        plugin = self._known.plugin()
        return NodeRuntime(
            node=self._known.node,
            at=round(self._ctx.clock.now(), 3),
            isolation=plugin.isolation if plugin is not None else "",
            reason=plugin.reason if plugin is not None else "",
            findings=self._inside.findings.of_pods(self._inside.board.pods),
        )

    def _again(self) -> None:
        """The bucket lost it, or somebody else wrote it."""
        if self._last is not None:
            self._bucket.put(self._key, encode(self._last))
