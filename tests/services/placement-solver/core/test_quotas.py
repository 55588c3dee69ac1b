"""Quotas: who pays, what a charge counts for, and which limit refuses."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.quota import QuotaGroup
from berth.placement_solver.core.quotas import UNLIMITED, Quotas
from berth.rules.quota_of_pod import DEFAULT_GROUP

CPU = names.CPU


def quotas(*groups: QuotaGroup) -> Quotas:
    made = Quotas()
    for group in groups:
        made.see(group.tree, group.name, group)
    return made


def group(name: str, most: int = 10, **fields: Any) -> QuotaGroup:
    fields = {"runtime": {CPU: most}, "max": {CPU: most}, "limits": [CPU], "tree": "", "revision": 1, **fields}
    return QuotaGroup(name=name, **fields)


COMPANY = group("company", 10, is_parent=True)
BLUE = group("blue", 8, ancestors=["company"], namespaces=["sea"], min={CPU: 3}, revision=7)
RED = group("red", 8, ancestors=["company"])


def test_label_namespace_and_default_say_who_pays() -> None:
    made = quotas(COMPANY, BLUE, RED, group(DEFAULT_GROUP))
    assert made.group_of("red", "sea") == ("", "red")
    assert made.group_of(None, "sea") == ("", "blue")
    assert made.group_of(None, "desert") == ("", DEFAULT_GROUP)
    assert made.group_of("unknown", "sea") == ("", DEFAULT_GROUP)


def test_without_any_quota_nobody_pays() -> None:
    assert quotas().group_of("red", "sea") is None
    assert quotas(BLUE).group_of(None, "desert") is None


def test_a_group_that_goes_takes_its_namespaces_along() -> None:
    made = quotas(BLUE, group(DEFAULT_GROUP))
    made.see("", "blue", None)
    assert made.group_of(None, "sea") == ("", DEFAULT_GROUP)


def test_a_group_that_leaves_one_tree_is_found_in_the_other() -> None:
    made = quotas(group("twin", tree="a"), group("twin", tree="b"))
    made.see("b", "twin", None)
    assert made.group_of("twin", "sea") == ("a", "twin")


def test_the_runtime_binds_the_group_and_the_max_its_ancestors() -> None:
    made = quotas(COMPANY, BLUE, RED)
    assert made.refusal(("", "blue"), {CPU: 8}, non_preemptible=False) is None
    reason = made.refusal(("", "blue"), {CPU: 9}, non_preemptible=False)
    assert reason is not None
    assert reason.message == "quota blue: use of cpu 0 + 9m exceeds its runtime 8m"
    assert reason.repair == "raise min and max of quota blue to 9m cpu"
    made.charge("/red", {CPU: 6}, 1, non_preemptible=False)
    reason = made.refusal(("", "blue"), {CPU: 5}, non_preemptible=False)
    assert reason is not None
    assert "quota company: use of cpu 6m + 5m exceeds its max 10m" in reason.message


def test_non_preemptible_pods_stay_within_the_min() -> None:
    made = quotas(COMPANY, BLUE)
    made.charge("/blue", {CPU: 5}, 1, non_preemptible=False)
    assert made.refusal(("", "blue"), {CPU: 3}, non_preemptible=True) is None
    made.charge("/blue", {CPU: 1}, 1, non_preemptible=True)
    assert made.refusal(("", "blue"), {CPU: 3}, non_preemptible=True) is not None
    assert made.refusal(("", "blue"), {CPU: 2}, non_preemptible=True) is None


def test_what_a_group_does_not_limit_is_free_and_what_it_does_not_grant_is_nothing() -> None:
    made = quotas(group("g", runtime={}, max={CPU: 5}))
    assert made.refusal(("", "g"), {names.MEMORY: 1 << 60}, non_preemptible=False) is None
    assert made.refusal(("", "g"), {CPU: 1}, non_preemptible=False) is not None
    assert made.refusal(("", "g"), {CPU: 0}, non_preemptible=False) is None


def test_a_group_is_not_charged_before_all_above_it_are_known() -> None:
    made = quotas(group("leaf", ancestors=["blue", "company"]), BLUE)
    reason = made.refusal(("", "leaf"), {CPU: 1}, non_preemptible=False)
    assert reason is not None
    assert (reason.code, reason.message) == (
        "quota",
        "quota leaf: the limits of quota company above it are not known yet",
    )
    made.see("", "company", COMPANY)
    assert made.refusal(("", "leaf"), {CPU: 1}, non_preemptible=False) is None
    made.see("", "blue", None)
    assert made.refusal(("", "leaf"), {CPU: 1}, non_preemptible=False) is not None


def test_a_group_above_its_runtime_gets_nothing_more() -> None:
    made = quotas(COMPANY, BLUE)
    made.charge("/blue", {CPU: 20}, 1, non_preemptible=False)
    assert made.refusal(("", "blue"), {CPU: 1}, non_preemptible=False) is not None
    assert made.refusal(("", "blue"), {names.MEMORY: 1}, non_preemptible=False) is None


def test_accounts_are_all_of_the_line_with_their_revisions() -> None:
    free = group("free", limits=[CPU], max={CPU: UNLIMITED})
    made = quotas(COMPANY, free, BLUE, group("leaf", ancestors=["free", "company"], revision=3))
    assert made.accounts(("", "leaf")) == {
        subjects.quota_account("", "leaf"): 3,
        subjects.quota_account("", "free"): 1,
        subjects.quota_account("", "company"): 1,
    }


def test_a_group_that_moves_takes_its_use_along() -> None:
    made = quotas(COMPANY, BLUE, group("other"))
    made.charge("/blue", {CPU: 4}, 1, non_preemptible=False)
    made.see("", "blue", group("blue", ancestors=["other"]))
    assert made.used(("", "company")).get(CPU, 0) == 0
    assert made.used(("", "other"))[CPU] == 4


def test_a_charge_before_its_group_is_known_counts_once_it_is() -> None:
    made = quotas()
    made.charge("/blue", {CPU: 4}, 1, non_preemptible=False)
    made.see("", "company", COMPANY)
    made.see("", "blue", BLUE)
    assert made.used(("", "company"))[CPU] == 4
    made.reset()
    made.see("", "company", COMPANY)
    made.see("", "blue", BLUE)
    assert made.used(("", "company"))[CPU] == 4


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["blue", "red", "company"]), st.integers(0, 5), st.booleans()), max_size=20))
def test_use_is_the_sum_over_the_subtree_and_goes_back_to_nothing(charges: list[tuple[str, int, bool]]) -> None:
    made = quotas(COMPANY, BLUE, RED)
    for name, amount, non_preemptible in charges:
        made.charge(f"/{name}", {CPU: amount}, 1, non_preemptible=non_preemptible)
    for name in ("blue", "red"):
        assert made.used(("", name)).get(CPU, 0) == sum(amount for each, amount, _ in charges if each == name)
    assert made.used(("", "company")).get(CPU, 0) == sum(amount for _, amount, _ in charges)
    for name, amount, non_preemptible in charges:
        made.charge(f"/{name}", {CPU: amount}, -1, non_preemptible=non_preemptible)
    assert all(made.used(("", name)).get(CPU, 0) == 0 for name in ("blue", "red", "company"))
