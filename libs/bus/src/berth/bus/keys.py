"""What the bus takes as a key and as a value."""

from __future__ import annotations

import re
from collections.abc import Iterable

from berth.bus.topology import MESSAGE_BYTES_MAX

KEY = re.compile(r"[-/_=A-Za-z0-9]+(\.[-/_=A-Za-z0-9]+)*")
KEY_BYTES_MAX = 3000
"""A subject, its reply subject and two numbers share a protocol line of 4,096 bytes."""
VALUE_BYTES_MAX = MESSAGE_BYTES_MAX - 4096
"""Headers count towards the size of a message."""


def check_key(key: str) -> None:
    """Raises ValueError for what is not a key."""
    if len(key) > KEY_BYTES_MAX or not KEY.fullmatch(key):
        raise ValueError(f"not a key: {key[:100]!r}")


def are_exact(keys: Iterable[str]) -> bool:
    """Whether each is a key itself, and none a pattern of keys."""
    return all(KEY.fullmatch(key) for key in keys)


def matches(pattern: str, key: str) -> bool:
    """Whether a key is one of those that a subject pattern names (`*` for a token, a last `>` for one or more)."""
    if pattern == ">":
        return True
    wanted, tokens = pattern.split("."), key.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        if len(tokens) <= len(wanted):
            return False
        tokens = tokens[: len(wanted)]
    return len(wanted) == len(tokens) and all(map(_fits, wanted, tokens))


def _fits(wanted: str, token: str) -> bool:
    return wanted in ("*", token)
