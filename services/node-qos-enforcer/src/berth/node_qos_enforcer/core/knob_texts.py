"""Texts of knobs: from a value that is wanted to what a file takes, and back.

Values are those of version 2; a quota is microseconds in 100 ms. The kernel keeps amounts of memory in whole pages.
"""

from __future__ import annotations

from typing import Final

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED, Bandwidth, Version
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.laws.block_io import needs_write, needs_write_v2
from berth.node_qos_enforcer.core.laws.cpu_values import QUOTA_MIN_US, shares_to_weight
from berth.node_qos_enforcer.core.laws.resctrl import parse_schemata
from berth.node_qos_enforcer.core.malformed import Malformed, quoted
from berth.node_qos_enforcer.core.strategies.knobs import Knob, Within
from berth.rules.cpus.cpuset import format_cpuset

MAX: Final = "max"
PERIOD_US: Final = 100_000
PAGE: Final = 4_096
_NO_LIMIT: Final = 0x7FFF_FFFF_FFFF_F000
"""From here on a version-1 amount of memory is none."""


def quota_value(bandwidth: Bandwidth) -> str:
    """A quota that a group has, for the protocol's period."""
    if bandwidth.quota_us == UNLIMITED:
        return MAX
    return str(bandwidth.quota_us * PERIOD_US // bandwidth.period_us)


def number_value(text: str, field: str) -> str:
    """A number that a file has; `max` for any that stands for no limit. Raises Malformed."""
    word = text.strip()
    if word == MAX:
        return MAX
    try:
        number = int(word)
    except ValueError as error:
        raise Malformed(field, f"not a number: {quoted(word)}") from error
    return MAX if number >= _NO_LIMIT else str(number)


def text_of(knob: Knob, version: Version, value: str, *, period_us: int = PERIOD_US) -> str:
    """What is written. `period_us` is that of the group whose quota it is."""
    match knob.kind:
        case "quota":
            if value == MAX:
                return f"{MAX} {period_us}" if version == 2 else str(UNLIMITED)
            quota_us = max(int(value) * period_us // PERIOD_US, QUOTA_MIN_US)
            return f"{quota_us} {period_us}" if version == 2 else str(quota_us)
        case "weight":
            return str(shares_to_weight(value) if version == 2 else int(value))
        case "cpus":
            return format_cpuset(parse_cpuset(value, field=knob.name))
        case "number" if value == MAX and version == 1:
            return str(UNLIMITED) if knob.name == "memory.max" else str((1 << 63) - 1)
        case _:
            return value


def is_same(knob: Knob, text: str, wanted: str) -> bool:
    """Whether a file has what would be written."""
    now = text.strip()
    if now == wanted:
        return True
    try:
        match knob.kind:
            case "cpus":
                return parse_cpuset(now, field=knob.name) == parse_cpuset(wanted, field=knob.name)
            case "quota" | "weight":
                return now.split() == wanted.split()
            case "number":
                return _in_pages(knob, now) == _in_pages(knob, wanted)
            case "line" if knob.v2:
                return not needs_write_v2(knob.v2, now, wanted)
            case "line":
                return not needs_write(now, wanted)
            case "schemata":
                lines = parse_schemata(now)
                return all(lines.get(name) == values for name, values in parse_schemata(wanted).items())
            case "word":
                return wanted in now.split()
            case _:
                return False
    except Malformed:
        return False


def _in_pages(knob: Knob, text: str) -> str:
    value = number_value(text, knob.name)
    if knob.controller != "memory" or value == MAX or not knob.within:
        return value
    return str(int(value) // PAGE * PAGE)


def first_pass(within: Within, old: str, new: str) -> str | None:
    """What is written on the way from the top down, so that both the old and the new children fit; None: nothing.

    Args:
        within: how children fit.
        old: what the group has, as a value.
        new: what it is to have.

    Raises:
        Malformed: a value is none of this kind.
    """
    if within == "union":
        before, after = parse_cpuset(old), parse_cpuset(new)
        merged = before | after
        return None if merged == before else format_cpuset(merged)
    if within == "smaller":
        return new if _amount(new) > _amount(old) else None
    return None


def _amount(value: str) -> float:
    word = number_value(value, "value")
    return float("inf") if word in (MAX, str(UNLIMITED)) else int(word)


def problem_of(knob: Knob, value: str) -> Problem | None:
    """Why a value must not be written."""
    if knob.low is None and knob.high is None:
        return None
    if value == MAX:
        return None
    try:
        number = int(value)
    except ValueError:
        return Problem(field=knob.name, message=f"not a number: {quoted(value)}")
    low, high = knob.low, knob.high
    if (low is not None and number < low) or (high is not None and number > high):
        return Problem(field=knob.name, message=f"{number} is not within {low}..{'' if high is None else high}")
    return None
