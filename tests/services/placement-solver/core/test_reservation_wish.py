"""What a pod says about reservations and cannot mean: refused by the field, whether there are reservations or not."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts import names
from berth.testing.builders import pod

FIELD = f"metadata.annotations[{names.ANNOTATION_RESERVATION_AFFINITY}]"


@pytest.mark.parametrize("text", ['{"name": ', '{"reservationSelector": [1]}', "[]"])
def test_an_affinity_that_cannot_be_read_is_named(solving: Any, text: str) -> None:
    world = solving()
    world.node("n", cpu=4000)
    world.pod(pod("p").requests(cpu=100).annotation(names.ANNOTATION_RESERVATION_AFFINITY, text))
    (refusal,) = world.round().refusals
    assert [reason.field for reason in refusal.reasons] == [FIELD]


def test_without_any_reservation_an_affinity_finds_none(solving: Any) -> None:
    world = solving()
    world.node("n", cpu=4000)
    world.pod(pod("p").requests(cpu=100).annotation(names.ANNOTATION_RESERVATION_AFFINITY, '{"name": "r"}'))
    (refusal,) = world.round().refusals
    assert "no reservations match" in refusal.reasons[0].message
