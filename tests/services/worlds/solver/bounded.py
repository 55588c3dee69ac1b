"""One random batch, its plan, its bound, and what an exact program says of both."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from tests.services.worlds.solver.batches import Batch

from berth.contracts.event import BatchBound
from berth.placement_solver.core.bounds.problem import BoundProblem, bound_problem
from berth.placement_solver.core.bounds.program import solve
from berth.placement_solver.core.bounds.verdict import refusal_of, verdict
from berth.placement_solver.core.trial import Trial

TIME_LIMIT_S: Final = 60.0
"""What is judged here is the bound, on however busy a machine."""


class Judged(NamedTuple):
    """The bound of a plan, the most that any plan places of what it is a bound of, and what is wrong."""

    bound: BatchBound
    most: int
    wrong: list[str]

    @property
    def looseness(self) -> float:
        """By which part the bound is above what can be reached."""
        return (self.bound.bound - self.most) / self.bound.bound if self.bound.bound else 0.0


def judged(batch: Batch, new_run: Callable[[], Any]) -> Judged:
    """Place a batch as the solver does, bound it, and hold the bound against the exact optimum."""
    run = new_run()
    batch.build(run)
    units, _ = run.cluster.batch(1000)
    trial = Trial(run.cluster.capacity)
    solution = run.cluster.solver.solve(units, trial, "plan")
    draft = bound_problem(units, run.cluster.solver, trial.claims)
    assert draft is not None, "too large"
    began = time.process_time()
    patient = msgspec.structs.replace(draft.problem, time_limit_s=TIME_LIMIT_S)
    found = solve(msgspec.msgpack.decode(msgspec.msgpack.encode(patient), type=BoundProblem))
    assert found is not None, "not in time"
    took_ms = 1e3 * (time.process_time() - began)
    placed = [each.candidate.object.template.priority for each in solution.placements]
    wrong = [] if draft.problem.placed == [placed.count(each) for each in draft.priorities] else ["counted wrong"]
    if refused := refusal_of(found, draft):
        wrong.append(refused)
    bound = verdict(found, draft, took_ms)
    at_least: dict[int, int] = {}
    for priority, count in zip(draft.priorities, draft.problem.placed, strict=True):
        most = batch.most(priority, at_least) + sum(at_least.values())
        if bound.status == "bounded" and priority == bound.priority:
            wrong += [f"{most} can be placed, and the bound is {bound.bound}"] if most > bound.bound else []
            return Judged(bound, most, wrong)
        at_least[priority] = count
        if most > sum(at_least.values()):
            wrong.append(f"{most} of priority {priority} and above can be placed, and that is said to be impossible")
    return Judged(bound, sum(at_least.values()), wrong)
