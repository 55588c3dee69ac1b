"""A ledger without space: it refuses what it refuses, and deletions go through, so that it comes back by itself."""

from __future__ import annotations

import pytest

from berth.bus import Bus, Committed, Refused, Write, jetstream
from berth.bus.deleting import delete
from berth.bus.topology import TOPOLOGY
from berth.contracts import buckets


@pytest.fixture
async def small(bus: Bus) -> Bus:
    """Space for some 15 entries."""
    (ledger,) = (each for each in TOPOLOGY if each.name == buckets.LEDGER)
    await jetstream.call(bus._link, "STREAM.UPDATE.KV_berth_ledger", ledger.config(1) | {"max_bytes": 12_000})
    return bus


async def fill(bus: Bus) -> dict[str, int]:
    """Sequences by key of what went in before not even a small entry did."""
    stored: dict[str, int] = {}
    for size in (600, 60, 1):
        key = f"e1.decision.{len(stored)}"
        while isinstance(outcome := await bus.ledger().commit([Write(key, b"x" * size, 0)]), Committed):
            stored[key] = outcome.sequence
            key = f"e1.decision.{len(stored)}"
        assert isinstance(outcome, Refused)
        assert outcome.is_full
    return stored


async def test_deletions_free_space_again(small: Bus) -> None:
    stored = await fill(small)
    await delete(small.ledger(), [Write(key, None, sequence) for key, sequence in stored.items()])
    assert isinstance(await small.ledger().commit([Write(f"e1.plan.{n}", b"x" * 600, 0) for n in range(3)]), Committed)


async def test_of_what_is_deleted_one_stale_key_keeps_no_other(small: Bus) -> None:
    stored = await fill(small)
    await delete(
        small.ledger(),
        [Write(key, None, sequence + (number == 1)) for number, (key, sequence) in enumerate(stored.items())],
    )
    left = [key for key in stored if not (found := await small.ledger().read(key)) or not found.deleted]
    assert left == [list(stored)[1]]


async def test_the_keys_of_an_epoch(small: Bus) -> None:
    stored = await fill(small)
    await small.ledger().commit([Write("e2.plan.p", b"x", 0)])
    assert await small.ledger().keys("e1.>") == sorted(stored)
