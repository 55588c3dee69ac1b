"""How long a rejected pod is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.queueing import BackOff
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("kube-scheduler/backoff"))
def test_vector(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    back_off = BackOff(given["initialMs"], given["maxMs"])
    counts = given["unschedulableCount"], given["consecutiveErrors"]
    assert back_off.pause_ms(*counts) == expect["backoffMs"]


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_it_grows_up_to_its_limit(rejections: int, more: int) -> None:
    back_off = BackOff()
    assert back_off.pause_ms(rejections) <= back_off.pause_ms(rejections + more) <= back_off.max_ms
