"""Grants are written in the form of 0.1 as well, and read in either form."""

from __future__ import annotations

import pytest

from berth.contracts.grants import all_of, allocation_of, as_devices, device, granted
from berth.contracts.ledger import Allocation, DeviceGrant, Grant

CARD = device("gpu", 3, {"koordinator.sh/gpu-core": 50})
CARD_BEFORE = DeviceGrant(kind="gpu", minor=3, amounts={"koordinator.sh/gpu-core": 50})
ZONE = Grant(kind="zone", id="3", amounts={"cpu": 2000})


def test_a_device_is_named_by_its_minor() -> None:
    assert (CARD.id, CARD.minor) == ("3", 3)


@pytest.mark.parametrize("id_", ["", "x", "-1", "1.5", "0-3", "9" * 5000])
def test_an_id_that_is_no_minor(id_: str) -> None:
    assert Grant(kind="gpu", id=id_).minor == -1


def test_what_is_written_is_read_by_readers_of_either_form() -> None:
    written = allocation_of({"cpu": 1}, [CARD, ZONE])
    assert written.devices == [CARD_BEFORE], "readers of 0.1 know devices alone"
    assert granted(written) == (CARD, ZONE)


def test_what_was_written_before_there_were_grants_is_read() -> None:
    assert granted(Allocation(devices=[CARD_BEFORE])) == (CARD,)
    assert granted(Allocation()) == ()


def test_grants_go_before_devices() -> None:
    assert all_of([ZONE], [CARD_BEFORE]) == (ZONE,)
    assert as_devices([ZONE]) == []
