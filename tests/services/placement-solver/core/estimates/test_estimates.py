"""How long pods stay, who starts when, and words that are corrected by what comes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.placement_solver.core.estimates.bands import Bands
from berth.placement_solver.core.estimates.ground import Arrives, Ground, Runs, Waits, Want
from berth.placement_solver.core.estimates.lifetimes import ENOUGH, Curves, Floats, Kind, Lifetimes
from berth.placement_solver.core.estimates.playing import played
from berth.placement_solver.core.estimates.stays import cards_of, kind_of
from berth.testing.builders import pod

KIND = ("part", "ml", "cpu=1")


def lifetimes(*seconds: float) -> Lifetimes:
    found = Lifetimes()
    for each in seconds:
        found.ended(KIND, each)
    return found


def left_s(curves: Curves, kind: Kind, age_s: float = 0.0) -> Floats:
    """How long pods of an age go on, in some of the ways in which it may be."""
    rng, rows = np.random.default_rng(1), np.full(40, curves.row(kind))
    return np.concatenate([curves.drawn(rng).left_s(rows, np.full(40, age_s)) for _ in range(30)])


@given(st.integers(0, 2**32))
@settings(max_examples=4)
def test_what_is_left_is_as_it_was_seen(seed: int) -> None:
    """Of those that have reached an age: medians agree, to the width of a bin."""
    rng = np.random.default_rng(seed)
    seen = rng.lognormal(6.0, 1.5, 1500)
    curves = lifetimes(*seen).curves((), [KIND])
    for age in (0.0, float(np.quantile(seen, 0.5))):
        expected = np.median(seen[seen > age] - age)
        assert expected / 1.5 < np.median(left_s(curves, KIND, age)) < expected * 1.5


def test_who_still_runs_counts_as_not_yet_ended() -> None:
    """Without them long ones would seem to end early: half of the pods are still there after an hour."""
    ends = lifetimes(*[100.0] * 50)
    assert np.mean(left_s(ends.curves((), [KIND]), KIND) < 150.0) > 0.9
    beside = left_s(ends.curves([(KIND, 3600.0)] * 50), KIND)
    assert 0.4 < np.mean(beside > 3600.0) < 0.6


def test_too_little_is_nothing_and_a_wider_kind_helps_out() -> None:
    few = lifetimes(*[100.0] * (int(ENOUGH) - 5))
    assert np.isinf(left_s(few.curves((), [KIND]), KIND)).all()
    many = lifetimes(*[100.0] * 50).curves((), [KIND])
    assert np.median(left_s(many, ("part", "other", "cpu=2"))) < 150.0
    assert np.median(left_s(many, ())) < 150.0


def test_who_runs_says_something_of_a_kind_of_which_none_has_ended() -> None:
    other = ("part", "ml", "cpu=2")
    ends = lifetimes(*[100.0] * 50)
    assert np.median(left_s(ends.curves([(other, 5000.0)] * 30), other)) > 5000.0
    assert np.median(left_s(ends.curves((), [KIND]), other)) < 150.0


def test_the_less_is_known_the_more_draws_differ() -> None:
    rng = np.random.default_rng(1)

    def differ(count: int) -> float:
        curves = lifetimes(*rng.lognormal(6.0, 1.0, count)).curves((), [KIND])
        medians = [
            np.median(curves.drawn(rng).left_s(np.full(200, curves.row(KIND)), np.zeros(200))) for _ in range(40)
        ]
        return float(np.std(np.log(medians)))

    assert differ(25) > 1.5 * differ(800)


def test_what_is_long_ago_counts_less_but_not_before_pods_have_come_and_gone() -> None:
    seen = [100_000.0] * 100 + [10.0] * 3000
    assert np.quantile(left_s(lifetimes(*seen).curves((), [KIND]), KIND), 0.95) < 100.0
    busy = Lifetimes()
    for each in seen:
        busy.ended(KIND, each, among=5000)
    assert np.quantile(left_s(busy.curves((), [KIND]), KIND), 0.99) > 10_000.0


def test_kinds_are_bounded() -> None:
    found = Lifetimes()
    for index in range(3000):
        found.ended(("part", f"g{index}", "x"), 10.0)
    assert len(found._ends) < 3000


@pytest.mark.parametrize(
    ("requests", "cards", "part"),
    [
        ({names.NVIDIA_GPU: 2}, 2, 0.0),
        ({names.GPU_CORE: 30, names.GPU_MEMORY_RATIO: 50}, 0, 0.5),
        ({names.KOORD_GPU: 400}, 4, 0.0),
        ({names.CPU: 1000}, 0, 0.0),
    ],
)
def test_cards_of_a_request(requests: dict[str, int], cards: int, part: float) -> None:
    assert cards_of(requests) == (cards, part)
    kind = kind_of(pod("p").requests(requests).build(1), ("", "ml"))
    assert kind[1] == "/ml"


def ground(*waits: Waits, runs: list[Runs], cards: int = 1, room: float = np.inf, **fields: object) -> Ground:
    found = {
        "free": np.array([[0.0], [0.0], [10.0]]),
        "cards": np.zeros((1, cards)),
        "room": np.array([[room]]),
        "runs": runs,
        "waits": list(waits),
        "arrives": [],
    }
    return Ground(**{**found, **fields})  # type: ignore[arg-type]


def median(found: dict[str, list[float]], unit: str) -> float:
    return float(np.median(found[unit]))


def test_who_waits_starts_when_enough_has_ended() -> None:
    curves = lifetimes(*np.linspace(50.0, 150.0, 200)).curves((), [KIND])
    one = Want(((0, 1000.0),), cards=1)
    runs = [Runs(0, 0.0, KIND, Want(((0, 1000.0),)), ((index, 1.0),)) for index in range(3)]
    small, large = Waits("small", one, 1, KIND), Waits("large", one._replace(cards=3), 1, KIND)
    first = played(ground(small, runs=runs, cards=3), curves, 1, 50, lambda: False)
    assert 50.0 < median(first, "small") < 100.0
    alone = played(ground(large, runs=runs, cards=3), curves, 1, 50, lambda: False)
    assert median(alone, "large") > median(first, "small")
    behind = played(ground(small, large, runs=runs, cards=3), curves, 1, 50, lambda: False)
    assert median(behind, "large") > median(alone, "large")


def test_who_arrives_takes_what_others_wait_for() -> None:
    curves = lifetimes(*np.linspace(50.0, 150.0, 200)).curves((), [KIND])
    part, whole = Want((), part=0.5), Want((), cards=1)
    runs = [Runs(0, 0.0, KIND, part, ((0, 0.5),)), Runs(0, 0.0, KIND, part, ((0, 0.5),))]
    waits = Waits("whole", whole, 1, KIND)
    alone = played(ground(waits, runs=runs), curves, 1, 10, lambda: False, 200)
    arrives = [Arrives(part, KIND, None, 0, 20.0)]
    beside = played(ground(waits, runs=runs, arrives=arrives), curves, 1, 10, lambda: False, 200)
    assert median(beside, "whole") > median(alone, "whole")


def test_quota_keeps_waiting_what_nodes_would_take() -> None:
    curves = lifetimes(*np.linspace(50.0, 150.0, 200)).curves((), [KIND])
    want = Want((), groups=(0,), charged=((0, 5.0),))
    runs = [Runs(0, 0.0, KIND, want)]
    waits = Waits("p", want, 1, KIND)
    found = played(ground(waits, runs=runs, room=0.0), curves, 1, 40, lambda: False)
    assert 50.0 < median(found, "p") < 150.0
    never = played(
        ground(waits._replace(want=want._replace(charged=((0, 50.0),))), runs=runs, room=0.0), curves, 1, 9, bool
    )
    assert np.isinf(median(never, "p"))


def test_who_rests_is_passed_over_now_and_then() -> None:
    curves = lifetimes(*np.linspace(50.0, 150.0, 200)).curves((), [KIND])
    wants = [Want(((2, amount),), cards=1) for amount in (1.0, 2.0)]
    waits = [Waits(name, want, 1, KIND) for name, want in zip(("first", "second"), wants, strict=True)]
    found = played(ground(*waits, runs=[Runs(0, 0.0, KIND, wants[0], ((0, 1.0),))]), curves, 1, 100, lambda: False)
    before = np.mean(np.array(found["first"]) < np.array(found["second"]))
    assert 0.6 < before < 0.95


def test_a_gang_starts_whole() -> None:
    curves = lifetimes(*np.linspace(50.0, 150.0, 200)).curves((), [KIND])
    want = Want((), cards=1)
    runs = [Runs(0, 0.0, KIND, want, ((index, 1.0),)) for index in range(2)]
    one = played(ground(Waits("g", want, 1, KIND), runs=runs, cards=2), curves, 1, 60, lambda: False)
    both = played(ground(Waits("g", want, 2, KIND), runs=runs, cards=2), curves, 1, 60, lambda: False)
    assert median(both, "g") > median(one, "g")


def test_the_same_seed_says_the_same() -> None:
    curves = lifetimes(*np.linspace(50.0, 150.0, 200)).curves((), [KIND])
    made = ground(Waits("p", Want((), cards=1), 1, KIND), runs=[Runs(0, 0.0, KIND, Want(()), ((0, 1.0),))])
    assert played(made, curves, 3, 20, lambda: False) == played(made, curves, 3, 20, lambda: False)


def test_those_of_a_burst_come_in_a_burst() -> None:
    """A stretch of long waits between bursts is a good time for who waits: as many come, and at times nobody does."""
    curves = lifetimes(*np.linspace(50.0, 150.0, 200)).curves((), [KIND])
    part, whole = Want((), part=0.5), Want((), cards=1)
    runs = [Runs(0, 0.0, KIND, part, ((0, 0.5),)) for _ in range(2)]
    evenly = [Arrives(part, KIND, None, 0, 30.0)] * 40
    bursts = [Arrives(part, KIND, None, 0, 1170.0), *[Arrives(part, KIND, None, 0, 0.77)] * 39]

    def soon(arrives: list[Arrives]) -> float:
        made = ground(Waits("whole", whole, 1, KIND), runs=runs, arrives=arrives)
        return float(np.mean(np.array(played(made, curves, 1, 60, lambda: False, 600)["whole"]) < 3000.0))

    assert soon(bursts) > soon(evenly)


@pytest.mark.parametrize("factor", [0.2, 1.0, 8.0])
@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_words_come_true_as_often_as_they_say(factor: float, spread: float) -> None:
    """However wrong the picture is by a factor and in its spread: later words are right one in two, and nine in ten."""
    rng = np.random.default_rng(1)
    bands, now = Bands(), 0.0
    hits: list[tuple[bool, bool]] = []
    for index in range(1200):
        now += 100_000.0
        band = bands.band(rng.lognormal(5.0, 1.0, 40).tolist(), now)
        assert band is not None
        bands.say(f"u{index}", band)
        at = now + float(rng.lognormal(5.0, spread)) * factor
        hits.append((at <= band.half_at, at <= band.most_at))
        bands.started(f"u{index}", at)
    late = np.array(hits[400:], float)
    assert abs(late[:, 0].mean() - 0.5) < 0.05
    assert abs(late[:, 1].mean() - 0.9) < 0.05


@pytest.mark.parametrize("factor", [1 / 1.4, 1.4])
def test_a_picture_that_is_somewhat_wrong_is_corrected_within_two_hundred_words(factor: float) -> None:
    """All that a stretch of a few hundred pods has is its first words: they count from the first one on."""
    hits: list[tuple[bool, bool]] = []
    for seed in range(10):
        rng, bands = np.random.default_rng(seed), Bands()
        for index in range(200):
            now = 100_000.0 * index
            band = bands.band(rng.lognormal(7.0, 0.8, 40).tolist(), now)
            assert band is not None
            bands.say(f"u{index}", band)
            at = now + factor * float(rng.lognormal(7.0, 0.8))
            hits.append((at <= band.half_at, at <= band.most_at))
            bands.tick(at)
            bands.started(f"u{index}", at)
    half, most = np.mean(hits, axis=0)
    assert abs(half - 0.5) < 0.05
    assert abs(most - 0.9) < 0.035


def test_a_busy_period_does_not_spoil_a_right_picture() -> None:
    """Pods of one period are right or wrong together: who corrects at once what has just been wrong is wrong the next
    time."""
    rng = np.random.default_rng(1)
    bands, now = Bands(), 0.0
    losses: list[tuple[float, float]] = []
    for _ in range(40):
        common = float(rng.normal(0.0, 0.5))
        started: list[tuple[str, float]] = []
        for index in range(25):
            band = bands.band(rng.lognormal(7.0, np.hypot(0.5, 0.3), 40).tolist(), now)
            assert band is not None
            bands.say(f"{now}-{index}", band)
            at = now + float(np.exp(7.0 + common + rng.normal(0.0, 0.3)))
            losses.append((abs(np.log((at - now) / (band.half_at - now))), abs(np.log((at - now) / band.played[0]))))
            started.append((f"{now}-{index}", at))
        for unit, at in sorted(started, key=lambda each: each[1]):
            bands.tick(at)
            bands.started(unit, at)
        now += 1e6
    said, alone = np.array(losses).mean(axis=0)
    assert said < 1.05 * alone


def test_one_that_waits_beyond_its_time_is_known_before_it_starts() -> None:
    bands = Bands()
    band = bands.band([10.0] * 40, 0.0)
    assert band is not None
    bands.say("u", band)
    bands.tick(1000.0)
    assert bands.record == (1, 0.0, 0.0)
    assert not bands.is_open("u")


def test_one_that_is_gone_says_nothing_and_only_the_first_word_counts() -> None:
    bands = Bands()
    band = bands.band([10.0] * 40, 0.0)
    assert band is not None
    bands.say("u", band)
    bands.say("u", band._replace(half_at=1e9))
    bands.forget("u")
    bands.started("u", 5.0)
    assert bands.record.known == 0


def test_none_rather_than_a_guess() -> None:
    bands = Bands()
    assert bands.band([], 0.0) is None
    assert bands.band([10.0] * 5, 0.0) is None
    assert bands.band([10.0] * 30 + [np.inf] * 10, 0.0) is None
