"""Tells the bus whom the node asks to have evicted: METRICS, `pressure.<node>`.

An ask that comes or goes is told at once, those that stand every ten seconds, so that nobody acts on what a process
that is gone has asked for. While the bus is away nobody is evicted, and the newest is told when it is back.
"""

from __future__ import annotations

from typing import Final

from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.node_pressure import EvictionAsk, NodePressure
from berth.contracts.subjects import named_key
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context, Periodic

TICK_S: Final = 0.5
AGAIN_S: Final = 10.0


async def press_for_ever(ctx: Context[Settings], known: KnownNode) -> None:
    """Tell until cancelled."""
    key = named_key("pressure", known.node)
    bucket = ctx.bus.owned(buckets.METRICS, keys=key)
    told: list[EvictionAsk] | None = None
    told_at_s = 0.0
    async for _ in Periodic(ctx.clock, TICK_S).ticks():
        asks, now_s = known.asks, ctx.clock.monotonic()
        if asks == told and not (asks and now_s - told_at_s >= AGAIN_S):
            continue
        for ask in asks:
            if ask not in (told or ()):
                figures.EVICTIONS.labels(ask.feature).inc()
                ctx.log.info("a pod is asked to leave", uid=ask.uid, feature=ask.feature, why=ask.message)
        bucket.put(key, encode(NodePressure(node=known.node, at=round(ctx.clock.now(), 3), asks=asks)))
        told, told_at_s = asks, now_s
