"""Laws of one level, and an oracle that follows the rule with fractions instead of remainders."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.services.worlds.quota.definition import Child

from berth.quota_manager.core.sharing import effective_minimum, largest_remainder, share


def oracle(total, children):
    """The rule as written, slowly."""
    runtime, hungry = {}, []
    for child in children:
        floor = max(child.minimum, child.guarantee)
        if child.request > floor:
            hungry.append(child)
            runtime[child.name] = floor
        else:
            runtime[child.name] = child.request if child.lends else floor
    pot = total - sum(runtime.values())
    while pot > 0 and sum(child.weight for child in hungry) > 0:
        exact = {child.name: Fraction(child.weight * pot, sum(c.weight for c in hungry)) for child in hungry}
        parts = {name: int(part) for name, part in exact.items()}
        order = sorted(
            (child.name for child in hungry if child.weight > 0), key=lambda name: (parts[name] - exact[name], name)
        )
        for name in order[: pot - sum(parts.values())]:
            parts[name] += 1
        pot = 0
        for child in list(hungry):
            runtime[child.name] += parts[child.name]
            if runtime[child.name] >= child.request:
                pot += runtime[child.name] - child.request
                runtime[child.name] = child.request
                hungry.remove(child)
    return runtime


amounts = st.integers(0, 12) | st.integers(0, 2**50)
children = st.lists(
    st.builds(
        Child,
        name=st.sampled_from("abcdefgh"),
        weight=amounts,
        request=amounts,
        minimum=amounts,
        guarantee=st.just(0) | amounts,
        lends=st.booleans(),
    ),
    max_size=7,
    unique_by=lambda child: child.name,
)


@given(st.integers(-5, 60) | st.integers(0, 2**52), children)
@settings(max_examples=400, deadline=None)
def test_shares_follow_the_rule(total, level):
    assert share(total, level) == oracle(total, level)


@given(st.integers(0, 60), children, st.randoms(use_true_random=False))
def test_the_order_of_children_does_not_matter(total, level, random):
    shuffled = list(level)
    random.shuffle(shuffled)
    assert share(total, shuffled) == share(total, level)


def test_a_child_that_is_just_full_takes_no_part_in_the_next_round():
    level = [Child(name, 1, request, 0) for name, request in (("a", 10), ("b", 8), ("c", 99), ("d", 99))]
    assert share(40, level) == {"a": 10, "b": 8, "c": 11, "d": 11}


@given(st.integers(0, 2**60), st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2**60)))
def test_nothing_is_lost_or_invented(amount, weights):
    parts = largest_remainder(amount, weights)
    if any(weights.values()) and amount:
        assert sum(parts.values()) == amount
        total = sum(weights.values())
        assert all(abs(part - Fraction(weights[name] * amount, total)) < 1 for name, part in parts.items())
    else:
        assert parts == {}


@pytest.mark.parametrize(
    ("total", "minimum", "promised", "expected"),
    [
        (200_000, 100_000, 300_000, 66_666),
        (200 << 30, 100 << 30, 300 << 30, 71_582_788_266),
        (7, 4, 8, 3),
        (50, 50, 100, 25),
        (0, 50, 100, 0),
        (-10, 50, 100, 0),
        (100, 50, 100, 50),
        (-1, 0, 0, 0),
        (0, 0, 0, 0),
    ],
)
def test_promises_shrink_in_proportion_and_round_down(total, minimum, promised, expected):
    assert effective_minimum(total, minimum, promised=promised) == expected
