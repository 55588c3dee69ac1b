"""What a bind writes: a record of each kind, and over what a user wrote of a kind that it has nothing for."""

from __future__ import annotations

from collections.abc import Mapping

from berth.rules.records import registry
from berth.rules.records.seam import Bound


def annotations_of(bound: Bound) -> dict[str, str]:
    """The records of an object that is bound with this."""
    return {name: text for record in registry.RECORDS for name, text in record.write(bound).items()}


def written_over(decided: Mapping[str, str], carried: Mapping[str, str]) -> dict[str, str]:
    """What the bind of a decision writes: its records, and nothing over every other that the pod `carried`."""
    nothing = {name: record.nothing for record in registry.RECORDS for name in record.annotations if carried.get(name)}
    return {**nothing, **decided}


def names_of_records() -> tuple[str, ...]:
    """Every annotation that a bind writes: each is evidence for somebody."""
    return tuple(name for record in registry.RECORDS for name in record.annotations)
