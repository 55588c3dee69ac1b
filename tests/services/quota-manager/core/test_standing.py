"""What people are told of the groups: each behind the one above it, with its loans and who waits."""

from __future__ import annotations

from berth.contracts.base import Problem
from berth.quota_manager.core.book import Claim, ClassKey
from berth.quota_manager.core.engine import Engine
from berth.quota_manager.core.group import GroupSpec
from berth.quota_manager.core.loans import Loans
from berth.quota_manager.core.standing import standing
from berth.rules.quota_of_pod import BUILT_IN_GROUPS


def nothing(name: str) -> dict[str, dict[str, str]]:
    return {}


def engine() -> tuple[Engine, Loans]:
    made, loans = Engine(), Loans()
    made.put_node("n", {"cpu": 10_000})
    for name, parent, least in (("top", "", 10_000), ("b", "top", 4_000), ("a", "top", 6_000), ("lost", "gone", 0)):
        spec = GroupSpec(name=name, namespace="ns", parent=parent, is_parent=name == "top", min={"cpu": least})
        made.put_quota(name, GroupSpec(**{**_fields(spec), "max": {"cpu": 10_000}}))
    for pod, group, cpu, is_assigned in (("p", "b", 6_000, True), ("q", "b", 2_000, False), ("r", "a", 2_000, True)):
        made.book.put(pod, ClassKey(group), Claim((("cpu", cpu),), is_assigned, False))
    made.settle()
    loans.touch(made.forest.groups.values())
    loans.settle()
    return made, loans


def _fields(spec: GroupSpec) -> dict[str, object]:
    return {name: getattr(spec, name) for name in ("name", "namespace", "parent", "is_parent", "min")}


def test_each_group_is_behind_the_one_above_it() -> None:
    made, loans = engine()
    answer = standing(made, loans.of, {"ns/lost": [Problem(field="f", message="m")]}, shown_of=nothing)
    rows = [(each.name, each.depth) for each in answer.groups if each.name not in BUILT_IN_GROUPS]
    assert rows == [("top", 0), ("a", 1), ("b", 1), ("lost", 0)]
    assert answer.totals == {"": {"cpu": 10_000}}
    by_name = {each.name: each for each in answer.groups}
    a, b = by_name["a"], by_name["b"]
    assert (a.runtime, a.lent, a.lent_to) == ({"cpu": 2_000}, {"cpu": 4_000}, ["b"])
    assert (b.runtime, b.borrowed, b.borrowed_from) == ({"cpu": 8_000}, {"cpu": 4_000}, ["a"])
    assert (b.pods, b.waiting, b.used, b.short) == (2, 1, {"cpu": 6_000}, [])
    assert by_name["lost"].detached
    assert [each.message for each in by_name["lost"].problems] == ["m"]


def test_one_group_comes_with_those_above_and_below() -> None:
    made, loans = engine()
    assert [each.name for each in standing(made, loans.of, {}, shown_of=nothing, name="b").groups] == ["top", "b"]
    assert [each.name for each in standing(made, loans.of, {}, shown_of=nothing, name="top").groups] == [
        "top",
        "a",
        "b",
    ]
    assert standing(made, loans.of, {}, shown_of=nothing, name="x").groups == []
