"""Who leaves for a job, worked out beside the rounds: the integer program, and what becomes of its answer."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.libs.rules.test_job_preemption import optimum, problems
from tests.services.worlds.solver.bench import SolverBench

from berth.placement_solver.core.joint import leaving_model
from berth.placement_solver.core.joint.leaving import LeavingProblem, leaving_problem
from berth.placement_solver.optimiser import Answer, Problem
from berth.rules.job_preemption.first import first_plan
from berth.rules.job_preemption.problem import JobProblem, needed_plan
from berth.telemetry import Line, captured_logs
from berth.testing.builders import PodBuilder, pod


@settings(max_examples=40, deadline=None)
@given(problems())
def test_the_program_finds_the_cheapest_plan(problem: JobProblem) -> None:
    plan = first_plan(problem)
    if plan is None:
        return
    found = leaving_model.solve(leaving_problem(problem, plan, 5.0))
    assert found is not None
    again = needed_plan(problem, [np.array(each) for each in found.places], found.units)
    assert again is not None
    assert again.cost == optimum(problem)


class Scripted:
    """A `JointSolver` that answers a question about who leaves with what it is told."""

    def __init__(self) -> None:
        self.trouble = ""
        self.asked: list[LeavingProblem] = []
        self.answer: Answer | None = None
        self.open = asyncio.Event()
        self.open.set()

    def warm_up(self) -> None:
        pass

    async def solve(self, problem: Problem) -> Answer | None:
        if not isinstance(problem, LeavingProblem):
            return None
        self.asked.append(problem)
        await self.open.wait()
        return self.answer

    async def stop(self) -> None:
        pass


def sized(name: str, cpu: int, priority: int, **fields: Any) -> PodBuilder:
    return pod(name).requests(cpu=cpu * 1000).template(priority=priority).set(**fields)


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """Four nodes, each with a pod: two members of a gang, and two pods that together are cheaper to spare."""
    made = solving()
    for at in range(4):
        made.node(f"n{at}", cpu=4000)
        made.pod(sized(f"low-{at}", 4, 1 + at).on(f"n{at}"))
    for at in range(2):
        made.pod(sized(f"job-{at}", 4, 9).gang("job", 2))
    return made


def nodes(run: Any) -> dict[str, str]:
    return {name[1]: held.decision.node for name, held in run.cluster.book.ledger.decisions.items()}


def victims(run: Any) -> list[str]:
    decisions = [held.decision for held in run.cluster.book.ledger.decisions.values()]
    return sorted({victim.name for each in decisions for victim in each.victims})


async def test_the_plan_at_hand_waits_for_the_answer_and_others_go_on(run: Any) -> None:
    optimiser = Scripted()
    optimiser.open.clear()
    bench = SolverBench(run, preempts=True, optimiser=optimiser, optimiser_budget_s=1.0)
    await bench.until_idle()
    assert len(optimiser.asked) == 1
    assert nodes(run) == {}
    run.node("n9", cpu=1000)
    run.pod(sized("small", 1, 0))
    await bench.until_idle()
    assert nodes(run) == {"small": "n9"}
    optimiser.open.set()
    await bench.until_idle()
    assert victims(run) == ["low-0", "low-1"], "the first plan, as there is no answer"


async def test_a_dearer_answer_is_not_taken(run: Any) -> None:
    optimiser = Scripted()
    bench = SolverBench(run, preempts=True, optimiser=optimiser, optimiser_budget_s=1.0)
    optimiser.answer = Answer([[0, 0, 1, 1]], units=[2, 3])
    await bench.until_idle()
    assert victims(run) == ["low-0", "low-1"]


async def test_nonsense_is_not_taken(run: Any) -> None:
    optimiser = Scripted()
    bench = SolverBench(run, preempts=True, optimiser=optimiser, optimiser_budget_s=1.0)
    optimiser.answer = Answer([[9, 0, 0, -1]], units=[17])
    await bench.until_idle()
    assert victims(run) == ["low-0", "low-1"]


async def test_an_answer_is_taken_on_what_there_is_by_then(run: Any) -> None:
    """What is cheap by then was dear when it was asked about: the answer is the cheaper plan now."""
    optimiser = Scripted()
    optimiser.open.clear()
    bench = SolverBench(run, preempts=True, optimiser=optimiser, optimiser_budget_s=1.0)
    await bench.until_idle()
    run.delete_pod("low-2")
    run.pod(sized("low-2", 4, 0, uid="other").on("n2"))
    optimiser.answer = Answer([[1, 1, 0, 0]], units=[0, 1])
    optimiser.open.set()
    await bench.until_idle()
    assert victims(run) == ["low-0", "low-2"]


async def test_a_member_that_is_gone_ends_the_question(run: Any) -> None:
    optimiser = Scripted()
    optimiser.open.clear()
    bench = SolverBench(run, preempts=True, optimiser=optimiser, optimiser_budget_s=1.0)
    await bench.until_idle()
    run.delete_pod("job-1")
    optimiser.open.set()
    await bench.until_idle()
    assert nodes(run) == {}


async def test_who_was_nominated_meanwhile_needs_no_answer(solving: type[Any]) -> None:
    """While the optimiser is busy a pod is tried again, and takes the plan at hand."""
    run = solving()
    run.node("n0", cpu=4000)
    for at in range(2):
        run.pod(sized(f"low-{at}", 2, 1).gang(f"g{at}", 1).on("n0"))
    run.pod(sized("one", 4, 9))
    optimiser = Scripted()
    optimiser.open.clear()
    bench = SolverBench(run, preempts=True, optimiser=optimiser, optimiser_budget_s=1.0)
    await bench.until_idle()
    assert len(optimiser.asked) == 1
    for waiting in list(run.cluster.queue.waiting.values()):
        run.cluster.queue.make_ready(waiting)
    await bench.until_idle()
    assert victims(run) == ["low-0", "low-1"]
    for at in range(2):
        run.pod(sized(f"low-{at}", 2, 1, deleting=True, version=9).gang(f"g{at}", 1).on("n0"))
    lines: list[Line] = []
    with captured_logs(lines.append, "error"):
        optimiser.open.set()
        await bench.until_idle()
    assert victims(run) == ["low-0", "low-1"]
    assert lines == [], "nor is anything proposed that the verifier has to reject"
