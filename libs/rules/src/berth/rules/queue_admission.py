"""May a member of a gang be tried now? A group that cannot be complete uses up no round.

Of a group one pod stands in the queue for all; a round takes all that wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from berth.rules.gang_permit import MatchPolicy

Admission = Literal["pass", "noGang", "notInitialized", "basicCheck", "groupIsScheduling", "notRepresentative"]


class GangState(NamedTuple):
    """What is known of a gang: its minimum (None: nobody knows it yet), how many members there are, in whatever state,
    the ids of its group, and whether that was satisfied once."""

    min_member: int | None
    members: int
    group: Sequence[str]
    match_policy: MatchPolicy = "once-satisfied"
    once_satisfied: bool = False


class Round(NamedTuple):
    """The group that is being tried, and those of its members that were."""

    group: Sequence[str]
    tried: Collection[str]


class Lack(NamedTuple):
    """The first gang of a group that keeps it from being complete, and how."""

    gang: str
    why: Literal["unknown", "uninitialized", "few"]


def group_lacks(group: Sequence[str], gangs: Mapping[str, GangState]) -> Lack | None:
    """Whether every gang of a group is there, is known, and has enough members; and if not, which one."""
    for gang_id in group:
        if gang_id not in gangs:
            return Lack(gang_id, "unknown")
    for gang_id in group:
        if gangs[gang_id].min_member is None:
            return Lack(gang_id, "uninitialized")
    for gang_id in group:
        if gangs[gang_id].members < (gangs[gang_id].min_member or 0):
            return Lack(gang_id, "few")
    return None


def goes_alone(gang: GangState) -> bool:
    """Its group was satisfied once, and that is enough: members are tried like ordinary pods."""
    return gang.once_satisfied and gang.match_policy == "once-satisfied"


def admission(
    pod: str,
    gang_id: str | None,
    gangs: Mapping[str, GangState],
    *,
    representative: str = "",
    current: Round | None = None,
) -> Admission:
    """Whether a pod of a gang (None: of none) may enter the queue.

    `representative` is the pod that stands for its group already, `current` the round that is under way, if any.
    """
    if gang_id is None:
        return "pass"
    gang = gangs.get(gang_id)
    if gang is None:
        return "noGang"
    if gang.min_member is None:
        return "notInitialized"
    if goes_alone(gang):
        return "pass"
    if group_lacks(gang.group, gangs) is not None:
        return "basicCheck"
    if current is not None and set(current.group) == set(gang.group) and pod not in current.tried:
        return "groupIsScheduling"
    return "notRepresentative" if representative not in ("", pod) else "pass"
