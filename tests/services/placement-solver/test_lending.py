"""Batch and mid resources: the smaller of what is offered and what the node shows, and the law that holds it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.names import BATCH_CPU, BATCH_MEMORY
from berth.contracts.slo import NodeOffer, Offer
from berth.testing.builders import pod


class Lent:
    """One node that shows so much, and what is offered of it."""

    def __init__(self, run: Any, shown: int) -> None:
        self.run = run
        self.node = run.node("n", extended={BATCH_CPU: shown, BATCH_MEMORY: 100})
        self.revision = 0

    def offer(self, amount: int, *, uid: str = "", node: str = "n") -> None:
        self.revision += 1
        offers = {BATCH_CPU: Offer(amount=amount), BATCH_MEMORY: Offer(amount=100)}
        message = NodeOffer(
            node=node, uid=uid or self.node.uid, revision=self.revision, offers=offers if amount else {}
        )
        self.run.cluster.read_offer(subjects.named_key("offer", node), encode(message), False)

    def withdraw(self) -> None:
        self.run.cluster.read_offer(subjects.named_key("offer", "n"), b"", True)

    def placed(self, *names: str) -> list[str]:
        for name in names:
            self.run.pod(borrower(name))
        self.run.cluster.now += 60  # whatever back-off there is
        self.run.cluster.wake()
        return sorted(self.run.nodes_of(self.run.round()))


def borrower(name: str) -> Any:
    return pod(name).requests({BATCH_CPU: 1_000, BATCH_MEMORY: 1})


@pytest.fixture
def run(solving: Any) -> Any:
    return solving()


def test_the_smaller_of_the_two_counts(run):
    lent = Lent(run, shown=3_000)
    lent.offer(2_000)
    assert lent.placed("a", "b", "c", "d") == ["a", "b"]
    assert {each.decision.offer for each in run.cluster.book.ledger.decisions.values()} == {1}
    lent.offer(10_000)
    assert lent.placed() == ["c"], "no more than the node shows"
    assert run.cluster.book.ledger.decisions["default", "c"].decision.offer == 2


def test_where_nobody_offers_the_node_counts(run):
    lent = Lent(run, shown=2_000)
    assert lent.placed("a") == ["a"]
    assert run.cluster.book.ledger.decisions["default", "a"].decision.offer == 0
    lent.offer(0)
    assert lent.placed("b") == [], "nothing is lent"
    lent.withdraw()
    assert lent.placed() == ["b"]


def test_an_offer_of_a_former_node_says_nothing(run):
    lent = Lent(run, shown=2_000)
    lent.offer(0, uid="another")
    assert lent.placed("a") == ["a"]


def test_an_offer_may_come_before_its_node(run):
    lent = Lent(run, shown=2_000)
    lent.offer(1_000, uid="uid-later", node="later")
    assert lent.placed("a", "b") == ["a", "b"]


def test_other_pods_do_not_name_a_revision(run):
    lent = Lent(run, shown=2_000)
    lent.offer(2_000)
    run.pod(pod("native").requests(cpu=1_000))
    run.round()
    assert run.cluster.book.ledger.decisions["default", "native"].decision.offer == 0


def test_the_verifier_does_not_believe_the_columns(run):
    lent = Lent(run, shown=3_000)
    for name in ("a", "b"):
        run.pod(borrower(name))
    solution, trial = run.solve()
    trial.undo()
    lent.offer(1_000)
    run.cluster.nodes.states[run.cluster.nodes.rows["n"]] = lent.node  # as if the offer did not count
    problems = run.verifier.check([placement.claim for placement in solution.placements])
    assert any("lends kubernetes.io/batch-cpu 2000 of 1000 offered in revision 1" in str(each) for each in problems)


def test_what_is_lent_already_stays_lent(run):
    lent = Lent(run, shown=3_000)
    lent.offer(3_000)
    assert lent.placed("a", "b") == ["a", "b"]
    lent.offer(1_000)
    run.pod(pod("native").requests(cpu=1_000))
    assert sorted(run.nodes_of(run.round())) == ["native"]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("offer"), st.integers(0, 6)),
            st.tuples(st.just("show"), st.integers(0, 6)),
            st.tuples(st.just("pods"), st.integers(1, 3)),
            st.tuples(st.just("gone"), st.just(0)),
        ),
        min_size=2,
        max_size=14,
    )
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nobody_is_ever_given_more_than_the_smaller_of_the_two(solving, steps):
    """The verifier looks at each plan on its own, from what is offered and not from the columns."""
    run = solving()
    lent = Lent(run, shown=3_000)
    offered: int | None = None
    shown = 3_000
    for at, (what, amount) in enumerate(steps):
        if what == "offer":
            offered = amount * 1_000
            lent.offer(offered)
        elif what == "show":
            shown = amount * 1_000
            lent.node = run.node("n", extended={BATCH_CPU: shown, BATCH_MEMORY: 100})
        elif what == "gone":
            offered = None
            lent.withdraw()
        else:
            held = sum(claim.amounts.get(BATCH_CPU, 0) for claim in run.cluster.book.claims_on("n"))
            placed = lent.placed(*(f"p{at}-{number}" for number in range(amount)))
            most = shown if offered is None else min(shown, offered)
            assert not placed or held + 1_000 * len(placed) <= most
            assert placed or held + 1_000 > most
            revisions = {run.cluster.book.ledger.decisions["default", name].decision.offer for name in placed}
            assert revisions <= {0 if offered is None else lent.revision}
