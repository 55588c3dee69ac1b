"""`borrowed`: what a pod borrows of the idle capacity of Reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.ledger import Grant, Loan
from berth.resources.amounts import Amounts
from berth.rules.records.seam import Bound, read_json

_LOANS: Final = msgspec.json.Decoder(list[Loan])


class Borrowed:
    """See `Record`."""

    annotations: tuple[str, ...] = (names.ANNOTATION_BORROWED,)
    nothing = ""

    def write(self, bound: Bound) -> dict[str, str]:
        """See `Record`."""
        if not bound.loans:
            return {}
        return {names.ANNOTATION_BORROWED: msgspec.json.encode(list(bound.loans)).decode()}

    def read(self, annotations: Mapping[str, str]) -> tuple[Loan, ...]:
        """The loans; none when there are none or they cannot be read."""
        text = annotations.get(names.ANNOTATION_BORROWED, "")
        loans = read_json(_LOANS, text) if text else None
        return tuple(loans or ())


def within_holding(loans: Iterable[Loan], amounts: Mapping[str, int], grants: Iterable[Grant]) -> tuple[Loan, ...]:
    """Of these loans what their holder explains by what it takes itself: no more of all together than it has."""
    left = Counter(amounts)
    left_of: dict[tuple[str, str], Counter[str]] = {}
    for grant in grants:
        left_of.setdefault((grant.kind, grant.id), Counter()).update(grant.amounts)
    found = []
    for loan in loans:
        explained = _explained(loan.amounts, left)
        parts = []
        for grant in loan.grants:
            part = _explained(grant.amounts, left_of.get((grant.kind, grant.id), Counter()))
            if part:
                parts.append(replace(grant, amounts=part))
        if explained or parts:
            found.append(replace(loan, amounts=explained, grants=parts))
    return tuple(found)


def _explained(amounts: Mapping[str, int], left: Counter[str]) -> Amounts:
    """No more of each than is left, which becomes less by that."""
    found = {name: part for name, amount in amounts.items() if (part := min(amount, left[name])) > 0}
    left.subtract(found)
    return found
