"""Which pods each quota group pays for."""

from __future__ import annotations

from collections.abc import Iterable

from berth.transaction.claims import Claim, Name


class ChargedPods:
    """A tally: told of each claim that comes or goes."""

    counts_kept = False

    def __init__(self) -> None:
        self._of: dict[str, dict[tuple[Name, str], Claim]] = {}

    def apply(self, claim: Claim, sign: int) -> None:
        """A claim holds (1), or holds no longer (-1). A decision that has become a bind is the same claim here."""
        if not claim.quota or claim.is_reservation:
            return
        key = (claim.name, claim.uid)
        if sign > 0:
            self._of.setdefault(claim.quota, {})[key] = claim
        elif (claims := self._of.get(claim.quota)) is not None:
            claims.pop(key, None)
            if not claims:
                del self._of[claim.quota]

    def of(self, tree: str, group: str) -> Iterable[Claim]:
        """The claims that are charged to a group itself, not to one below it."""
        return list(self._of.get(f"{tree}/{group}", {}).values())

    def groups(self, tree: str) -> list[str]:
        """The groups of a tree that pay for somebody, by name."""
        return sorted(name for each, _, name in (key.rpartition("/") for key in self._of) if each == tree)
