"""Which accounts a pod charges when limits appear or groups move (R14): so that two solvers always share one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.quota import QuotaGroup
from berth.placement_solver.core.quotas import Quotas
from berth.rules.quota_of_pod import DEFAULT_GROUP

CPU = names.CPU


def free(name: str, *ancestors: str, revision: int = 5, **fields: Any) -> QuotaGroup:
    """A group that limits nothing."""
    parent = ancestors[0] if ancestors else ""
    return QuotaGroup(tree="t", name=name, revision=revision, parent=parent, ancestors=list(ancestors), **fields)


def limited(name: str, *ancestors: str, **fields: Any) -> QuotaGroup:
    return free(name, *ancestors, limits=[CPU], max={CPU: 4}, runtime={CPU: 4}, **fields)


def quotas(*groups: QuotaGroup) -> Quotas:
    made = Quotas()
    for group in groups:
        made.see(group.tree, group.name, group)
    return made


def accounts(made: Quotas, name: str) -> dict[str, int]:
    prefix = subjects.quota_account("t", "")[:-1]
    return {account.removeprefix(prefix): revision for account, revision in made.accounts(("t", name)).items()}


def test_groups_are_charged_whatever_they_limit() -> None:
    made = quotas(free("above"), free("team", "above", revision=6))
    assert accounts(made, "team") == {"above": 5, "team": 6}


def test_all_who_have_no_quota_meet_on_no_account_until_it_was_used_as_one() -> None:
    made = quotas(free(DEFAULT_GROUP))
    assert accounts(made, DEFAULT_GROUP) == {}
    made.stamped = lambda account: 3
    assert accounts(made, DEFAULT_GROUP) == {DEFAULT_GROUP: 5}


def test_a_move_is_a_revision_of_its_whole_tree() -> None:
    made = quotas(limited("above"), limited("sibling", "above"), free("team", "above", revision=9, moved=9))
    made.stamped = lambda account: 9
    assert accounts(made, "sibling") == {"above": 9, "sibling": 9}
    made.see("t", "team", None)
    assert accounts(made, "sibling") == {"above": 9, "sibling": 9}, "what was used under it was"


def test_who_charges_a_line_that_a_group_has_joined_charges_that_group_until_somebody_has() -> None:
    made = quotas(limited("above"), limited("sibling", "above"), free("team", "above", revision=9, moved=9))
    stamps = {subjects.quota_account("t", "team"): 8}
    made.stamped = stamps.get
    assert accounts(made, "sibling") == {"above": 9, "sibling": 9, "team": 9}
    stamps[subjects.quota_account("t", "team")] = 9
    assert accounts(made, "sibling") == {"above": 9, "sibling": 9}


@settings(max_examples=100)
@given(st.data())
def test_two_views_of_one_change_share_an_account_or_one_is_behind(data: st.DataObject) -> None:
    """Whatever limit appears, or whichever group moves.

    A plan on the old view and one on the new view of two groups that count for one limit have a key in common.
    """
    before = [free("a"), free("b"), free("x", "a"), free("y", "b"), free("z", "x", "a")]
    change = data.draw(st.sampled_from(["limit", "move"]), "change")
    if change == "limit":
        name = data.draw(st.sampled_from(["a", "b", "x", "z"]), "limited")
        after = [limited(each.name, *each.ancestors, revision=9) if each.name == name else each for each in before]
    else:
        moved = {"x": free("x", "b", revision=9, moved=9), "z": free("z", "x", "b", revision=9)}
        after = [moved.get(each.name, each) for each in before]
    old, new = quotas(*before), quotas(*after)
    one = data.draw(st.sampled_from(["x", "y", "z"]), "charged on the old view")
    other = data.draw(st.sampled_from(["x", "y", "z"]), "charged on the new view")
    top = {each.name: (each.name, *each.ancestors) for each in after}
    if set(top[one]) & set(top[other]):
        assert old.accounts(("t", one)).keys() & new.accounts(("t", other)).keys()


@pytest.mark.parametrize("below", [(), ("b",)])
@pytest.mark.parametrize("one", ["x", "y", "z"])
@pytest.mark.parametrize("other", ["x", "y", "z"])
def test_two_views_of_a_move_into_another_tree_share_an_account(below: tuple[str, ...], one: str, other: str) -> None:
    """`x` with `z` below it leaves tree t for tree u: below `b`, where `y` is, or to the top."""
    here = [free("a"), free("x", "a"), free("z", "x", "a")]
    there = [in_tree_u(free("b")), in_tree_u(free("y", "b"))]
    moved = [free("x", *below, revision=9, moved=9, former_trees=["t"]), free("z", "x", *below, revision=9)]
    old, new = quotas(*here, *there), quotas(here[0], *there, *map(in_tree_u, moved))
    lines = {"x": {"x", *below}, "y": {"y", "b"}, "z": {"z", "x", *below}}
    shared = old.accounts(("u" if one == "y" else "t", one)).keys() & new.accounts(("u", other)).keys()
    if lines[one] & lines[other]:
        assert shared
    assert new.accounts(("t", "a")) == {subjects.quota_account("t", "a"): 9}, (
        "what is used of the tree that it left, too"
    )


def in_tree_u(group: QuotaGroup) -> QuotaGroup:
    return msgspec.structs.replace(group, tree="u")
