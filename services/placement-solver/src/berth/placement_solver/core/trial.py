"""Placements that are tried on the live columns, and can be taken back."""

from __future__ import annotations

from typing import Self

from berth.placement_solver.core.capacity import Capacity
from berth.transaction.claims import Claim, Name
from berth.transaction.nominations import Nomination


class Trial:
    """Placements applied to the capacity, and nominations released for them; `undo` takes both back, and so does the
    end of a `with` block."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self.claims: list[Claim] = []
        self._released: list[tuple[int, Nomination]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def add(self, claim: Claim) -> None:
        """Apply a claim."""
        self._capacity.apply(claim, 1)
        self.claims.append(claim)

    def amend(self, claim: Claim) -> None:
        """The claim that was applied last, with other steps before it."""
        self._capacity.apply(self.claims[-1], -1)
        self._capacity.apply(claim, 1)
        self.claims[-1] = claim

    def release(self, name: Name) -> Nomination | None:
        """Give back what a pod itself is nominated to, for the claim that is added next."""
        nomination = self._capacity.nominated.release(name)
        if nomination is not None:
            self._released.append((len(self.claims), nomination))
        return nomination

    def take_back(self, back_to: int) -> None:
        """Take back every claim after the first `back_to`, newest first; what was released for them stays so."""
        while len(self.claims) > back_to:
            self._capacity.apply(self.claims.pop(), -1)

    def undo(self, back_to: int = 0) -> None:
        """Take back every claim after the first `back_to`, newest first, and what was released for them."""
        self.take_back(back_to)
        while self._released and self._released[-1][0] >= back_to:
            self._capacity.nominated.restore(self._released.pop()[1])
