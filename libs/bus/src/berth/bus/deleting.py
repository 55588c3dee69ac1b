"""Deleting keys of the ledger, also when it is full."""

from __future__ import annotations

from collections.abc import Sequence

from berth.bus.port import LedgerPort, Refused, Write

BATCH_MAX = 200


async def delete(ledger: LedgerPort, writes: Sequence[Write]) -> None:
    """Write deletion markers in batches. What is refused together is tried one by one.

    So a key that somebody else has written meanwhile keeps no other from going; and a full bucket, which takes no batch
    whatever is in it, takes a marker that replaces something larger.
    """
    for start in range(0, len(writes), BATCH_MAX):
        some = writes[start : start + BATCH_MAX]
        if len(some) > 1 and not isinstance(await ledger.commit(some), Refused):
            continue
        for write in some:
            await ledger.commit([write])
