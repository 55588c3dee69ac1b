"""Epochs follow each other at a bounded rate, and each is raised in the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.cluster_writer.core.epoch_rate import BURST, WINDOW_S, epoch_delay_s


@given(st.lists(st.floats(0, 1000), max_size=60))
def test_no_window_holds_more_than_a_burst(pauses: list[float]) -> None:
    raised: list[float] = []
    now = 0.0
    for pause in pauses:
        now += pause
        delay = epoch_delay_s(raised, now)
        assert 0.0 <= delay <= WINDOW_S
        now += delay
        assert epoch_delay_s(raised, now) <= 1e-6
        assert len([at for at in raised if at > now - WINDOW_S + 1e-6]) < BURST
        raised.append(now)
