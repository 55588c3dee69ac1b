"""Batch and mid resources: the smaller of what is offered and what the node shows, and the law that holds it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.grants import ZONE
from berth.contracts.names import ANNOTATION_NUMA_SPEC, BATCH_CPU, BATCH_MEMORY
from berth.contracts.slo import NodeOffer, Offer, ZoneOffer
from berth.contracts.topology import NodeTopology, ZoneCapacity
from berth.testing.builders import node_topology, pod


class Lent:
    """One node that shows so much, and what is offered of it."""

    def __init__(self, run: Any, shown: int) -> None:
        self.run = run
        self.node = run.node("n", extended={BATCH_CPU: shown, BATCH_MEMORY: 100})
        self.revision = 0

    def offer(self, amount: int, *, uid: str = "", node: str = "n", zones: Iterable[int] = ()) -> None:
        self.revision += 1
        offers = {BATCH_CPU: Offer(amount=amount), BATCH_MEMORY: Offer(amount=100)}
        of_zones = [ZoneOffer(zone=zone, amounts={BATCH_CPU: each}) for zone, each in enumerate(zones)]
        message = NodeOffer(
            node=node,
            uid=uid or self.node.uid,
            revision=self.revision,
            offers=offers if amount else {},
            zones=of_zones,
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


# --- NUMA nodes -------------------------------------------------------------------------------------------------------


def lends_by_zone(*amounts: int) -> NodeTopology:
    """A topology that shows so much of what its NUMA nodes lend."""
    made = node_topology("n", zones=len(amounts))
    zones = [
        ZoneCapacity(zone=each.zone, amounts={**each.amounts, BATCH_CPU: amount})
        for each, amount in zip(made.zones, amounts, strict=True)
    ]
    return replace(made, zones=zones)


def within_one(name: str, milli: int = 1_000) -> Any:
    """A batch pod that has to lie within one NUMA node."""
    spec = json.dumps({"numaTopologyPolicy": "SingleNUMANode"})
    return pod(name).requests({BATCH_CPU: milli, BATCH_MEMORY: 1}).annotation(ANNOTATION_NUMA_SPEC, spec)


def zones_of(run: Any, solution: Any) -> dict[str, list[int]]:
    return {
        placement.claim.name[1]: [grant.minor for grant in placement.claim.grants if grant.kind == ZONE]
        for placement in solution.placements
    }


def tried(run: Any, *names: str) -> dict[str, list[int]]:
    for name in names:
        run.pod(within_one(name))
    run.cluster.now += 60
    run.cluster.wake()
    return zones_of(run, run.round())


@pytest.mark.parametrize(
    ("shown", "offered", "fits"),
    [((2_000, 0), (1_000, 5_000), 1), ((1_000, 1_000), (5_000, 0), 1), ((3_000, 3_000), (1_000, 2_000), 3)],
)
def test_of_a_numa_node_counts_the_smaller_of_offer_and_topology(run, shown, offered, fits):
    lent = Lent(run, shown=50_000)
    run.topology("n", lends_by_zone(*shown))
    lent.offer(50_000, zones=offered)
    placed = tried(run, "a", "b", "c", "d")
    assert len(placed) == fits
    assert all(len(zones) == 1 for zones in placed.values())


def test_a_numa_node_whose_offer_rises_takes_who_waited(run):
    lent = Lent(run, shown=50_000)
    run.topology("n", lends_by_zone(9_000, 9_000))
    lent.offer(50_000, zones=(0, 500))
    assert tried(run, "a") == {}
    run.cluster.wake()
    assert not run.cluster.has_news
    lent.offer(50_000, zones=(0, 1_500))
    assert run.cluster.has_news
    assert tried(run) == {"a": [1]}
    lent.offer(0)
    assert tried(run, "b") == {}
    lent.withdraw()
    assert tried(run) == {"b": [0]}, "nobody offers: what the topology shows"


def test_a_numa_node_that_is_seen_before_its_node_counts_by_its_offer(run):
    lent = Lent(run, shown=50_000)
    lent.offer(50_000, uid="later", zones=(1_000, 0))
    run.topology("n", lends_by_zone(9_000, 9_000))
    run.cluster.nodes.see_node("n", replace(lent.node, uid="later"))
    assert len(tried(run, "a", "b")) == 1


def test_the_verifier_counts_numa_nodes_by_the_offer_itself(run):
    lent = Lent(run, shown=50_000)
    run.topology("n", lends_by_zone(9_000, 0))
    for name in ("a", "b"):
        run.pod(within_one(name))
    solution, trial = run.solve()
    trial.undo()
    claims = [placement.claim for placement in solution.placements]
    assert run.verifier.check(claims) == []
    lent.offer(50_000, zones=(1_500, 9_000))
    problems = run.verifier.check(claims)
    text = "NUMA node 0 lends kubernetes.io/batch-cpu 2000 of 1500 offered in revision 1"
    assert any(text in each for each in problems)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("offer"), st.lists(st.integers(0, 4), min_size=2, max_size=2)),
            st.tuples(st.just("show"), st.lists(st.integers(0, 4), min_size=2, max_size=2)),
            st.tuples(st.just("pods"), st.lists(st.integers(1, 2), min_size=1, max_size=3)),
        ),
        min_size=2,
        max_size=8,
    )
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_numa_node_ever_gives_more_than_the_smaller_of_the_two(solving, steps):
    run = solving()
    lent = Lent(run, shown=50_000)
    shown, offered = [2, 2], None
    run.topology("n", lends_by_zone(2_000, 2_000))
    for at, (what, amounts) in enumerate(steps):
        if what == "offer":
            offered = amounts
            lent.offer(50_000, zones=[1_000 * each for each in amounts])
        elif what == "show":
            shown = amounts
            run.topology("n", lends_by_zone(*(1_000 * each for each in amounts)))
        else:
            for number, size in enumerate(amounts):
                run.pod(within_one(f"p{at}-{number}", 1_000 * size))
            run.cluster.now += 60
            run.cluster.wake()
            arrived = zones_of(run, run.round())
            for zone in (0, 1):
                claims = run.cluster.book.claims_on("n")
                held = sum(
                    grant.amounts.get(BATCH_CPU, 0)
                    for claim in claims
                    for grant in claim.grants
                    if grant.kind == ZONE and grant.minor == zone
                )
                most = shown[zone] if offered is None else min(shown[zone], offered[zone])
                assert held <= 1_000 * most or not any(zone in zones for zones in arrived.values())
