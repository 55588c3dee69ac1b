"""Clocks that stand still while something is in the way, one for each kind of reader."""

from __future__ import annotations

import pytest

from berth.invariants import Excuse, Reader
from berth.invariants.observer.calm import NEVER, Calm
from berth.invariants.observer.sight import Sight
from berth.invariants.observer.verdicts import Verdicts


def test_a_clock_that_stands_still_in_trouble() -> None:
    verdicts = Verdicts()
    calm = Calm(verdicts)
    shown = []
    for now_s, trouble_s in ((10, 5), (12, 1), (14, 4), (30, 2), (40, 0)):
        verdicts.now_s = now_s
        calm.trouble(trouble_s)
        shown.append(calm.now_s)
    assert shown == [10, 10, 10, 22, 30]  # in trouble from 10 to 18, and from 30 to 32
    assert [calm.at(moment_s) for moment_s in (0, 10, 17, 18, 20, 31, 40)] == [0, 10, 10, 10, 12, 22, 30]
    assert calm.since(17) == 20
    assert (calm.since(-NEVER), calm.since(NEVER)) == (NEVER, -NEVER)
    assert calm.troubled_s == 10
    calm.trouble(6)
    assert (calm.now_s, calm.troubled_s) == (30, 16), "what is known to come is trouble already"


@pytest.mark.parametrize("reader", Reader)
def test_what_hides_something_of_one_reader_hides_nothing_of_another(reader: Reader) -> None:
    verdicts = Verdicts()
    sight = Sight(verdicts, 10.0)
    sight.blind(20.0, [reader])
    verdicts.now_s = 15.0
    assert {each for each in Reader if not sight.has_seen(each, 0.0)} == {reader}
    assert not sight.have_all_seen(0.0)
    assert sight.excuse(0.0) is Excuse.HIDDEN
    assert sight.excuse(6.0) is Excuse.UNSEEN
    verdicts.now_s = 31.0
    assert sight.have_all_seen(0.0)


def test_nobody_sees_when_it_is_not_said_who() -> None:
    verdicts = Verdicts()
    sight = Sight(verdicts, 10.0)
    sight.blind(20.0)
    verdicts.now_s = 15.0
    assert not any(sight.has_seen(each, 0.0) for each in Reader)
