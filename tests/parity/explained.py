"""Differences that are meant: a rule for each, and in docs/parity.md why it is so.

A rule matches as little as it can. What no rule matches is an error of one side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.parity.comparing import Difference
from tests.parity.world import Trace


class Rule(NamedTuple):
    """`name` is the row of docs/parity.md."""

    name: str
    matches: Callable[[Difference, Trace], bool]


RULES: Final[tuple[Rule, ...]] = ()


def explanation(difference: Difference, trace: Trace) -> str:
    """The name of the rule that explains a difference; empty: none does."""
    return next((rule.name for rule in RULES if rule.matches(difference, trace)), "")
