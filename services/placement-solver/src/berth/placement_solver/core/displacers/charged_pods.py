"""Which pods each quota group pays for."""

from __future__ import annotations

from collections.abc import Iterable

from berth.placement_solver.core.seams import Charge
from berth.resources.amounts import Amounts
from berth.transaction.claims import Claim, Name


class ChargedPods:
    """A tally: told of each claim that comes or goes."""

    counts_kept = False

    def __init__(self) -> None:
        self._of: dict[str, dict[tuple[Name, str], Claim]] = {}
        self._sums: dict[str, Amounts] = {}
        """Of the groups whose claims have not changed since they were added up."""

    def apply(self, charge: Charge, sign: int) -> None:
        """See `Tally`. A decision that has become a bind is the same claim here."""
        claim = charge.claim
        if not claim.quota:
            return
        key = (claim.name, claim.uid)
        self._sums.pop(claim.quota, None)
        if sign > 0:
            self._of.setdefault(claim.quota, {})[key] = claim
        elif (claims := self._of.get(claim.quota)) is not None:
            claims.pop(key, None)
            if not claims:
                del self._of[claim.quota]

    def of(self, tree: str, group: str) -> Iterable[Claim]:
        """The claims that are charged to a group itself, not to one below it."""
        return list(self._of.get(f"{tree}/{group}", {}).values())

    def amounts(self, tree: str, group: str) -> Amounts:
        """What is charged to a group itself."""
        quota = f"{tree}/{group}"
        known = self._sums.get(quota)
        if known is None:
            added: dict[str, int] = {}
            for claim in self._of.get(quota, {}).values():
                for name, amount in claim.charged.items():
                    added[name] = added.get(name, 0) + amount
            known = self._sums[quota] = added
        return known

    def groups(self, tree: str) -> list[str]:
        """The groups of a tree that pay for somebody, by name."""
        return sorted(name for each, _, name in (key.rpartition("/") for key in self._of) if each == tree)
