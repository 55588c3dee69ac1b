"""Answers what this node's agent has written last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from berth.contracts.codec import decode, encode
from berth.contracts.node_audit import TrailAnswer, TrailQuestion
from berth.node_qos_enforcer.executor.trail import Trail

ENTRIES_MAX: Final = 100


def answering(node: str, trail: Trail, now: Callable[[], float]) -> Callable[[bytes], Awaitable[bytes | None]]:
    """The answer to a question; one about another node is left to its agent."""

    async def answer(payload: bytes) -> bytes | None:
        if decode(payload, TrailQuestion).name != node:
            return None
        return encode(TrailAnswer(node=node, at=now(), entries=trail.newest_first[:ENTRIES_MAX]))

    return answer
