"""The ledger as the auditor keeps it."""

from berth.auditor.views import LedgerView, RulesView
from berth.bus.port import Entry
from berth.contracts.codec import encode
from berth.contracts.quota import QuotaGroup, QuotaRules
from berth.invariants.payers import RULES_KEY


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


def test_how_quota_manager_is_set_holds_until_it_says_otherwise() -> None:
    view, rules = RulesView(), QuotaRules(ignores_overhead=True)
    said = encode(QuotaGroup(tree="", name="koordinator-default-quota", revision=1, rules=rules))
    for value, deleted in ((said, False), (b"", True)):
        view.apply(Entry(RULES_KEY, value, deleted, 1, 0, False, None))
    view.apply(Entry("group.other", b"?", False, 2, 0, False, None))
    view.reset()
    assert (view.rules, view.is_known) == (rules, False)
    view.end(2)
    assert view.is_known
    view.apply(Entry(RULES_KEY, b"?", False, 3, 0, False, None))
    assert view.rules == QuotaRules()
