import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.resources.amounts import (
    NAMES_MAX,
    add,
    add_into,
    clamped,
    format_amount,
    format_amounts,
    lacking,
    maximum,
    minimum,
    parse_amounts,
    subtract_from,
    without_zeros,
)
from berth.resources.quantity import AMOUNT_MAX

NAMES = [
    "cpu",
    "memory",
    "pods",
    "nvidia.com/gpu",
    "kubernetes.io/batch-cpu",
    "kubernetes.io/batch-memory",
    "hugepages-2Mi",
]
vectors = st.dictionaries(st.sampled_from(NAMES), st.integers(-AMOUNT_MAX, AMOUNT_MAX))
natural = st.dictionaries(st.sampled_from(NAMES), st.integers(0, AMOUNT_MAX))


def test_cpu_in_milli_everything_else_in_units():
    amounts, problems = parse_amounts(
        {
            "cpu": "1500m",
            "memory": "4Gi",
            "pods": 110,
            "kubernetes.io/batch-cpu": "1500",
            "kubernetes.io/mid-cpu": "2k",
        },
        "spec.containers[0].resources.requests",
    )
    assert problems == []
    assert amounts == {
        "cpu": 1500,
        "memory": 4 * 2**30,
        "pods": 110,
        "kubernetes.io/batch-cpu": 1500,
        "kubernetes.io/mid-cpu": 2000,
    }


def test_a_bad_entry_is_named_and_the_rest_is_kept():
    amounts, problems = parse_amounts(
        {"cpu": "-1", "memory": "1Gi", "x": float("nan"), "y": True}, "status.allocatable"
    )
    assert amounts == {"memory": 2**30}
    assert problems == [
        ("status.allocatable[cpu]", "must not be negative"),
        ("status.allocatable[x]", "must be a finite number"),
        ("status.allocatable[y]", "must be a quantity, not a boolean"),
    ]


@pytest.mark.parametrize("value", [[], "1", 3, True, ["cpu"]])
def test_not_an_object(value):
    assert parse_amounts(value, "f") == ({}, [("f", "must be an object of resource names and quantities")])


def test_nothing_given_is_nothing():
    assert parse_amounts(None, "f") == ({}, [])
    assert parse_amounts({}, "f") == ({}, [])


def test_limits_on_names():
    amounts, problems = parse_amounts({"": "1", "n" * 400: "1", "n" * 317: "1"}, "f")
    assert amounts == {"n" * 317: 1}
    assert [field for field, _ in problems] == ["f", "f"]
    amounts, problems = parse_amounts({f"r{number}": "1" for number in range(NAMES_MAX + 1)}, "f")
    assert amounts == {}
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 500, "500m"),
        ("memory", 2**30, "1Gi"),
        ("ephemeral-storage", 2**20, "1Mi"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("kubernetes.io/batch-memory", 2**31, "2Gi"),
        ("kubernetes.io/batch-cpu", 20_000, "20k"),
        ("koordinator.sh/gpu-memory", 16 * 2**30, "16Gi"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_format_amount(name, amount, text):
    assert format_amount(name, amount) == text


@given(natural)
def test_printed_amounts_read_back(amounts):
    assert parse_amounts(format_amounts(amounts), "f") == (amounts, [])


@given(vectors, vectors, vectors)
def test_addition_is_a_commutative_group(a, b, c):
    assert without_zeros(add(a, b)) == without_zeros(add(b, a))
    assert add(add(a, b), c) == add(a, add(b, c))


@given(vectors, vectors)
def test_in_place_forms_agree_and_leave_the_argument_alone(a, b):
    before = dict(b)
    total, rest = dict(a), dict(a)
    add_into(total, b)
    subtract_from(rest, b)
    assert (total, b) == (add(a, b), before)
    add_into(rest, b)
    assert without_zeros(rest) == without_zeros(a)


@given(vectors, vectors)
def test_maximum_and_minimum_bound_both_and_split_the_sum(a, b):
    high, low = maximum(a, b), minimum(a, b)
    assert all(low[name] <= side.get(name, 0) <= high[name] for side in (a, b) for name in high)
    assert without_zeros(add(high, low)) == without_zeros(add(a, b))


@given(natural, vectors)
def test_what_is_lacking_is_exactly_what_would_make_it_fit(request_amounts, free):
    missing = lacking(request_amounts, free)
    assert lacking(request_amounts, add(free, missing)) == {}
    for name, amount in missing.items():
        assert amount > 0
        assert lacking(request_amounts, add(free, {**missing, name: amount - 1})) != {}


def test_a_request_of_zero_fits_even_where_the_capacity_is_overdrawn():
    assert lacking({"cpu": 0}, {"cpu": -5}) == {}
    assert lacking({"cpu": 1}, {"cpu": -5}) == {"cpu": 6}
    assert lacking({"cpu": 1}, {}) == {"cpu": 1}


def test_clamped():
    assert clamped({"cpu": 2**80, "memory": -(2**80), "pods": 1}) == {
        "cpu": AMOUNT_MAX,
        "memory": -AMOUNT_MAX,
        "pods": 1,
    }
