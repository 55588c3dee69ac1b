"""Kubernetes quantities as integers, exactly.

Kubernetes writes amounts as text ("1500m", "4Gi", "1e3"). Everything inside Berth is an integer, so text is read once
at the door and written once on the way out. Reading follows `k8s.io/apimachinery/pkg/api/resource`: any of the three
notations (decimal SI, binary SI, decimal exponent), and what does not fit the target unit is rounded away from zero, so
that a request never becomes smaller by being read.

It differs from apimachinery where that would hide a mistake: a text without any digit ("m", "+") is an error instead of
zero, and an amount above 2**63 - 1 is an error instead of being capped in silence.
"""

import math
import re
from functools import lru_cache
from typing import Final, NamedTuple

AMOUNT_MAX: Final = 2**63 - 1
"""The largest amount in any unit: what a signed 64-bit reader of our messages can hold."""

TEXT_LENGTH_MAX: Final = 64

_CACHE_ENTRIES: Final = 16_384
_PATTERN: Final = re.compile(
    r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE]([+-]?[0-9]+))?"
)
_DECIMAL_EXPONENTS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {0: "", **{exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}}
_BINARY_SUFFIXES: Final = {0: "", **{exponent: suffix for suffix, exponent in _BINARY_EXPONENTS.items()}}

# With 64 characters of digits, an exponent beyond these means "rounds to one" or "too large" whatever its exact value,
# and holding it here keeps 1e999999999 from being computed.
_EXPONENT_FLOOR: Final = -200
_EXPONENT_CEILING: Final = 200


class QuantityError(ValueError):
    """Not a quantity, or one outside the accepted range. The message is short and fit to be shown to its author."""


class _Exact(NamedTuple):
    """`digits * 10**exponent`."""

    digits: int
    exponent: int


def parse_milli(value: str | float, *, allow_negative: bool = False) -> int:
    """Thousandths of the base unit, rounded away from zero: "1" is 1000, "0.1m" is 1. For cpu."""
    text = value if type(value) is str else _text(value)
    amount = _scaled(text, 3)
    if amount < 0 and not allow_negative:
        raise QuantityError("must not be negative")
    return amount


def parse_units(value: str | float, *, allow_negative: bool = False) -> int:
    """Base units (bytes, pieces), rounded away from zero: "1Ki" is 1024, "1m" is 1."""
    text = value if type(value) is str else _text(value)
    amount = _scaled(text, 0)
    if amount < 0 and not allow_negative:
        raise QuantityError("must not be negative")
    return amount


def format_milli(amount_milli: int) -> str:
    """An amount in thousandths as Kubernetes prints decimal SI: 1500 is "1500m", 2000 is "2", 1000000 is "1k"."""
    return _decimal(amount_milli, -3, _DECIMAL_SUFFIXES)


def format_units(amount: int) -> str:
    """A count as Kubernetes prints decimal SI: 110 is "110", 1000 is "1k"."""
    return _decimal(amount, 0, _DECIMAL_SUFFIXES)


def format_bytes(amount: int) -> str:
    """A number of bytes as Kubernetes prints binary SI: 4294967296 is "4Gi", 1500 is "1500".

    Below 1024 the API server falls back to decimal SI, so 1000 is "1k".
    """
    if -1024 < amount < 1024:
        return _decimal(amount, 0, _DECIMAL_SUFFIXES)
    exponent = 0
    while exponent < 60 and amount % 1024 == 0:
        amount //= 1024
        exponent += 10
    return f"{amount}{_BINARY_SUFFIXES[exponent]}"


@lru_cache(maxsize=_CACHE_ENTRIES)
def _scaled(text: str, scale: int) -> int:
    return _rounded(_read(text), scale)


def _text(value: object) -> str:
    """The text of a JSON number. Booleans are integers to Python, but not to the author of a manifest."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(f"must be a quantity, not {_kind(value)}")
    if isinstance(value, int) and abs(value) > AMOUNT_MAX:  # before str(): printing a huge integer is slow or refused
        raise QuantityError("is too large (at most 2**63 - 1)")
    if isinstance(value, float) and not math.isfinite(value):
        raise QuantityError("must be a finite number")
    return str(value)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", list: "a list", tuple: "a list", dict: "an object"}
    return names.get(type(value), "a value of another type")


def _read(text: str) -> _Exact:
    if len(text) > TEXT_LENGTH_MAX:
        raise QuantityError(f"is too long for a quantity ({len(text)} characters, at most {TEXT_LENGTH_MAX})")
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity such as 500m, 2 or 4Gi" if text else "must not be empty")
    sign, whole, fraction, bare_fraction, suffix, power = match.groups()
    fraction = fraction or bare_fraction or ""
    digits = int((whole or "") + fraction)
    exponent = -len(fraction)
    if sign == "-":
        digits = -digits
    if suffix in _BINARY_EXPONENTS:
        return _Exact(digits << _BINARY_EXPONENTS[suffix], exponent)
    if power is not None:
        return _Exact(digits, exponent + max(_EXPONENT_FLOOR, min(_EXPONENT_CEILING, int(power))))
    return _Exact(digits, exponent + _DECIMAL_EXPONENTS.get(suffix, 0))


def _rounded(exact: _Exact, scale: int) -> int:
    """`exact * 10**scale`, rounded away from zero."""
    exponent = exact.exponent + scale
    if exponent >= 0:
        amount = exact.digits * _power_of_ten(exponent)
    else:
        amount = -(-abs(exact.digits) // _power_of_ten(-exponent))
        amount = amount if exact.digits > 0 else -amount
    if abs(amount) > AMOUNT_MAX:
        raise QuantityError("is too large (at most 2**63 - 1)")
    return amount


def _power_of_ten(exponent: int) -> int:
    return int(10**exponent)


def _decimal(digits: int, exponent: int, suffixes: dict[int, str]) -> str:
    """The largest suffix (a power of a thousand) that leaves an integer."""
    if digits == 0:
        return "0"
    while digits % 10 == 0:
        digits //= 10
        exponent += 1
    while exponent % 3 or exponent > 18:
        digits *= 10
        exponent -= 1
    return f"{digits}{suffixes[exponent]}"
