"""The first plan: the best of the reference's, of that by gain and of that by nodes, without the victims that nobody
needs."""

from __future__ import annotations

from berth.rules.job_preemption.as_reference import by_reference
from berth.rules.job_preemption.by_gain import by_gain
from berth.rules.job_preemption.by_nodes import by_nodes
from berth.rules.job_preemption.problem import JobPlan, JobProblem, cheaper


def first_plan(problem: JobProblem) -> JobPlan | None:
    """A plan at once; None: the job has no place, whoever leaves."""
    return cheaper(by_gain(problem), by_reference(problem), by_nodes(problem))
