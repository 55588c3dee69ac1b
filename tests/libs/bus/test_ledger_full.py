"""A ledger without room: it refuses what it refuses, and deletions go through, so that it comes back by itself."""

from __future__ import annotations

import pytest

from berth.bus import Bus, Committed, Refused, Write, jetstream
from berth.bus.topology import TOPOLOGY
from berth.contracts import buckets


@pytest.mark.xfail(strict=True, reason="a full bucket takes no batch, not even one that makes room")
async def test_deletions_make_room_again(bus: Bus) -> None:
    (ledger,) = (each for each in TOPOLOGY if each.name == buckets.LEDGER)
    await jetstream.call(bus._link, "STREAM.UPDATE.KV_berth_ledger", ledger.config(1) | {"max_bytes": 12_000})
    stored: dict[str, int] = {}
    for size in (600, 60, 1):
        while isinstance(
            outcome := await bus.ledger().commit([Write(f"e1.decision.{len(stored)}", b"x" * size, 0)]), Committed
        ):
            stored[f"e1.decision.{len(stored)}"] = outcome.sequence
        assert isinstance(outcome, Refused)
        assert outcome.code == 10077
    for key, sequence in list(stored.items())[:3]:
        assert isinstance(await bus.ledger().commit([Write(key, None, sequence)]), Committed)
