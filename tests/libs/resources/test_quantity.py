import decimal
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.resources.quantity import (
    AMOUNT_MAX,
    QuantityError,
    format_bytes,
    format_milli,
    format_units,
    parse_milli,
    parse_units,
)
from berth.testing.vectors import cases

POWERS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
    "e3": Decimal(10**3), "E3": Decimal(10**3), "e-3": Decimal("1e-3"), "E+6": Decimal(10**6), "e0": Decimal(1),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "milli", "units"),
    [
        ("0", 0, 0),
        ("1", 1000, 1),
        ("1500m", 1500, 2),
        ("0.1m", 1, 1),
        ("1n", 1, 1),
        ("100u", 1, 1),
        ("1.5", 1500, 2),
        (".5", 500, 1),
        ("1.", 1000, 1),
        ("+2", 2000, 2),
        ("-0", 0, 0),
        ("4Gi", 4 * 2**30 * 1000, 4 * 2**30),
        ("1.5Gi", 1536 * 2**20 * 1000, 1536 * 2**20),
        ("0.1Gi", 107374182400, 107374183),
        ("1k", 10**6, 1000),
        ("1e3", 10**6, 1000),
        ("1E3", 10**6, 1000),
        ("1E", None, 10**18),
        ("1e-3", 1, 1),
        ("1e-999999999999", 1, 1),
        ("0e999999999999", 0, 0),
        ("9223372036854775807", None, AMOUNT_MAX),
        ("9223372036854775.807", AMOUNT_MAX, 9223372036854776),
        ("00000000000000000000000000000000000000000000000000000000000012", 12000, 12),
    ],
)
def test_known_quantities(text, milli, units):
    assert parse_units(text) == units
    if milli is None:
        with pytest.raises(QuantityError, match="too large"):
            parse_milli(text)
    else:
        assert parse_milli(text) == milli


@pytest.mark.parametrize("value", [0, 1, 7, 110, 2.5, 1e3, 1e12])
def test_json_numbers_are_accepted(value):
    assert parse_milli(value) == int(Decimal(str(value)) * 1000)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "empty"),
        (" 1", "not a quantity"),
        ("1 ", "not a quantity"),
        ("1\n", "not a quantity"),
        ("1.1.M", "not a quantity"),
        ("1+1.0M", "not a quantity"),
        ("0.1mi", "not a quantity"),
        ("1i", "not a quantity"),
        ("-3.01e-", "not a quantity"),
        ("1e", "not a quantity"),
        ("1e3Ki", "not a quantity"),
        ("1K", "not a quantity"),
        ("m", "not a quantity"),
        ("Ki", "not a quantity"),
        ("+", "not a quantity"),
        (".", "not a quantity"),
        ("NaN", "not a quantity"),
        ("inf", "not a quantity"),
        ("1_000", "not a quantity"),
        ("0x10", "not a quantity"),
        ("١", "not a quantity"),
        ("1" * 65, "too long"),
        ("1" * 100_000, "too long"),
        ("8Ei", "too large"),
        ("1e999999999999", "too large"),
        ("9223372036854775807.0001", "too large"),
        (2**63, "too large"),
        (1e300, "too large"),
        ("-1", "negative"),
        (-1, "negative"),
        ("-1n", "negative"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (True, "boolean"),
        (None, "null"),
        ([], "a list"),
        ({}, "an object"),
        (b"1", "another type"),
    ],
)
def test_refused_with_a_reason(value, message):
    for parse in (parse_milli, parse_units):
        with pytest.raises(QuantityError, match=message) as caught:
            parse(value)
        assert len(str(caught.value)) < 150


def test_an_integer_too_long_to_print_is_refused():
    with pytest.raises(QuantityError, match="too large"):
        parse_units(10**5000)


def test_a_repeated_bad_text_is_refused_each_time():
    for _ in range(2):
        with pytest.raises(QuantityError):
            parse_units("1x")


def test_true_is_not_taken_for_a_cached_one():
    assert parse_units(1) == 1
    assert parse_units("1") == 1
    with pytest.raises(QuantityError):
        parse_units(True)


def test_negative_amounts_round_away_from_zero_where_allowed():
    assert parse_milli("-1500u", allow_negative=True) == -2
    assert parse_units("-1.5Ki", allow_negative=True) == -1536
    assert parse_units("-0.1", allow_negative=True) == -1


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0"), (1, "1m"), (1500, "1500m"), (2000, "2"), (-500, "-500m"), (10**6, "1k"), (100_000, "100")],
)
def test_format_milli(milli, text):
    assert format_milli(milli) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"), (1000, "1k"), (1023, "1023"), (1024, "1Ki"), (1500, "1500"), (10**6, "1000000"), (2**32, "4Gi"),
        (1536 * 2**20, "1536Mi"), (7 * 2**60, "7Ei"), (-2048, "-2Ki"),
    ],
)  # fmt: skip
def test_format_bytes(amount, text):
    assert format_bytes(amount) == text


@pytest.mark.parametrize(("amount", "text"), [(0, "0"), (8, "8"), (110, "110"), (1000, "1k"), (1024, "1024")])
def test_format_units(amount, text):
    assert format_units(amount) == text


@pytest.mark.parametrize("case", cases("resources/quantity"))
def test_apimachinery_agrees(case):
    """Value() and (where it did not overflow) MilliValue() as k8s.io/apimachinery v0.31 answered."""
    assert parse_units(case["text"], allow_negative=True) == case["value"]
    if "milli" in case:
        assert parse_milli(case["text"], allow_negative=True) == case["milli"]


quantities = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**9).map(str),
    st.one_of(st.just(""), st.integers(0, 10**12).map(lambda digits: f".{digits}"), st.just(".000")),
    st.sampled_from(sorted(POWERS)),
)


@given(quantities)
def test_equals_decimal_arithmetic(text):
    suffix = next(suffix for suffix in sorted(POWERS, key=len, reverse=True) if text.endswith(suffix))
    with decimal.localcontext(decimal.Context(prec=100)):
        exact = Decimal(text.removesuffix(suffix)) * POWERS[suffix]
        for parse, value in ((parse_units, exact), (parse_milli, exact * 1000)):
            expected = int(value.to_integral_value(rounding=decimal.ROUND_UP))
            if abs(expected) > AMOUNT_MAX:
                with pytest.raises(QuantityError, match="too large"):
                    parse(text, allow_negative=True)
            else:
                assert parse(text, allow_negative=True) == expected


@given(st.integers(-AMOUNT_MAX, AMOUNT_MAX))
def test_what_is_printed_reads_back(amount):
    assert parse_milli(format_milli(amount), allow_negative=True) == amount
    assert parse_units(format_units(amount), allow_negative=True) == amount
    assert parse_units(format_bytes(amount), allow_negative=True) == amount


@given(st.one_of(st.text(max_size=80), st.text("0123456789.+-eEinumkKMGTP", max_size=20)))
def test_any_text_gives_an_amount_in_range_or_an_error(text):
    try:
        amount = parse_milli(text)
    except QuantityError:
        return
    assert 0 <= amount <= AMOUNT_MAX
