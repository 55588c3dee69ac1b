"""Reference cases of the runtime rule, one level and whole trees."""

import json
from pathlib import Path

import pytest

from berth.quota_manager.core.sharing import Child, effective_minimum, share
from berth.quota_manager.core.solve import Asking, solve

VECTORS = Path(__file__).parents[3] / "vectors" / "quota"


def cases(name: str):
    return [pytest.param(case, id=case["name"]) for case in json.loads((VECTORS / f"{name}.json").read_text())["cases"]]


@pytest.mark.parametrize("case", cases("runtime_redistribution"))
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


@pytest.mark.parametrize("case", cases("quota_tree_runtime"))
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


@pytest.mark.parametrize("case", cases("scaled_min"))
def test_a_min_is_scaled(case):
    given = case["given"]
    child = next(sibling for sibling in given["siblings"] if sibling["name"] == given["quota"])
    if not child["scalable"]:
        assert case["expect"]["scaledMin"] is None
        return
    scaled = dict(child["min"])
    for key, total in given["total"].items():
        sums = {True: 0, False: 0}
        for sibling in given["siblings"]:
            sums[sibling["scalable"]] += sibling["min"].get(key, 0)
        if key in scaled:
            scaled[key] = effective_minimum(total, scaled[key], scalable_sum=sums[True], fixed_sum=sums[False])
    assert scaled == case["expect"]["scaledMin"]
