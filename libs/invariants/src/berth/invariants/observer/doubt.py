"""What LEDGER may say wrongly since it has lost something, and until when. What is decided only: a bind always counts.

A loss is of two kinds. Either LEDGER no longer agrees with the Lease: its epoch is gone, or the newest plan that was
acted on. Then nobody knows who is bound under what was lost, all decisions are in doubt, and cluster-writer has to
raise the epoch (R10), which ends it.

Or only such plans are lost as nobody has acted on. cluster-writer goes on in the same epoch, and in doubt is no more
than what readers of before the loss may take for something else:

- decisions of plans whose entry was lost, or is an older one again: what they read as given up holds capacity again;
- decisions written under sequences that lost messages had: R1 may let one through who takes them for what was lost;
- lost decisions of plans that a wave may have begun together with a newer one, which is the one that the Lease names.

All else passes R1 as ever: who writes to an account knows its newest stamp, and with it, by R2, each decision behind
it. Doubt about a decision ends when its name is decided anew under a sequence never used before, when its name is free,
and with the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable


class Doubt:
    """`is_whole`: about every decision. `of`: the uids of those whose decision is in doubt."""

    def __init__(self) -> None:
        self.is_whole = False
        self.of: set[str] = set()
        self._used_until = 0

    def begins(self, used_until: int, uids: Iterable[str]) -> None:
        """LEDGER has lost something. `used_until`: the newest sequence that it had used by then."""
        self._used_until = max(self._used_until, used_until)
        self.of.update(uids)

    def decided(self, uid: str, sequence: int) -> None:
        """A decision is stored under this sequence."""
        if sequence <= self._used_until:
            self.of.add(uid)
        else:
            self.of.discard(uid)

    def over(self, uid: str) -> None:
        """Its decision is no more."""
        self.of.discard(uid)

    def ends(self) -> None:
        """A new epoch begins: its keys are others, and it is planned in on complete views only (R12)."""
        self.is_whole = False
        self.of.clear()
        self._used_until = 0

    def covers(self, uids: Iterable[str]) -> bool:
        """Whether one of these may be there only since LEDGER has lost something."""
        return self.is_whole or not self.of.isdisjoint(uids)
