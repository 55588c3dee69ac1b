"""Deleting what earlier epochs left in LEDGER.

It is deleted a part at a time, so that followers and the bus hardly notice. While the entry of a new epoch cannot be
written since the bucket is full, the epoch before makes space for it: once the Lease names a later one nothing of it
counts any more, and solvers that have not read that decide in vain.
"""

from __future__ import annotations

import asyncio
from collections import deque

from berth.bus.deleting import delete
from berth.bus.errors import BusError
from berth.bus.port import LedgerPort, Write
from berth.contracts import subjects
from berth.telemetry import get_logger
from berth.transaction.ledger_view import LedgerView

log = get_logger(__name__)

KEYS_MAX = 1000
"""Keys looked at in one pass."""
READS_AT_ONCE = 64


class OldEpochs:
    """What is still to be deleted. One pass at a time."""

    def __init__(self, ledger: LedgerPort) -> None:
        self._ledger = ledger
        self._epoch = 0
        self._keys: deque[str] = deque()

    async def delete_some(self, view: LedgerView, current: int, *, free_space: bool = False) -> None:
        """Delete up to `KEYS_MAX` keys of one epoch below `current`, which the Lease has to name.

        `free_space`: that of the view, too, if the Lease names a later one. Where the bus does not answer, all of that
        epoch is looked at again in a later pass.
        """
        try:
            await self._delete_some(view, current, free_space)
        except BusError as error:
            log.debug("the keys of an earlier epoch are deleted later", epoch=self._epoch, error=str(error))
            self._keys.clear()
            if self._epoch:
                view.other_epochs.add(self._epoch)

    async def _delete_some(self, view: LedgerView, current: int, free_space: bool) -> None:
        if not self._keys:
            known = view.other_epochs | ({view.epoch.epoch} if free_space else set())
            below = current if free_space else min(current, view.epoch.epoch)
            self._epoch = min((each for each in known if 0 < each < below), default=0)
            if not self._epoch:
                return
            # What is written there from now on is noted again. A view that is still in this epoch asks once more.
            view.other_epochs.discard(self._epoch)
            self._keys = deque(await self._ledger.keys(f"{subjects.epoch_prefix(self._epoch)}>"))
            log.info("deleting what an earlier epoch left in the ledger", epoch=self._epoch, keys=len(self._keys))
        some = [self._keys.popleft() for _ in range(min(KEYS_MAX, len(self._keys)))]
        for start in range(0, len(some), READS_AT_ONCE):
            keys = some[start : start + READS_AT_ONCE]
            found = await asyncio.gather(*map(self._ledger.read, keys))
            writes = [
                Write(key, None, stored.sequence)
                for key, stored in zip(keys, found, strict=True)
                if stored is not None and not stored.deleted
            ]
            await delete(self._ledger, writes)
