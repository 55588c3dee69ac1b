"""What the auditor sees of the bus: the ledger as it is, and how quotas are shared.

The ledger is kept as bytes: a look decodes what it needs, a burst of plans costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from berth.bus.port import Entry
from berth.contracts.quota import QuotaRules
from berth.invariants.payers import RULES_KEY, rules_in


class LedgerView:
    """Live keys with sequence and value."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        """`on_end` is called at each end of the bucket."""
        self.live: dict[str, tuple[int, bytes]] = {}
        self.is_known = False
        """The end was reached since the view was last empty."""
        self.read = 0
        """Messages read since the start."""
        self._on_end = on_end

    def reset(self) -> None:
        """The bucket begins anew."""
        self.live.clear()
        self.is_known = False

    def apply(self, entry: Entry) -> None:
        """The next message."""
        self.read += 1
        if entry.deleted:
            self.live.pop(entry.key, None)
        else:
            self.live[entry.key] = (entry.sequence, entry.value)

    def end(self, sequence: int) -> None:
        """The end: what is here is all there is."""
        self.is_known = True
        self._on_end()

    def copy(self) -> Mapping[str, tuple[int, bytes]]:
        """As it is now."""
        return dict(self.live)


class RulesView:
    """How quota-manager is set, as QUOTA says. Until it has said so the defaults hold."""

    def __init__(self) -> None:
        self.rules = QuotaRules()
        self.is_known = False
        """The end was reached once."""

    def reset(self) -> None:
        """The bucket begins anew. What held holds on until it says otherwise."""

    def apply(self, entry: Entry) -> None:
        """The next message; a deletion says nothing."""
        if entry.key == RULES_KEY and not entry.deleted:
            self.rules = rules_in(entry.value)

    def end(self, sequence: int) -> None:
        """The end: what is here is all there is."""
        self.is_known = True
