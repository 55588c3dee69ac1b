"""Amounts with the terms that they are the sum of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Sum(NamedTuple):
    """An amount by its terms, and what they were worked out from. The amount is exactly the sum of the terms."""

    terms: Mapping[str, int]
    inputs: Mapping[str, int] = {}

    @property
    def amount(self) -> int:
        """What the terms come to."""
        return sum(self.terms.values())

    def plus(self, name: str, amount: int) -> Sum:
        """With one more term; one of 0 is left out."""
        return self._replace(terms={**self.terms, name: amount}) if amount else self

    def at_least_zero(self) -> Sum:
        """Not below 0: nobody lends less than nothing."""
        return self.plus("floor", max(0, -self.amount))

    def at_most(self, name: str, limit: int) -> Sum:
        """Not above a limit."""
        return self.plus(name, min(0, limit - self.amount))


def share(amount: int, percent: int) -> int:
    """So many percent, without what is behind the point; below 0 as well."""
    whole = abs(amount * percent) // 100
    return whole if amount * percent >= 0 else -whole
