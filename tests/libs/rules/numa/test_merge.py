"""The merge of hints against definitions that try every choice."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.cpus.kubelet import BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE
from berth.rules.numa.exclusive import NOT_EXCLUSIVE, SHARED, SINGLE, may_hold, zone_status
from berth.rules.numa.hints import Hint
from berth.rules.numa.merge import Alignment, merge
from berth.rules.numa.policy import POLICIES, REQUIRED
from berth.rules.numa.zone_sets import ZoneSet

ZONES = (0, 2, 5)
SETS: list[ZoneSet] = [each for size in (1, 2, 3) for each in itertools.combinations(ZONES, size)]
STRICT = (RESTRICTED, SINGLE_NUMA_NODE)

hints = st.builds(Hint, st.none() | st.sampled_from(SETS), st.booleans(), st.integers(0, 3))
lists = st.lists(hints, max_size=4, unique_by=lambda hint: hint.zones)
columns = st.lists(lists, max_size=3)
named_hints = st.builds(Hint, st.sampled_from(SETS), st.booleans(), st.just(0))
as_providers_say = st.lists(named_hints, max_size=5, unique_by=lambda hint: hint.zones) | st.just([Hint(None)])
"""Sets, by size, or no wish at all."""
statuses = st.fixed_dictionaries({zone: st.sampled_from(("idle", SINGLE, SHARED)) for zone in ZONES})


def providers(of: Sequence[Sequence[Hint]]) -> list[dict[str, list[Hint]]]:
    return [{f"r{place}": list(each)} for place, each in enumerate(of)]


class Choice(NamedTuple):
    zones: frozenset[int]
    preferred: bool
    unsatisfied: bool
    score: int
    named: bool


def choices(of: Sequence[Sequence[Hint]]) -> Iterator[Choice]:
    """Every choice of one hint of each resource, as the protocol describes it."""
    for choice in itertools.product(*(each or [Hint(None, False)] for each in of)):
        named = [frozenset(hint.zones) for hint in choice if hint.zones is not None]
        common = frozenset(ZONES).intersection(*named)
        if common:
            yield Choice(
                common,
                all(hint.preferred for hint in choice) and len(set(named)) <= 1,
                any(not each for each in of) or any(len(each) > len(common) for each in named),
                sum(hint.score for hint in choice if hint.zones is not None and frozenset(hint.zones) == common),
                bool(named),
            )


def mask(zones: frozenset[int]) -> int:
    return sum(1 << zone for zone in zones)


def in_turn(of: Sequence[Sequence[Hint]]) -> Choice:
    """Koordinator's way: one choice after the other against the best so far."""
    best = Choice(frozenset(ZONES), False, False, 0, True)
    for each in choices(of):
        if each.preferred != best.preferred:
            best = max(each, best, key=lambda choice: choice.preferred)
        elif (len(each.zones), mask(each.zones)) < (len(best.zones), mask(best.zones)) or (
            len(each.zones) == len(best.zones) and each.score > best.score
        ):
            best = each
    return best


def in_general(of: Sequence[Sequence[Hint]], allowed: Any) -> Choice | None:
    """The same without regard to the order of choices."""
    found = [each for each in choices(of) if allowed(each)]
    return min(
        found,
        key=lambda each: (not each.preferred, len(each.zones), -each.score, mask(each.zones), each.unsatisfied),
        default=None,
    )


def single(of: Sequence[Sequence[Hint]]) -> list[list[Hint]]:
    return [[hint for hint in each if hint.preferred and len(hint.zones or "x") == 1] for each in of]


@given(st.lists(as_providers_say, max_size=4), st.sampled_from((BEST_EFFORT, RESTRICTED)))
def test_without_scores_it_is_the_choice_in_turn(of: list[list[Hint]], policy: str) -> None:
    ordered = [sorted(each, key=by_size) for each in of]
    found = merge(ZONES, providers(ordered), policy)
    expected = in_turn(ordered)
    if policy == BEST_EFFORT:
        assert found.admitted
        assert frozenset(found.zones or ()) == (frozenset(ZONES) if expected.unsatisfied else expected.zones)
    elif all(of):
        assert found.admitted == expected.preferred
        assert frozenset(found.zones or ()) == expected.zones
        assert found.unsatisfied == expected.unsatisfied
    else:
        assert not found.admitted
    assert found.preferred == (expected.preferred and (policy == BEST_EFFORT or all(of)))


