"""Integers as Go reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.numbers import parse_integer


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_64_bit_integer_is_read(number: int) -> None:
    assert parse_integer(str(number)) == number


@given(st.text(max_size=8))
def test_never_more_generous_than_python(text: str) -> None:
    number = parse_integer(text)
    assert number is None or (text.isascii() and number == int(text) and "_" not in text and text == text.strip())


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_0", "٣", "0x1", "1.0", "1e3", "+", "--1", "9" * 65, str(2**63)])
def test_refused(text: str) -> None:
    assert parse_integer(text) is None


def test_width() -> None:
    assert parse_integer("+2147483647", bits=32) == 2147483647
    assert parse_integer("2147483648", bits=32) is None
    assert parse_integer("-2147483648", bits=32) == -2147483648
