"""Reference cases of the runtime rule, one level and whole trees."""

import pytest
from tests.services.worlds.quota.definition import Asking, Child, solve

from berth.quota_manager.core.sharing import share
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("quota/runtime_redistribution"))
def test_one_level_shares_its_total(case):
    children = [
        Child(
            name=child["name"],
            weight=child["weight"],
            request=child["request"],
            minimum=child["min"],
            guarantee=child["guarantee"],
            lends=child["lend"],
        )
        for child in case["given"]["children"]
    ]
    assert share(case["given"]["total"], children) == case["expect"]["runtime"]


def without_zeros(amounts):
    return {key: amount for key, amount in amounts.items() if amount}


@pytest.mark.parametrize("case", cases("quota/quota_tree_runtime"))
def test_a_tree_is_solved(case):
    given = case["given"]
    groups = [
        Asking(
            name=quota["name"],
            parent=None if quota["parent"] == "root" else quota["parent"],
            max=quota["max"],
            min=quota.get("min", {}),
            weight=quota.get("weight"),
            lends=quota["lend"],
            self_request=quota.get("selfRequest", {}),
            self_used=quota.get("selfUsed", {}),
        )
        for quota in given["quotas"]
    ]
    figures = solve(groups, given["total"], scales_min=given["scaleMin"], guarantees_use=given["guaranteeUsage"])
    names = {"request": "request", "autoScaleMin": "effective_min", "runtime": "runtime"}
    names |= {"allocated": "allocated", "guaranteed": "guaranteed"}
    for name, expected in case["expect"]["quotas"].items():
        for field, amounts in expected.items():
            assert without_zeros(getattr(figures[name], names[field])) == without_zeros(amounts), (name, field)


@pytest.mark.parametrize("case", cases("quota/scaled_min"))
def test_a_min_is_scaled(case):
    given = case["given"]
    level = [
        Asking(name=each["name"], parent=None, max=each["min"], min=each["min"], keeps_min=not each["scalable"])
        for each in given["siblings"]
    ]
    original = next(each.min for each in level if each.name == given["quota"])
    expected = case["expect"]["scaledMin"] or original  # null: scaling has nothing to say of it
    assert solve(level, given["total"])[given["quota"]].effective_min == expected
