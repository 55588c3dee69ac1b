"""When members of a gang group may start."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.gang_permit import GangMembers, MatchPolicy, gang_complete, permit
from berth.testing.vectors import cases

RESULTS = {"noGang": "no_gang", "wait": "wait", "release": "release"}


def members(given: dict[str, Any]) -> GangMembers:
    return GangMembers(
        min_member=given["minRequired"] if given.get("initialized", True) else None,
        waiting=given.get("waiting", 0),
        bound=given.get("bound", 0),
        match_policy=given.get("matchPolicy", "once-satisfied"),
        once_satisfied=given.get("onceSatisfied", False),
        group=given["group"],
        wait_s=given["waitSeconds"],
    )


@pytest.mark.parametrize("case", cases("gang/permit"))
def test_vector(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    answer = permit(given["gang"], {name: members(gang) for name, gang in given["gangs"].items()})
    assert answer == (RESULTS[expect["result"]], expect["waitSeconds"])


def test_satisfied_once_belongs_to_the_whole_group() -> None:
    group = ["n/a", "n/b"]
    gangs = {"n/a": GangMembers(5, group=group), "n/b": GangMembers(5, group=group, once_satisfied=True)}
    assert permit("n/a", gangs).result == "release"


def test_a_vanished_gang_and_an_unreadable_one() -> None:
    assert permit("n/a", {}).result == "unknown_gang"
    assert permit("n/a", {"n/a": GangMembers(None, waiting=9, once_satisfied=True, wait_s=3)}) == ("wait", 3)


policies = st.sampled_from(["only-waiting", "waiting-and-running", "once-satisfied"])
counts = st.integers(0, 6)


@given(policies, counts, counts, counts, st.booleans())
def test_one_more_member_never_makes_a_complete_gang_incomplete(
    policy: MatchPolicy, minimum: int, waiting: int, bound: int, once: bool
) -> None:
    gang = GangMembers(minimum, waiting=waiting, bound=bound, match_policy=policy)
    if gang_complete(gang, once_satisfied=once):
        assert gang_complete(gang, once_satisfied=once, arriving=1)
