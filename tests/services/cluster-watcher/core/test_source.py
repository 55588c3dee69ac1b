"""How soon a kind is listed again."""

from itertools import accumulate

import pytest

from berth.cluster_watcher.kinds import scopes
from berth.cluster_watcher.source import OLDER, Source

SHORTEST_S = 5.0


def after(older: int) -> float:
    source = Source(scopes(())[0])
    source.older = older
    source.ask_for_list(OLDER)
    return source.relist_pause_s(SHORTEST_S)


@pytest.mark.parametrize("older", [0, 1])
def test_the_first_list_that_shows_an_older_state_is_followed_by_another_soon(older: int) -> None:
    assert after(older) == SHORTEST_S


def test_a_server_that_was_set_back_is_asked_five_times_in_a_minute_at_most() -> None:
    listed_at_s = list(accumulate(after(older) for older in range(1, 100)))
    for start_s in listed_at_s:
        assert sum(1 for at_s in (0.0, *listed_at_s) if start_s - 60.0 < at_s <= start_s) <= 5


def test_a_longest_pause_never_undercuts_the_settings() -> None:
    source = Source(scopes(())[0])
    source.older = 50
    source.ask_for_list(OLDER)
    assert source.relist_pause_s(90.0) == 90.0


def test_a_list_that_is_wanted_for_another_reason_does_not_wait() -> None:
    source = Source(scopes(())[0])
    source.older = 50
    source.ask_for_list("state lost")
    assert source.relist_pause_s(SHORTEST_S) == SHORTEST_S
