"""The ledger as the auditor keeps it."""

import asyncio

from berth.auditor.views import LedgerShelf
from berth.bus.port import Entry


def test_an_end_counts_until_the_bucket_begins_anew() -> None:
    at_end = asyncio.Event()
    shelf = LedgerShelf(at_end)
    shelf.apply(Entry("k", b"1", False, 1, 0, False, None))
    assert not at_end.is_set()
    shelf.end(1)
    assert at_end.is_set()
    assert shelf.copy() == {"k": (1, b"1")}
    shelf.reset()
    assert (at_end.is_set(), shelf.is_known, shelf.copy()) == (False, False, {})
