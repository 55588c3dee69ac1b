"""What solvers write of their prices makes sense, names one table by one version, and comes back when it is lost.

Judged by what the contract says of a table, not by what the solver asks of an answer.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from tests.simulation.harness import Harness

from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.prices import PriceTable
from berth.contracts.subjects import prices_key

LAW: Final = "prices"
SOLVER: Final = "placement-solver"
SIZES: Final = 100
KINDS: Final = 12


class PriceTables:
    """Sees what the bus stores. Made before anything happens."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._named: dict[tuple[str, int], object] = {}
        self._keys: set[str] = set()
        self.broken: list[str] = []
        harness.nats.on_prices.append(self._stored)

    def missing(self) -> list[str]:
        """At the end, when nothing goes wrong any more: tables that were lost and have not come back. A solver that was
        started meanwhile may know nothing any more."""
        if any(replica.starts > 1 for replica in self._harness.host.replicas if replica.spec.name == SOLVER):
            return []
        stream = self._harness.nats.streams.get(f"KV_{buckets.PRICE}")
        there = {each.subject for each in stream.messages.values()} if stream is not None else set()
        return [f"{key} was lost and is not written again" for key in sorted(self._keys - there)]

    def _stored(self, stored: Any) -> None:
        self._harness.observer.verdicts.judged(LAW)
        self._keys.add(stored.subject)
        try:
            table = decode(stored.data, PriceTable)
        except InvalidMessage as error:
            self.broken.append(f"{stored.subject} cannot be read: {error}")
            return
        self.broken += [f"{stored.subject} version {table.version}: {each}" for each in _wrong(table)]
        if not stored.subject.endswith(prices_key(table.solver)):
            self.broken.append(f"{stored.subject} is the table of {table.solver}")
        said = (table.shares, table.duals, table.turning_over, table.arriving, table.scarce)
        if self._named.setdefault((table.solver, table.version), said) != said:
            self.broken.append(f"{stored.subject}: version {table.version} was another table before")


def _wrong(table: PriceTable) -> list[str]:
    """What in a table cannot be."""
    prices = [each.price for each in table.shares]
    columns = {
        "shares": (prices, 1.0),
        "duals": (table.duals, 1.0),
        "turning_over": ([table.turning_over], 1.0),
        "arriving": ([each.part for each in table.arriving], 1.0),
        "scarce": ([each.pressure for each in table.scarce], 1e6),
        "admissions": ([value for each in table.admissions for value in (each.worth, each.pods)], 1e9),
    }
    found = [
        f"{name} are {values[:4]}..."
        for name, (values, most) in columns.items()
        if not all(isfinite(value) and 0.0 <= value <= most for value in values)
    ]
    if prices != sorted(prices):
        found.append(f"a larger share is worth less: {prices}")
    if table.source == "duals" and len(table.duals) != SIZES:
        found.append(f"{len(table.duals)} duals")
    if len(table.arriving) > KINDS or (table.arriving and abs(sum(each.part for each in table.arriving) - 1.0) > 1e-6):
        found.append(f"{len(table.arriving)} kinds of pods, whose parts do not make one, or too many")
    if table.version <= 0:
        found.append("a table of constants alone")
    return found
