"""The series of Reservations: by name, and of so many only."""

from __future__ import annotations

from berth.contracts.state import Reservation
from berth.reservation_manager.core import series


def made(name: str, **fields: object) -> Reservation:
    return Reservation(name=name, uid=name, version=1, **fields)  # type: ignore[arg-type]


def test_the_phase_and_the_amounts_of_each() -> None:
    known = {
        "b": made("b", phase="Available", allocatable={"cpu": 4000}, allocated={"cpu": 1500}),
        "a": made("a"),
    }
    assert list(series.phase_rows(known)) == [(("a", "Pending"), 1.0), (("b", "Available"), 1.0)]
    amounts = [(("b", "cpu", "allocatable"), 4000.0), (("b", "cpu", "allocated"), 1500.0)]
    assert list(series.amount_rows(known)) == amounts


def test_only_so_many_have_series() -> None:
    known = {name: made(name) for name in map(str, range(series.RESERVATIONS_MAX + 5))}
    assert len(list(series.phase_rows(known))) == series.RESERVATIONS_MAX
