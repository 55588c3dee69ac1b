"""What LEDGER has held: which plans somebody may bind under when the ledger lost them."""

from __future__ import annotations

from berth.contracts.ledger import Plan, PlanStatus
from berth.invariants.observer.decided import Decided
from berth.invariants.observer.doubt import Doubt

ALL = {plan: Plan(id=plan, status=PlanStatus.COMMITTED) for plan in "abc"}


def committed(*plans: str) -> Decided:
    decided = Decided(Doubt())
    decided.epoch_begins(1)
    for plan in plans:
        decided.plan(Plan(id=plan, status=PlanStatus.COMMITTED))
    return decided


def test_a_plan_that_the_lease_named_outlives_the_loss() -> None:
    decided = committed("a", "b", "c")
    decided.acted_on("b")
    decided.lost(1, ALL, {})
    assert [decided.was_committed(plan) for plan in "abc"] == [True, True, False]


def test_the_lease_may_name_a_plan_just_behind_its_loss() -> None:
    decided = committed("a", "b", "c")
    decided.lost(1, ALL, {})
    assert not decided.was_committed("a")
    decided.acted_on("b")
    assert [decided.was_committed(plan) for plan in "abc"] == [True, True, False]
    assert decided.may_have_begun("a")
    assert decided.may_have_begun("b")


def test_a_new_epoch_ends_what_was_lost_before_it() -> None:
    decided = committed("a")
    decided.lost(1, ALL, {})
    decided.epoch_begins(2)
    decided.acted_on("a")
    assert not decided.was_committed("a")


def test_a_name_that_nobody_knows_says_nothing() -> None:
    decided = committed("a")
    decided.lost(1, ALL, {})
    decided.acted_on("")
    decided.acted_on("unheard-of")
    assert not decided.was_committed("a")


def test_a_plan_whose_entry_was_lost_may_be_given_up() -> None:
    decided = committed("a", "b")
    decided.acted_on("b")
    decided.lost(1, ALL, {"a": ALL["a"]})
    assert decided.plan(Plan(id="a", status=PlanStatus.ABORTED)) is PlanStatus.COMMITTED
    assert decided.plan(Plan(id="b", status=PlanStatus.ABORTED)) is None