def by_size(hint: Hint) -> tuple[int, ZoneSet]:
    return (len(hint.zones or ()), hint.zones or ())


@given(columns)
def test_best_effort_is_the_best_of_all_choices(of: list[list[Hint]]) -> None:
    found = merge(ZONES, providers(of), BEST_EFFORT)
    best = in_general(of, lambda each: True)
    unsatisfied = best is None or (best.unsatisfied and not best.preferred)
    assert found.admitted
    assert frozenset(found.zones or ()) == (frozenset(ZONES) if unsatisfied or best is None else best.zones)
    assert found.preferred == (best is not None and best.preferred)


@given(columns, st.sampled_from(STRICT), statuses)
def test_strict_policies_admit_exactly_what_some_choice_prefers(
    of: list[list[Hint]], policy: str, status: Mapping[int, str]
) -> None:
    found = merge(ZONES, providers(of), policy, exclusive=REQUIRED, status=status)
    used = of if policy == RESTRICTED else single(of)
    preferred = in_general(
        used, lambda each: each.preferred and (not each.named or may_hold(tuple(each.zones), status))
    )
    admitted = preferred is not None and all(of) and all(used)
    assert found.admitted == admitted
    assert bool(found.reasons) != admitted
    if admitted and preferred is not None and preferred.named:
        assert frozenset(found.zones or ()) == preferred.zones
        assert policy == RESTRICTED or len(found.zones or ()) == 1


@given(columns, st.sampled_from(POLICIES), statuses)
def test_zones_that_a_pod_must_not_share_are_never_given(
    of: list[list[Hint]], policy: str, status: Mapping[int, str]
) -> None:
    found = merge(ZONES, providers(of), policy, exclusive=REQUIRED, status=status)
    if found.admitted and found.zones is not None and any(hint.zones for each in of for hint in each):
        assert may_hold(found.zones, status) or all(any(hint.zones is None for hint in each) for each in of)


@given(columns, st.sampled_from(POLICIES), statuses, st.randoms(use_true_random=False))
def test_no_order_matters(of: list[list[Hint]], policy: str, status: Mapping[int, str], chance: random.Random) -> None:
    first = merge(ZONES, providers(of), policy, exclusive=REQUIRED, status=status)
    named = [{name: chance.sample(each, len(each)) for name, each in some.items()} for some in providers(of)]
    chance.shuffle(named)
    second = merge(chance.sample(ZONES, 3), named, policy, exclusive=REQUIRED, status=status)
    one_provider = merge(ZONES, [{name: each for some in named for name, each in some.items()}], policy,
                         exclusive=REQUIRED, status=status)  # fmt: skip
    for other in (second, one_provider):
        assert decided(other) == decided(first)


def decided(found: Alignment) -> tuple[Any, ...]:
    return (found.zones, found.admitted, found.preferred, found.unsatisfied)


def test_the_higher_score_goes_before_the_lower_zones() -> None:
    of = {"cpu": [Hint((0, 5), True, 60), Hint((2, 5), True, 80)]}
    assert merge(ZONES, [of], RESTRICTED).zones == (2, 5)
    assert merge(ZONES, [{"cpu": of["cpu"][::-1]}], RESTRICTED).zones == (2, 5)


def test_devices_outweigh_cpus() -> None:
    cpu = [Hint((0,), True, 100), Hint((2,), True, 10)]
    gpu = [Hint((0,), True, 0), Hint((2,), True, 500)]
    assert merge(ZONES, [{"cpu": cpu}, {"gpu": gpu}], SINGLE_NUMA_NODE).zones == (2,)


