"""Who leaves for a whole job, as the child process is asked: a plan is at hand, is there a cheaper one?"""

from __future__ import annotations

import msgspec

from berth.rules.job_preemption.problem import JobPlan, JobProblem


class LeavingProblem(msgspec.Struct, frozen=True, kw_only=True, tag="leaving"):
    """`berth.rules.job_preemption.problem.JobProblem` in plain lists, with the plan at hand.

    Of class k, `requests[k]` is what a member takes, `members[k]` how many there are, `rows[k]` the nodes that may take
    one. `places[k]` and `units` are the plan at hand.
    """

    free: list[list[int]]
    pod_node: list[int]
    pod_unit: list[int]
    pod_amounts: list[list[int]]
    price: list[int]
    requests: list[list[int]]
    members: list[int]
    rows: list[list[int]]
    places: list[list[int]]
    units: list[int]
    time_limit_s: float


def leaving_problem(problem: JobProblem, plan: JobPlan, time_limit_s: float) -> LeavingProblem:
    """What the child is told."""
    return LeavingProblem(
        free=problem.free.tolist(),
        pod_node=problem.pod_node.tolist(),
        pod_unit=problem.pod_unit.tolist(),
        pod_amounts=problem.pod_amounts.tolist(),
        price=problem.price.tolist(),
        requests=[each.request.tolist() for each in problem.classes],
        members=[each.members for each in problem.classes],
        rows=[each.nodes.nonzero()[0].tolist() for each in problem.classes],
        places=[each.tolist() for each in plan.places],
        units=list(plan.units),
        time_limit_s=time_limit_s,
    )
