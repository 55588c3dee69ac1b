"""What share of the time a process waits for a core, from what the kernel counts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from berth.runtime.crowding import RECKONED_S, Crowding, Turns, turns_of_this_thread


def test_the_share_is_that_since_it_was_reckoned_last() -> None:
    counted = [Turns(10.0, 90.0), Turns(10.3, 90.1), Turns(10.31, 90.12), Turns(10.4, 90.4)]
    crowding = Crowding(lambda: counted.pop(0))
    assert crowding.share() == pytest.approx(0.25)
    assert crowding.share() == pytest.approx(0.25), "too little has happened since"
    assert crowding.share() == pytest.approx(0.75)


def test_who_was_never_ready_is_not_crowded() -> None:
    assert Crowding(lambda: Turns(1.0, 5.0)).share() == 0.0


def test_nobody_counts() -> None:
    assert Crowding().share() == 0.0
    assert turns_of_this_thread(Path("/nowhere"))() is None


@pytest.mark.parametrize("text", ["", "12\n", "a b c\n", "12 b 3\n"])
def test_what_cannot_be_read_counts_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "schedstat"
    file.write_text(text)
    assert turns_of_this_thread(file)() is None


def test_the_file_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("2000000000 1000000000 7\n")
    read = turns_of_this_thread(file)
    assert read() == Turns(2.0, 1.0)
    file.write_text("2500000000 4000000000 8\n")
    assert read() == Turns(2.5, 4.0)


@pytest.mark.skipif(not os.path.exists("/proc/thread-self/schedstat"), reason="the kernel does not count")
def test_what_the_kernel_counts_of_a_thread_that_works() -> None:
    read, crowding = turns_of_this_thread(), Crowding(turns_of_this_thread())
    before = read()
    assert before is not None
    ends_at = time.thread_time() + 2 * RECKONED_S
    while time.thread_time() < ends_at:
        pass
    after = read()
    assert after is not None
    assert after.ran_s - before.ran_s >= RECKONED_S
    assert 0.0 <= crowding.share() < 1.0
