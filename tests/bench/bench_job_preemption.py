"""Who leaves for a whole job: how long a first plan and a better one take, and how far from the optimum they are.

Nodes are full of pods of several priorities, of which a part are gangs over several nodes. The optimum is that of an
integer program. Prints one line an instance: the first plan with its CPU time, the better one with the time by the
clock; asserts nothing.

    python tests/bench/bench_job_preemption.py [--nodes 1000] [--instances 10] [--limit-s 120]
"""

from __future__ import annotations

import argparse
import random
import time

import highspy
import numpy as np
from told import tell

from berth.placement_solver.core.joint import leaving_model
from berth.placement_solver.core.joint.leaving import leaving_problem
from berth.rules.job_preemption.first import first_plan
from berth.rules.job_preemption.problem import JobProblem, MemberClass

IMPROVE_S = 2.0
"""As placement-solver allows by default."""
CARDS, CORES, GIB = 8, 96, 768
SIZES = ((1, 8, 64), (2, 16, 128), (4, 40, 256), (8, 90, 700), (0, 8, 32), (0, 24, 128), (3, 30, 200), (0, 50, 300))
"""Cards, cores and memory of the pods that are there."""
JOBS = ((8, 8, 64), (16, 8, 64), (32, 8, 90), (64, 8, 64), (64, 4, 32), (128, 2, 16), (48, 5, 50), (96, 8, 88))
"""Members, and cards and cores of each."""


def instance(nodes: int, rng: random.Random) -> JobProblem:
    """A cluster that is nearly full, and a job."""
    free = np.tile(np.array([CARDS, CORES, GIB], np.int64), (nodes, 1))
    pods: list[tuple[int, int, tuple[int, int, int]]] = []
    priority: list[int] = []
    unit = 0
    gang_share = rng.choice((0.3, 0.6, 0.9))
    levels = rng.choice((2, 4, 8))
    while unit < nodes * 8:
        size = rng.choice(SIZES)
        width = rng.choice((2, 4, 8, 16)) if rng.random() < gang_share / 3 else 1
        places = [at for at in rng.sample(range(nodes), min(nodes, 4 * width)) if np.all(free[at] >= size)][:width]
        unit += 1
        if len(places) < width:
            continue
        index = len(priority)
        priority.append(rng.randrange(levels))
        for at in places:
            free[at] -= size
            pods.append((at, index, size))
    members, cards, cores = rng.choice(JOBS)
    request = np.array([cards, cores, cores * 4], np.int64)
    # Some pods are as important as the job: they stay.
    stay_share = rng.choice((0.1, 0.3, 0.5))
    stays = {index for index in range(len(priority)) if rng.random() < stay_share}
    kept = [pod for pod in pods if pod[1] not in stays]
    found = sorted({pod[1] for pod in kept}, key=lambda each: each)
    number = {index: at for at, index in enumerate(found)}
    rank = {level: at for at, level in enumerate(sorted({priority[index] for index in found}))}
    sizes = np.bincount([number[pod[1]] for pod in kept], minlength=len(found))
    price = np.array([int(sizes[at]) * (1 + rank[priority[index]]) for at, index in enumerate(found)], np.int64)
    kept.sort(key=lambda pod: (-priority[pod[1]], pod[1], pod[0]))
    node_cost = np.zeros(nodes, np.int64)
    for at, index, _ in kept:
        node_cost[at] += rank[priority[index]]
    return JobProblem(
        free=free,
        pod_node=np.array([pod[0] for pod in kept], np.int64),
        pod_unit=np.array([number[pod[1]] for pod in kept], np.int64),
        pod_amounts=np.array([pod[2] for pod in kept], np.int64).reshape(-1, 3),
        price=price,
        node_cost=node_cost,
        classes=(MemberClass(request, members, np.ones(nodes, np.bool_)),),
        order=(0,) * members,
    )


def optimum(problem: JobProblem, limit_s: float) -> tuple[float, float]:
    """The least cost, and a bound below which nothing is."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", limit_s)
    solver.setOptionValue("mip_rel_gap", 1e-4)
    (cls,) = problem.classes
    nodes, units = len(problem.free), problem.price.size
    leaves = [
        solver.addVariable(0, 1, float(problem.price[unit]), highspy.HighsVarType.kInteger) for unit in range(units)
    ]
    emptied = problem.free.copy()
    np.add.at(emptied, problem.pod_node, problem.pod_amounts)
    most = (emptied // np.maximum(cls.request, 1)).min(axis=1).clip(0, cls.members)
    goes = [solver.addVariable(0, float(each), 0.0, highspy.HighsVarType.kInteger) for each in most.tolist()]
    freed: dict[int, list[int]] = {}
    for pod, node in enumerate(problem.pod_node.tolist()):
        freed.setdefault(node, []).append(pod)
    for node in range(nodes):
        for resource, asked in enumerate(cls.request.tolist()):
            if not asked or not most[node]:
                continue
            amounts: dict[int, int] = {}
            for pod in freed.get(node, ()):
                unit = int(problem.pod_unit[pod])
                amounts[unit] = amounts.get(unit, 0) + int(problem.pod_amounts[pod, resource])
            left = sum(float(amount) * leaves[unit] for unit, amount in amounts.items() if amount)
            solver.addConstr(float(asked) * goes[node] - left <= float(problem.free[node, resource]))
    solver.addConstr(sum(goes) >= float(cls.members))
    solver.minimize()
    info = solver.getInfo()
    return float(info.objective_function_value), float(info.mip_dual_bound)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--limit-s", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    near = 0
    for number in range(args.instances):
        problem = instance(args.nodes, random.Random(args.seed * 1000 + number))
        started = time.process_time()
        plan = first_plan(problem)
        first_ms = (time.process_time() - started) * 1000
        if plan is None:
            print(f"{number}: no place, {first_ms:.0f} ms")
            continue
        started = time.perf_counter()
        answer = leaving_model.solve(leaving_problem(problem, plan, IMPROVE_S))
        improve_s = time.perf_counter() - started
        better = min(plan.cost, int(problem.price[answer.units].sum())) if answer is not None else plan.cost
        best, bound = optimum(problem, args.limit_s) if args.limit_s else (0.0, 0.0)
        is_near = better <= 1.01 * max(best, bound) + 1e-6
        near += is_near
        print(
            f"{number}: {problem.classes[0].members} members, {problem.price.size} units: first {plan.cost} in"
            f" {first_ms:.0f} ms, then {better} in {improve_s:.1f} s, optimum {best:.0f} (bound {bound:.0f}):"
            f" {100 * (plan.cost / max(best, 1e-9) - 1):.1f} % and {100 * (better / max(best, 1e-9) - 1):.1f} %"
        )
        costs = {"first": plan.cost, "better": better, "optimum": best, "bound": bound}
        tell("instances", number=number, first_ms=first_ms, improve_s=improve_s, **costs)
    print(f"{near} of {args.instances} within 1 %")
    tell("within 1 %", nodes=args.nodes, instances=args.instances, near=near)


if __name__ == "__main__":
    main()
