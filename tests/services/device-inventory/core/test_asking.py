"""When a request is sent again: not at once, later and later, and at once when it is about something else."""

from __future__ import annotations

from itertools import pairwise

from berth.device_inventory.core.asking import PAUSE_MAX_S, asked


def test_a_request_that_does_not_show_is_repeated_later_and_later() -> None:
    before, sent, now = None, [], 0.0
    while now < 4 * PAUSE_MAX_S:
        request = asked(before, "a", now_s=now, pause_s=30.0)
        if request is not None:
            sent.append(now)
            before = request
        now += 10.0
    pauses = [later - earlier for earlier, later in pairwise(sent)]
    assert pauses[:4] == [30.0, 60.0, 120.0, 240.0]
    assert max(pauses) == PAUSE_MAX_S


def test_another_wish_is_sent_at_once() -> None:
    first = asked(None, ("apply", 1), now_s=0.0, pause_s=30.0)
    assert first is not None
    assert asked(first, ("apply", 2), now_s=0.1, pause_s=30.0) is not None
