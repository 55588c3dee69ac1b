"""When the members of a gang group may start: the group is complete, or this member goes on waiting.

The counts are taken before the member that has just found a node; it is counted here. Satisfied once belongs to the
whole group and never goes back.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

MatchPolicy = Literal["only-waiting", "waiting-and-running", "once-satisfied"]


class GangMembers(NamedTuple):
    """What is known of one gang. `min_member` None: its settings could not be read, so it can never be complete."""

    min_member: int | None
    waiting: int = 0
    """members that hold a node and are not bound"""
    bound: int = 0
    match_policy: MatchPolicy = "once-satisfied"
    once_satisfied: bool = False
    group: Sequence[str] = ()
    """ids of all gangs that must start together; empty: this gang alone"""
    wait_s: float = 0.0


class Permit(NamedTuple):
    """`release`: this member and all waiting members of the group start. `wait`: at most `wait_s`. `unknown_gang`:
    the gang has vanished.
    """

    result: Literal["no_gang", "unknown_gang", "wait", "release"]
    wait_s: float = 0.0

    @property
    def released(self) -> bool:
        """This member may start."""
        return self.result in ("no_gang", "release")


def members_lacking(gang: GangMembers, *, once_satisfied: bool) -> int | None:
    """How many more members must find a node before the gang has those that its match policy asks for; None: never."""
    if gang.min_member is None:
        return None
    if gang.match_policy == "once-satisfied" and once_satisfied:
        return 0
    counted = gang.waiting + (gang.bound if gang.match_policy == "waiting-and-running" else 0)
    return max(0, gang.min_member - counted)


def gang_complete(gang: GangMembers, *, once_satisfied: bool, arriving: int = 0) -> bool:
    """Whether one gang has its members when `arriving` of them have just found a node."""
    lacking = members_lacking(gang, once_satisfied=once_satisfied)
    return lacking is not None and lacking <= arriving


def group_complete(
    group: Sequence[str], gangs: Mapping[str, GangMembers], arriving: Mapping[str, int] | None = None
) -> bool:
    """Whether every gang of the group exists and is complete, `arriving[id]` members having just found a node."""
    members = [gangs.get(gang_id) for gang_id in group]
    once = any(gang is not None and gang.once_satisfied for gang in members)
    coming = arriving or {}
    return all(
        gang is not None and gang_complete(gang, once_satisfied=once, arriving=coming.get(gang_id, 0))
        for gang_id, gang in zip(group, members, strict=True)
    )


def permit(gang_id: str | None, gangs: Mapping[str, GangMembers]) -> Permit:
    """What happens to a member of `gang_id` (None: a pod without a gang) that has just found a node."""
    if gang_id is None:
        return Permit("no_gang")
    gang = gangs.get(gang_id)
    if gang is None:
        return Permit("unknown_gang")
    if group_complete(gang.group or (gang_id,), gangs, {gang_id: 1}):
        return Permit("release")
    return Permit("wait", gang.wait_s)
