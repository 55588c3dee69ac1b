"""Whom a PodDisruptionBudget protects, and how far."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench
from tests.services.worlds.solver.nominating import nominate
from tests.services.worlds.solver.preempting import held, low, sized

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.kube import LabelSelector
from berth.contracts.ledger import AccountStamp
from berth.contracts.state import PodDisruptionBudget


async def test_who_a_budget_protects_stays_if_another_node_will_do(run: Any, bench: SolverBench) -> None:
    run.node("n1", cpu=4000)
    run.pod(low().label("app", "db"))
    run.pod(sized("other", 4, 5).on("n1"))
    budget = PodDisruptionBudget(
        namespace="default", name="b", version=1, selector=LabelSelector(match_labels={"app": "db"})
    )
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["other"]


async def test_a_budget_is_no_veto_where_nobody_else_can_leave(run: Any, bench: SolverBench) -> None:
    run.pod(low().label("app", "db"))
    budget = PodDisruptionBudget(
        namespace="default", name="b", version=1, selector=LabelSelector(match_labels={"app": "db"})
    )
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["low"]


def shop_budget(run: Any, allowed: int) -> None:
    """A budget of those labelled app=db."""
    run.version += 1
    selector = LabelSelector(match_labels={"app": "db"})
    budget = PodDisruptionBudget(
        namespace="default", name="b.c", version=run.version, selector=selector, disruptions_allowed=allowed
    )
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b.c"), budget)


def protected_and_plain(run: Any) -> None:
    """Two pods of one budget on nodes of their own, each dearer than the one before, and a still dearer one."""
    for name in ("n1", "n2"):
        run.node(name, cpu=4000)
    for at in (0, 1):
        run.pod(sized(f"db-{at}", 4, at).label("app", "db").on(f"n{at}"))
    run.pod(sized("plain", 4, 5).on("n2"))


@pytest.mark.parametrize(("allowed", "chosen"), [(1, ["db", "plain"]), (2, ["db", "db"])])
async def test_two_of_one_round_do_not_spend_one_disruption(
    run: Any, bench: SolverBench, allowed: int, chosen: list[str]
) -> None:
    protected_and_plain(run)
    shop_budget(run, allowed)
    run.pods([sized("first", 4, 9), sized("second", 4, 9)])
    await bench.until_idle()
    victims = [each.name.split("-")[0] for name in ("first", "second") for each in held(run, name).victims]
    assert sorted(victims) == chosen


async def test_two_solvers_do_not_spend_one_disruption(run: Any, bench: SolverBench) -> None:
    """They share no node, but the account of the budget."""
    protected_and_plain(run)
    shop_budget(run, 1)
    run.pods([sized("rival", 4, 9).template(gates=["wait"]), sized("high", 4, 9)])

    def another() -> None:
        decision = nominate(run, "rival", "n1", 4, [run.cluster.book.pods["default", "db-1"]])
        account = subjects.account_key(1, subjects.budget_account("default", "b.c"))
        run.ledger.append(account, encode(AccountStamp(plan=decision.plan)))
        run.deliver()

    bench.ledger.before_commit.append(another)
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["plain"]
    assert subjects.budget_account("default", "b.c") not in held(run, "high").accounts


async def test_a_nomination_stamps_the_budgets_of_its_victims_until_they_are_gone(run: Any, bench: SolverBench) -> None:
    run.pod(low().label("app", "db"))
    shop_budget(run, 1)
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    account = subjects.budget_account("default", "b.c")
    assert account in held(run, "high").accounts
    assert account in run.cluster.book.ledger.stamps
    await bench.rounds.tidy()
    assert account in run.cluster.book.ledger.stamps
    run.delete(subjects.namespaced_key("poddisruptionbudget", "default", "b.c"))
    await bench.rounds.tidy()
    assert account not in run.cluster.book.ledger.stamps


async def test_a_budget_that_is_gone_protects_nobody(run: Any, bench: SolverBench) -> None:
    run.node("n1", cpu=4000)
    run.pod(low().label("app", "db"))
    run.pod(sized("other", 4, 5).on("n1"))
    key = subjects.namespaced_key("poddisruptionbudget", "default", "b")
    selector = LabelSelector(match_labels={"app": "db"})
    run.state(key, PodDisruptionBudget(namespace="default", name="b", version=1, selector=selector))
    run.delete(key)
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["low"]
