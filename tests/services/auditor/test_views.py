"""The ledger as the auditor keeps it."""

from berth.auditor.views import LedgerView
from berth.bus.port import Entry


def test_an_end_counts_until_the_bucket_begins_anew() -> None:
    ends: list[bool] = []
    ledger = LedgerView(lambda: ends.append(ledger.is_known))
    ledger.apply(Entry("k", b"1", False, 1, 0, False, None))
    assert not ledger.is_known
    ledger.end(1)
    assert ends == [True]
    assert ledger.copy() == {"k": (1, b"1")}
    ledger.reset()
    assert (ledger.is_known, ledger.copy()) == (False, {})