@pytest.mark.parametrize(
    ("policy", "hint_lists", "zones", "admitted"),
    [
        (SINGLE_NUMA_NODE, {"a": [Hint((0,)), Hint((1,)), Hint((0, 1), False)], "b": [Hint((1,)), Hint((0, 1), False)]},
         (1,), True),
        (RESTRICTED, {"cpu": [Hint((0,))], "gpu": [Hint((1,))]}, (0, 1), False),
        (BEST_EFFORT, {"cpu": [Hint((0,))], "gpu": [Hint((1,))]}, (0, 1), True),
        (SINGLE_NUMA_NODE, {"cpu": [Hint((0, 1))]}, None, False),
        (RESTRICTED, {"cpu": [Hint((0, 1))], "memory": [Hint((0, 1))]}, (0, 1), True),
    ],
)  # fmt: skip
def test_worked_examples(policy: str, hint_lists: dict[str, list[Hint]], zones: ZoneSet | None, admitted: bool) -> None:
    found = merge((0, 1), [hint_lists], policy)
    assert (found.zones, found.admitted) == (zones, admitted)


def test_zones_that_nobody_asks_for_by_themselves_satisfy_nobody() -> None:
    of = [{"a": [Hint(None, False), Hint((0, 2), False)]}, {"b": [Hint(None, False), Hint((0, 5), False)]}]
    assert merge(ZONES, of, BEST_EFFORT).zones == ZONES
    assert merge(ZONES, of, RESTRICTED).unsatisfied


def test_exclusive_is_no_preference() -> None:
    both = {"cpu": [Hint((0,)), Hint((1,))]}
    assert merge((0, 1), [both], SINGLE_NUMA_NODE, exclusive=REQUIRED, status={0: SHARED}).zones == (1,)
    for policy in POLICIES:
        found = merge((0, 1), [both], policy, exclusive=REQUIRED, status={0: SHARED, 1: SHARED})
        if policy == BEST_EFFORT:
            # Both together may be held where nobody is within one of them.
            assert found.zones == (0, 1)
        else:
            assert (found.admitted, found.reasons) == (False, (NOT_EXCLUSIVE,))
    found = merge((0, 1), [both], BEST_EFFORT, exclusive=REQUIRED, status={0: SHARED, 1: SINGLE})
    assert found.zones == (1,)
    found = merge((0, 1), [{"cpu": [Hint((0, 1))]}], BEST_EFFORT, exclusive=REQUIRED, status={1: SINGLE})
    assert (found.admitted, found.reasons) == (False, (NOT_EXCLUSIVE,))


def test_the_only_zone_of_a_node_is_one_zone() -> None:
    assert merge((3,), [{"cpu": [Hint((3,))]}], SINGLE_NUMA_NODE).zones == (3,)


def test_what_providers_say_of_zones_that_are_not_there_says_nothing() -> None:
    assert merge((0,), [{"cpu": [Hint((7,)), Hint((0, 7), False)]}], BEST_EFFORT).zones == (0,)
    assert not merge((0,), [{"cpu": [Hint((7,))]}], RESTRICTED).admitted
    assert merge((), [{"cpu": [Hint((7,))]}], BEST_EFFORT).zones == ()


def test_no_policy_admits_without_zones() -> None:
    assert merge((0, 1), [{"cpu": []}], "") == Alignment(None, admitted=True, preferred=True)


def test_resources_of_one_name_of_two_providers_are_both_heard() -> None:
    found = merge((0, 1), [{"x": [Hint(None, False)]}, {"x": [Hint((0,), False)]}], RESTRICTED)
    assert found.reasons == ("Unaligned NUMA Hint cause x prefer [] among [01] & x prefer [] among [<nil>]",)


def test_many_lists_of_many_sets_do_not_explode() -> None:
    zones = tuple(range(10))
    every = [each for size in range(1, 11) for each in itertools.combinations(zones, size)]
    of = [{f"r{n}": [Hint(each, each[0] == n) for each in every]} for n in range(6)]
    assert merge(zones, of, RESTRICTED).zones == zones
    assert merge(zones, of, BEST_EFFORT).zones == zones


@given(st.lists(st.sets(st.integers(0, 3), max_size=3), max_size=6))
def test_status_of_zones(holdings: list[set[int]]) -> None:
    status = zone_status(range(3), holdings)
    assert status == zone_status(range(3), reversed(holdings))
    assert list(status) == [0, 1, 2]
    for zone, text in status.items():
        holders = [len(each) for each in holdings if zone in each]
        assert text == ("idle" if not holders else "shared" if max(holders) > 1 else "single")
