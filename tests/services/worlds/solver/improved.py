"""One random batch, the plan at hand and what the optimiser makes of it, and what an exact program says is best."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from tests.services.worlds.solver.batches import Batch

from berth.placement_solver.core.joint import model
from berth.placement_solver.core.joint.contention import is_contended, worth
from berth.placement_solver.core.joint.expand import joint_solution, wanted_of
from berth.placement_solver.core.joint.problem import JointProblem, build_problem
from berth.placement_solver.core.trial import Trial

Worth = tuple[tuple[int, int], ...]


class Improved(NamedTuple):
    """What the plans are worth: `greedy` and `joint` (of the optimiser, None: it has none). `wrong` is what the
    verifier holds against the optimiser's plan."""

    greedy: Worth
    joint: Worth | None
    took_ms: float
    wrong: list[str]

    @property
    def is_better(self) -> bool:
        """It is taken."""
        return self.joint is not None and self.joint > self.greedy


def improved(batch: Batch, new_run: Callable[[], Any], time_limit_s: float = 2.0) -> Improved | None:
    """None: the optimiser is not asked about such a batch."""
    run = new_run()
    batch.build(run)
    cluster = run.cluster
    units, _ = cluster.batch(1000)
    trial = Trial(cluster.capacity)
    greedy = cluster.solver.solve(units, trial, "greedy")
    trial.undo()
    if not is_contended(units, greedy):
        return None
    at_hand = worth(greedy.placements)
    began = time.process_time()
    written = build_problem(
        units, greedy, cluster.nodes, cluster.solver.costs, cluster.solver.picker, cluster.quotas, time_limit_s
    )
    if written is None:
        return Improved(at_hand, None, 0.0, [])
    found = model.solve(msgspec.msgpack.decode(msgspec.msgpack.encode(written[0]), type=JointProblem))
    took_ms = 1e3 * (time.process_time() - began)
    if found is None:
        return Improved(at_hand, None, took_ms, [])
    joint = joint_solution(wanted_of(found.counts, written[1]), units, greedy, cluster.solver, trial, "joint")
    wrong = run.verifier.check([placement.claim for placement in joint.placements])
    return Improved(at_hand, worth(joint.placements), took_ms, wrong)


def best_of(batch: Batch) -> Worth:
    """The most that any plan is worth."""
    found: dict[int, int] = {}
    for priority in sorted({each.priority for each in batch.pods}, reverse=True):
        found[priority] = batch.most(priority, found)
    return tuple((priority, count) for priority, count in found.items() if count)
