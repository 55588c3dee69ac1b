"""What the solver tells of its gangs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.gang_question import GangQuestion, GangView
from berth.placement_solver.gang_picture import gangs_seen
from berth.testing.builders import pod


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    for at in range(2):
        made.node(f"n{at}", cpu=4000)
        made.pod(pod(f"low-{at}").requests(cpu=4000).on(f"n{at}"))
    return made


def seen(run: Any, name: str) -> GangView:
    (view,) = gangs_seen(run.cluster, GangQuestion(namespace="default", name=name)).gangs
    return view


async def test_a_gang_for_which_others_leave(run: Any) -> None:
    for at in range(2):
        run.pod(pod(f"job-{at}").requests(cpu=4000).template(priority=9).gang("job", 2))
    bench = SolverBench(run, preempts=True)
    await bench.until_idle()
    view = seen(run, "job")
    assert (view.outcome, view.minimum, view.children, view.source) == ("waiting", 2, 2, "pods")
    assert view.nominated == {"default/job-0": "n0", "default/job-1": "n1"}
    assert view.victims == ["default/low-0", "default/low-1"]
    assert not view.waiting


async def test_a_gang_that_was_tried_says_when_and_why_not(run: Any) -> None:
    for at in range(2):
        run.pod(pod(f"job-{at}").requests(cpu=4000).gang("job", 2))
    bench = SolverBench(run)
    await bench.until_idle()
    bench.clock.time += 5
    bench.rounds.tell_time()
    view = seen(run, "job")
    assert (view.outcome, view.rounds, view.last_round_s) == ("refused", 1, 5.0)
    assert view.waiting == ["default/job-0", "default/job-1"]
    assert view.reasons[0].code == "gang"
    assert run.cluster.queue.waiting_groups == 1


async def test_a_minimum_that_cannot_be_read_is_a_problem_and_none(run: Any) -> None:
    """cluster-watcher shows it as 0."""
    problem = Problem(field="spec.minMember", message="-2 is not between 0 and 2147483647")
    run.pod_group("job", 0, problems=[problem, Problem(field="status.running", message="-1")])
    run.pod(pod("job-0").requests(cpu=4000).label(names.LABEL_POD_GROUP, "job"))
    await SolverBench(run).until_idle()
    view = seen(run, "job")
    assert (view.outcome, view.minimum, view.problems) == ("waiting", -1, [problem])
    assert [each.message for each in view.reasons] == [f"gang default/job: spec.minMember: {problem.message}"]


async def test_all_gangs_are_listed_and_one_that_is_unknown_is_none(run: Any) -> None:
    run.pod_group("empty", 3)
    run.pod(pod("p").requests(cpu=1000).gang("other", 1).on("n0"))
    views = gangs_seen(run.cluster, GangQuestion()).gangs
    assert [(view.name, view.outcome, view.minimum) for view in views] == [
        ("empty", "waiting", 3),
        ("other", "bound", 1),
    ]
    # A line for each counts members, without their names: a thousand gangs fit into one answer.
    assert [(view.counts["bound"], view.bound) for view in views] == [(0, {}), (1, {})]
    assert seen(run, "other").bound == {"default/p": "n0"}
    assert gangs_seen(run.cluster, GangQuestion(namespace="x")).gangs == []
    assert gangs_seen(run.cluster, GangQuestion(namespace="default", name="nobody")).gangs == []
