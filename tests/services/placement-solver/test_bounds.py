"""Bounds of batches, held against the exact optimum of random ones; and what becomes of a child's answer."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from tests.services.worlds.solver.batches import drawn
from tests.services.worlds.solver.bench import SolverBench
from tests.services.worlds.solver.bounded import judged

from berth.contracts import names
from berth.contracts.codec import decode
from berth.contracts.event import BatchBound, PlacementBounded, PlacementDecided
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Reservation
from berth.placement_solver.bounding import REST_MIN_S
from berth.placement_solver.core.bounds import problem as problems
from berth.placement_solver.core.bounds.columns import groups_of
from berth.placement_solver.core.bounds.problem import Bound, BoundProblem, Draft, bound_problem
from berth.placement_solver.core.bounds.program import solve
from berth.placement_solver.core.bounds.verdict import refusal_of
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.optimiser import Answer, Problem
from berth.testing.builders import gpu_grant, gpu_slots, pod

SEEDS = 60


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_a_bound_is_never_below_what_some_plan_places(solving: type[Any], first: int) -> None:
    for seed in range(first, first + 20):
        assert judged(drawn(random.Random(seed)), solving).wrong == [], seed


def drafted(run: Any) -> Draft:
    """The question about all that wait, who go on waiting."""
    units, _ = run.cluster.batch(1000)
    with Trial(run.cluster.capacity) as trial:
        run.cluster.solver.solve(units, trial, "plan")
        before = run.cluster.nodes.free.copy()
        draft = bound_problem(units, run.cluster.solver, trial.claims)
        assert (run.cluster.nodes.free == before).all()
    for waiting in list(run.cluster.queue.waiting.values()):
        run.cluster.queue.make_ready(waiting)
    assert draft is not None
    return draft


def most(run: Any) -> list[int]:
    """The bound by priority."""
    found = solve(patient(drafted(run).problem))
    assert found is not None
    return found.counts


def patient(problem: BoundProblem) -> BoundProblem:
    """On however busy a machine."""
    return msgspec.structs.replace(problem, time_limit_s=60.0)


def test_what_the_plan_takes_counts_as_free(solving: type[Any]) -> None:
    run = solving()
    run.node("n", cpu=4000)
    run.devices("n", gpu_slots(2))
    run.pod(pod("held").requests(cpu=1000).share(40).on("n", [gpu_grant(0, 40)]))
    run.pods(pod(f"p{at}").requests(cpu=500).share(60) for at in range(3))
    problem = drafted(run).problem
    assert problem.placed == [2]
    groups = groups_of(problem)
    assert groups.most.tolist() == [[2]], "60 percent of one card, and all of the other"


def test_nodes_that_are_alike_are_one_group(solving: type[Any]) -> None:
    run = solving()
    for at in range(50):
        run.node(f"n{at}", cpu=3000)
    run.pods(pod(f"p{at}").requests(cpu=2000) for at in range(60))
    problem = drafted(run).problem
    assert groups_of(problem).most.tolist() == [[50]]
    assert solve(patient(problem)) == Bound([50], "linear")


def test_too_many_groups_make_the_bound_looser_and_no_lower(solving: type[Any]) -> None:
    run = solving()
    for at in range(12):
        run.node(f"n{at}", cpu=1000 * (2 + at), pods=1)
    run.pods(pod(f"a{at}").requests(cpu=2000) for at in range(9))
    run.pods(pod(f"b{at}").requests(cpu=3000) for at in range(9))
    problem = drafted(run).problem
    pooled = groups_of(problem, variables_max=6)
    assert pooled.most.shape == (2, 3)
    assert pooled.most.sum(axis=1).tolist() == groups_of(problem).most.sum(axis=1).tolist()


def test_what_reservations_keep_is_there_for_their_owners_alone(solving: type[Any]) -> None:
    run = solving()
    run.node("n", cpu=4000)
    owners = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "a"}))]
    amounts = {names.CPU: 3000}
    here: dict[str, Any] = {"name": "r", "uid": "uid-r", "node": "n", "phase": "Available", "owners": owners}
    template = pod("t").requests(cpu=3000).build(1).template
    run.reservation(
        Reservation(**here, version=0, template=template, allocatable=amounts),
        ReservedCapacity(**here, revision=1, amounts=amounts, allocate_once=False, usable=True),
    )
    run.pods(pod(f"x{at}").requests(cpu=1000) for at in range(3))
    assert (drafted(run).problem.placed, most(run)) == ([1], [1])
    run.pods(pod(f"o{at}").requests(cpu=1000).label("app", "a") for at in range(5))
    assert sorted(drafted(run).problem.spared) == [False, True]
    assert most(run) == [4]


def test_a_batch_of_too_many_kinds_is_too_large(solving: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "ITEMS_MAX", 2)
    run = solving()
    run.node("n", cpu=1000)
    run.pods(pod(f"p{at}").requests(cpu=1000 + at) for at in range(3))
    units, _ = run.cluster.batch(1000)
    assert bound_problem(units, run.cluster.solver, ()) is None


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (Bound([3, 2], "linear"), ""),
        (Bound([3, 1], "linear"), ""),
        (Bound([4], "integer"), ""),
        (Bound([4, 1], "linear"), "malformed"),
        (Bound([3], "linear"), "malformed"),
        (Bound([], "linear"), "malformed"),
        (Bound([3, 1, 0], "linear"), "malformed"),
        (Bound([3, 1], "guess"), "malformed"),
        (Bound([2, 1], "linear"), "below"),
        (Bound([3, 0], "linear"), "below"),
        (Bound([9], "linear"), "excessive"),
    ],
)
def test_an_answer_that_cannot_be_true_has_a_name(solving: type[Any], found: Bound, name: str) -> None:
    run = solving()
    run.node("n", cpu=4000)
    run.pods(pod(f"a{at}").requests(cpu=1000).template(priority=9) for at in range(3))
    run.pods(pod(f"b{at}").requests(cpu=1000) for at in range(2))
    draft = drafted(run)
    draft = draft._replace(pods=(4, 2))  # one more, which goes nowhere
    assert draft.problem.placed == [3, 1]
    assert refusal_of(found, draft) == name


# --- beside the rounds ---


class Told:
    """A `JointSolver` that answers what it is told, once it may."""

    def __init__(self, answer: Answer | None, trouble: str = "") -> None:
        self.answer = answer
        self.trouble = trouble
        self.asked: list[Problem] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def warm_up(self) -> None:
        """Always warm."""

    async def solve(self, problem: Problem) -> Answer | None:
        self.asked.append(problem)
        await self.may_answer.wait()
        return self.answer

    async def stop(self) -> None:
        """Nothing is held."""


class Solved(Told):
    """One that solves in place what the child would."""

    def __init__(self) -> None:
        super().__init__(None)

    async def solve(self, problem: Problem) -> Answer | None:
        assert isinstance(problem, BoundProblem)
        return Answer(None, bound=solve(patient(problem)))


def full(run: Any, pods: int = 3) -> None:
    """A node for two of the pods."""
    run.node("n", cpu=2000)
    run.pods(pod(f"p{at}").requests(cpu=1000) for at in range(pods))


def bench_of(run: Any, optimiser: Any) -> SolverBench:
    return SolverBench(run, optimiser=optimiser, optimiser_budget_s=1.0, bounds=optimiser is not None)


def told(bench: SolverBench) -> list[BatchBound]:
    return [decode(data, PlacementBounded).bound for subject, data in bench.events.messages if ".bounded." in subject]


async def once(bench: SolverBench) -> None:
    await bench.rounds.round()
    for _ in range(3):
        await asyncio.sleep(0)


async def test_where_all_are_placed_nobody_is_asked(solving: type[Any]) -> None:
    run = solving()
    full(run, pods=2)
    bench = bench_of(run, Told(None))
    await once(bench)
    (decided,) = [decode(data, PlacementDecided) for name, data in bench.events.messages if ".decided." in name]
    assert decided.bound == BatchBound(
        status="optimal", method="counted", pods=2, placed=2, objective=2, bound=2, gap=0.0
    )
    assert told(bench) == []
    assert bench.rounds.bounding.words == "2 of 2 placed, no plan places more"


async def test_who_asks_for_what_nobody_does_needs_no_bound(solving: type[Any]) -> None:
    run = solving()
    run.node("n", cpu=2000)
    run.pods(pod(f"p{at}").requests({"nvidia.com/mig-1g.5gb": 1}) for at in range(2))
    optimiser = Told(None)
    bench = bench_of(run, optimiser)
    await once(bench)
    (bound,) = told(bench)
    assert (bound.status, bound.method, bound.pods, bound.bound) == ("optimal", "counted", 2, 0)
    assert optimiser.asked == []


def test_without_a_node_nothing_is_placed(solving: type[Any]) -> None:
    run = solving()
    run.pods(pod(f"p{at}").requests(cpu=1000).share(50) for at in range(2))
    assert most(run) == [0]


async def test_what_the_child_says_is_told(solving: type[Any]) -> None:
    run = solving()
    full(run)
    bench = bench_of(run, Solved())
    await once(bench)
    (bound,) = told(bench)
    assert (bound.status, bound.method, bound.placed, bound.objective, bound.bound) == ("optimal", "linear", 2, 2, 2)
    assert bench.rounds.bounding.tally == "1 optimal"


@pytest.mark.parametrize(
    ("answer", "trouble", "problem"),
    [
        (None, "late", "late"),
        (None, "failed", "failed"),
        (None, "not ready", "not ready"),
        (None, "", "late"),
        (Answer(None, bound=Bound([1], "linear")), "", "below"),
        (Answer(None, bound=Bound([7], "linear")), "", "excessive"),
        (Answer(None, bound=Bound([], "linear")), "", "malformed"),
    ],
)
async def test_without_an_answer_to_believe_it_is_unknown(
    solving: type[Any], answer: Answer | None, trouble: str, problem: str
) -> None:
    run = solving()
    full(run)
    bench = bench_of(run, Told(answer, trouble))
    await once(bench)
    assert len(bench.placed()) == 2
    (bound,) = told(bench)
    assert (bound.status, bound.problem, bound.pods, bound.placed, bound.gap) == ("unknown", problem, 3, 2, -1.0)
    assert bench.rounds.bounding.gap == -1.0
    assert bench.rounds.bounding.words == f"2 of 3 placed, how many could be is unknown ({problem})"


async def test_a_bound_above_the_plan_is_told_with_its_gap(solving: type[Any]) -> None:
    run = solving()
    full(run)
    bench = bench_of(run, Told(Answer(None, bound=Bound([3], "linear"))))
    await once(bench)
    (bound,) = told(bench)
    assert (bound.status, bound.objective, bound.bound, round(bound.gap, 6)) == ("bounded", 2, 3, 0.333333)
    assert bench.rounds.bounding.words == "2 of 3 placed, 1 more of priority 0 at most"


async def test_it_gives_way_and_rests(solving: type[Any]) -> None:
    run = solving()
    full(run)
    optimiser = Told(Answer(None, bound=Bound([2], "linear")))
    optimiser.may_answer.clear()
    bench = bench_of(run, optimiser)
    await once(bench)
    run.pod(pod("q0").requests(cpu=1000))
    await once(bench)
    assert [each.problem for each in told(bench)] == ["busy"]
    optimiser.may_answer.set()
    await once(bench)
    run.pod(pod("q1").requests(cpu=1000))
    await once(bench)
    assert [each.problem or each.status for each in told(bench)] == ["busy", "optimal", "resting"]
    bench.clock.time += REST_MIN_S
    optimiser.answer = Answer(None, bound=Bound([0], "linear"))
    run.pod(pod("q2").requests(cpu=1000))
    await once(bench)
    assert [each.problem or each.status for each in told(bench)][3:] == ["optimal"]
    assert len(optimiser.asked) == 2


async def test_without_an_optimiser_nothing_is_told(solving: type[Any]) -> None:
    run = solving()
    full(run)
    bench = bench_of(run, None)
    await once(bench)
    assert told(bench) == []
    assert bench.rounds.bounding.tally == "1 unknown"


async def test_a_plugin_that_raises_costs_the_bound_alone(solving: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run = solving()
    full(run)
    bench = bench_of(run, Told(None))

    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("berth.placement_solver.bounding.bound_problem", broken)
    await once(bench)
    assert [each.problem for each in told(bench)] == ["error"]
    assert len(bench.placed()) == 2
