"""The single settings of a gang, as annotations of a pod or a PodGroup give them.

Each reader returns the effective value, or what Koordinator falls back to, and appends a problem when what was written
had no effect.
"""

from collections.abc import Mapping
from typing import Final, Literal

from berth.contracts.base import Problem
from berth.contracts.names import (
    ANNOTATION_GANG_GROUPS,
    ANNOTATION_GANG_MATCH_POLICY,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GANG_TOTAL,
    ANNOTATION_GANG_WAIT,
    ANNOTATION_POD_GROUP_MATCH_POLICY,
)
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.durations import parse_duration_s
from berth.rules.gang_permit import MatchPolicy
from berth.rules.numbers import parse_integer

Mode = Literal["Strict", "NonStrict"]
Texts = Mapping[str, str]

GROUP_MAX: Final = 1024

_POLICIES: Final[dict[str, MatchPolicy]] = {
    "only-waiting": "only-waiting",
    "waiting-and-running": "waiting-and-running",
    "once-satisfied": "once-satisfied",
}
_MODES: Final[dict[str, Mode]] = {"Strict": "Strict", "NonStrict": "NonStrict"}


def read_wait_s(annotations: Texts, problems: list[Problem]) -> float | None:
    """Seconds that a member may wait for the others; None when the default holds."""
    text = annotations.get(ANNOTATION_GANG_WAIT)
    if not text:
        return None
    field = annotation_field(ANNOTATION_GANG_WAIT)
    try:
        wait_s = parse_duration_s(text)
    except ValueError as error:
        problems.append(Problem(field=field, message=f"{error}; the default is used"))
        return None
    if wait_s <= 0:
        problems.append(Problem(field=field, message="must be positive; the default is used"))
        return None
    return wait_s


def read_total(annotations: Texts, minimum: int, problems: list[Problem]) -> int:
    """How many members there are in all: for show, nothing is decided by it."""
    text = annotations.get(ANNOTATION_GANG_TOTAL)
    total = parse_integer(text, bits=32) if text else 0
    if total is None or (total != 0 and total < minimum):
        problems.append(
            Problem(
                field=annotation_field(ANNOTATION_GANG_TOTAL),
                message="must be an integer, at least the minimum; the minimum is used",
            )
        )
        return minimum
    return max(total, minimum)


def read_mode(annotations: Texts, problems: list[Problem]) -> Mode:
    """What one failed member does to the others."""
    text = annotations.get(ANNOTATION_GANG_MODE, "")
    if text and text not in _MODES:
        problems.append(
            Problem(field=annotation_field(ANNOTATION_GANG_MODE), message="must be Strict or NonStrict; Strict is used")
        )
    return _MODES.get(text, "Strict")


def read_match_policy(annotations: Texts, problems: list[Problem]) -> MatchPolicy | None:
    """Which members count; None when the default holds."""
    name = (
        ANNOTATION_GANG_MATCH_POLICY
        if annotations.get(ANNOTATION_GANG_MATCH_POLICY)
        else ANNOTATION_POD_GROUP_MATCH_POLICY
    )
    text = annotations.get(name, "")
    if text and text not in _POLICIES:
        problems.append(
            Problem(field=annotation_field(name), message=f"must be one of {', '.join(_POLICIES)}; the default is used")
        )
    return _POLICIES.get(text)


def read_group(annotations: Texts, own: str, problems: list[Problem]) -> tuple[str, ...]:
    """The gangs that start together. All of them should carry the same list; what only one object shows is checked
    here.
    """
    field = annotation_field(ANNOTATION_GANG_GROUPS)
    listed = read_annotation(annotations, ANNOTATION_GANG_GROUPS, list[str])
    if isinstance(listed, Problem):
        problems.append(listed)
        return (own,)
    if not listed:
        return (own,)
    if len(listed) > GROUP_MAX:
        problems.append(Problem(field=field, message=f"lists more than {GROUP_MAX} gangs; the gang is taken alone"))
        return (own,)
    if own not in listed:
        problems.append(Problem(field=field, message=f"does not list {own} itself"))
    if len(set(listed)) != len(listed):
        problems.append(Problem(field=field, message="lists a gang twice"))
    return tuple(sorted(listed))
