"""Pods that borrow what is reserved and idle, and owners who come back: whatever is placed or proposed, the verifier
agrees, and nodes hold what pods take and what Reservations keep beside what is borrowed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names, subjects
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Decision, Loan
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver import metrics
from berth.rules.preemption import BY_OWNER
from berth.testing.builders import PodBuilder, pod
from berth.transaction.book import Book

PRIORITY = 100


@pytest.fixture
def run(solving: type[Any]) -> Any:
    return solving()


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=False)


def reserve(run: Any, name: str, cores: int, node: str = "n0", priority: int = PRIORITY, **fields: Any) -> None:
    amounts = {names.CPU: cores * 1000}
    owners = [ReservationOwner(label_selector=LabelSelector(match_labels={"own": name}))]
    seen = Reservation(
        name=name,
        uid=f"uid-{name}",
        version=1,
        template=PodTemplate(requests=amounts, priority=priority),
        phase="Available",
        node=node,
        allocatable=amounts,
        owners=owners,
    )
    given = {"allocate_once": False, "allocate_policy": "Restricted", **fields}
    run.reservation(
        seen,
        ReservedCapacity(
            name=name,
            uid=f"uid-{name}",
            revision=1,
            phase="Available",
            node=node,
            usable=True,
            amounts=amounts,
            owners=owners,
            priority=priority,
            **given,
        ),
    )


def borrower(name: str, cores: int, priority: int = 0) -> PodBuilder:
    made = pod(name).requests(cpu=cores * 1000).template(priority=priority)
    return made.label(names.LABEL_RESERVATION_IGNORED, "true")


def owner(name: str, cores: int, of: str = "r", priority: int = 0) -> PodBuilder:
    return pod(name).requests(cpu=cores * 1000).template(priority=priority).label("own", of)


def free(run: Any, node: str = "n0") -> int:
    nodes = run.cluster.nodes
    return int(nodes.free[nodes.column(names.CPU), nodes.row(node)]) // 1000


def nomination(run: Any, name: str) -> Decision | None:
    entry = run.cluster.book.ledger.decisions.get(("default", name))
    return entry.decision if entry is not None and entry.decision.nominates else None


def test_what_is_idle_is_lent_and_named(run: Any) -> None:
    run.node("n0", cpu=8000)
    reserve(run, "r", 6)
    run.pod(borrower("b", 4))
    (placement,) = run.round().placements
    (loan,) = placement.claim.loans
    assert (loan.reservation, loan.amounts) == ("r", {names.CPU: 2000})  # two are free beside
    assert (free(run), run.cluster.capacity.reserved["uid-r"].amounts) == (0, {names.CPU: 4000})
    decision = run.cluster.book.ledger.decisions["default", "b"].decision
    assert subjects.reservation_account("r") in decision.accounts
    run.delete_pod("b")
    assert (free(run), run.cluster.capacity.reserved["uid-r"].amounts) == (2, {names.CPU: 6000})


@pytest.mark.parametrize(
    "builder",
    [
        borrower("b", 4, priority=PRIORITY),
        borrower("b", 4).label(names.LABEL_DISABLE_PREEMPTIBLE, "true"),
        borrower("b", 4).gang("g", 1),
        borrower("b", 9),
        pod("b").requests(cpu=4000),
    ],
    ids=["not lower", "protected", "of a gang", "too large", "does not ask"],
)
def test_who_cannot_be_made_to_leave_borrows_nothing(run: Any, builder: PodBuilder) -> None:
    run.node("n0", cpu=8000)
    reserve(run, "r", 6)
    run.pod(builder)
    assert run.round().placements == ()


def test_the_inner_part_and_what_users_take_are_not_idle(run: Any) -> None:
    run.node("n0", cpu=8000)
    reserve(run, "r", 8)
    run.pod(owner("o", 3))
    run.round()
    run.pod(borrower("b", 6))
    assert run.round().placements == ()
    run.pod(borrower("c", 5))
    assert run.nodes_of(run.round()) == {"c": "n0"}


@pytest.mark.parametrize("affinity", ["", '{"name": "r"}'], ids=["may", "must"])
async def test_an_owner_draws_on_its_reservation_also_where_others_have_left_for_it(
    run: Any, bench: SolverBench, affinity: str
) -> None:
    """Though it might have the place beside the Reservation by now."""
    run.node("n0", cpu=8000)
    reserve(run, "r", 6)
    run.pod(borrower("b", 8))
    await bench.until_idle()
    run.bind(borrower("b", 8))
    back = owner("back", 2)
    run.pod(back.annotation(names.ANNOTATION_RESERVATION_AFFINITY, affinity) if affinity else back)
    await bench.until_idle()
    assert nomination(run, "back") is not None
    rejected = metrics.REJECTED_PLANS._value.get()
    run.delete_pod("b")
    bench.clock.time += 20
    await bench.until_idle()
    assert metrics.REJECTED_PLANS._value.get() == rejected
    (claim,) = [each for each in run.cluster.book.claims_on("n0") if each.name == ("default", "back")]
    assert claim.reservation == "uid-r"


async def test_owners_make_borrowers_leave_whatever_is_configured(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=8000)
    run.configure(plugins={"postFilter": {"disabled": [{"name": "*"}]}})
    reserve(run, "r", 8)
    for name, cores in (("small", 2), ("large", 5)):
        run.pod(borrower(name, cores))
        await bench.until_idle()
        run.bind(borrower(name, cores))
    run.pod(owner("o", 4, priority=-5))
    await bench.until_idle()
    decision = nomination(run, "o")
    assert decision is not None
    assert (decision.eviction_reason, decision.reservation) == (BY_OWNER, "r")
    assert [victim.name for victim in decision.victims] == ["large"]
    run.delete_pod("large")
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed()["o"] == "n0"
    assert free(run) == 0
    assert run.cluster.capacity.reserved["uid-r"].amounts == {names.CPU: 2000}


async def test_strangers_gain_nothing_by_a_borrower_that_leaves(run: Any, solving: type[Any]) -> None:
    bench = SolverBench(run, preempts=True)
    run.node("n0", cpu=8000)
    reserve(run, "r", 8)
    run.pod(borrower("b", 6))
    await bench.until_idle()
    run.bind(borrower("b", 6))
    run.pod(pod("high").requests(cpu=4000).template(priority=1000))
    await bench.until_idle()
    assert nomination(run, "high") is None


def rebuilt(book: Book) -> Book:
    """As who has read STATE alone knows it: LEDGER is lost."""
    made = Book()
    for name, seen in book.pods.items():
        made.see_pod(name, seen)
    for name, reservation in book.reservations.items():
        made.see_reservation(name, reservation)
    return made


def loans_in(book: Book) -> dict[str, tuple[Loan, ...]]:
    return {claim.uid: claim.loans for claim in book.claims() if claim.is_bound and claim.loans}


kinds = st.sampled_from(["borrower", "borrower", "owner", "plain"])
waves = st.lists(
    st.lists(st.tuples(kinds, st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=4), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 1), st.integers(1, 6)), min_size=1, max_size=3), waves)
def test_the_verifier_agrees_and_nodes_hold_what_is_kept(
    solving: type[Any], reservations: list[tuple[int, int, int]], drawn: list[list[tuple[str, int, int]]]
) -> None:
    async def scenario() -> None:
        run = solving()
        bench = SolverBench(run, preempts=True)
        rejected = metrics.REJECTED_PLANS._value.get()
        room = {"n0": 8, "n1": 8}
        for node in room:
            run.node(node, cpu=8000)
        for number, (cores, at, priority) in enumerate(reservations):
            if room[f"n{at}"] >= cores:
                room[f"n{at}"] -= cores
                reserve(run, f"r{number}", cores, f"n{at}", priority)
        made: dict[str, PodBuilder] = {}
        for wave, pods in enumerate(drawn):
            for number, (kind, cores, priority) in enumerate(pods):
                name = f"{kind}-{wave}-{number}"
                if kind == "borrower":
                    builder = borrower(name, cores, priority)
                elif kind == "owner":
                    builder = owner(name, cores, f"r{number % 3}", priority)
                else:
                    builder = pod(name).requests(cpu=cores * 1000).template(priority=priority)
                made[name] = builder
                run.pod(builder)
            await bench.until_idle()
            for name in bench.placed():
                seen = run.cluster.book.pods.get(("default", name))
                if seen is not None and not seen.node and nomination(run, name) is None:
                    run.bind(made[name])
            for name in list(made):
                found = nomination(run, name)
                for victim in found.victims if found is not None else ():
                    run.delete_pod(victim.name)
            bench.clock.time += 20
            await bench.until_idle()
            for node in room:
                claims = list(run.cluster.book.claims_on(node))
                pods_take = sum(each.amounts[names.CPU] for each in claims if not each.is_reservation)
                kept = 0
                for each in claims:
                    if each.is_reservation:
                        used = sum(c.amounts[names.CPU] for c in claims if c.reservation == each.uid)
                        lent = sum(
                            loan.amounts.get(names.CPU, 0)
                            for c in claims
                            for loan in c.loans
                            if loan.reservation_uid == each.uid
                        )
                        kept += max(0, each.amounts[names.CPU] - used - lent)
                assert pods_take + kept <= 8000
            assert loans_in(rebuilt(run.cluster.book)) == loans_in(run.cluster.book)
        assert metrics.REJECTED_PLANS._value.get() == rejected

    asyncio.run(scenario())
