"""The figures of Reservations as series for monitoring, some of them by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from berth.contracts.state import Reservation
from berth.reservation_manager.core.life import Phase

PHASE_LABELS: Final = ("name", "phase")
AMOUNT_LABELS: Final = ("name", "resource", "field")
RESERVATIONS_MAX: Final = 1_000
"""So many Reservations have series, by name: monitoring holds each for a long time."""

Row: TypeAlias = tuple[tuple[str, ...], float]


def phase_rows(reservations: Mapping[str, Reservation]) -> Iterator[Row]:
    """1 for the phase that each shows; one that shows none yet is Pending."""
    for each in _shown(reservations):
        yield (each.name, each.phase or Phase.PENDING.value), 1.0


def amount_rows(reservations: Mapping[str, Reservation]) -> Iterator[Row]:
    """What each holds (`allocatable`) and what of it is in use (`allocated`), in base units, cpu in thousandths."""
    for each in _shown(reservations):
        for field, amounts in (("allocatable", each.allocatable), ("allocated", each.allocated)):
            for resource, amount in amounts.items():
                yield (each.name, resource, field), float(amount)


def _shown(reservations: Mapping[str, Reservation]) -> Iterable[Reservation]:
    return islice((reservations[name] for name in sorted(reservations)), RESERVATIONS_MAX)
