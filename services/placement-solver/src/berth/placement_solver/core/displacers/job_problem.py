"""A gang, the nodes and who might leave them as the arrays that `berth.rules.job_preemption` plans with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth.contracts.names import GPU_CORE, LABEL_QUESTIONED_OBJECT
from berth.placement_solver.core.devices import GPU
from berth.placement_solver.core.displacers.advice import Advice, JobQuestion
from berth.placement_solver.core.displacers.removable import Leaver, LeavingUnit
from berth.placement_solver.core.nodes import PODS, Nodes
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.seams import Mask, RowArray
from berth.rules.devices.columns import CORE
from berth.rules.job_preemption.as_reference import Removable as OnNode
from berth.rules.job_preemption.as_reference import node_costs, ranks
from berth.rules.job_preemption.first import first_plan
from berth.rules.job_preemption.problem import Ints, JobPlan, JobProblem, MemberClass, cheaper, needed_plan
from berth.rules.network_topology.capacity import slots_in_order
from berth.transaction.claims import Claim

PERCENT: Final = -1
"""In the place of a column: GPU compute in percent of a card, summed over the cards of a node."""


class Written(NamedTuple):
    """A problem, and what its indices stand for: rows of the nodes, candidates of each class in order, and units."""

    problem: JobProblem
    rows: RowArray
    members: tuple[tuple[Candidate, ...], ...]
    units: tuple[LeavingUnit, ...]


class Draft(NamedTuple):
    """A plan, and the problem that it is one of. `is_open`: there may be a cheaper one."""

    written: Written
    plan: JobPlan
    is_open: bool = False


class Writer(NamedTuple):
    """All that a problem is written from but the nodes that are asked about; see `write_problem`."""

    members: tuple[tuple[Candidate, ...], ...]
    nodes: Nodes
    units: tuple[LeavingUnit, ...]
    dear: frozenset[str]

    def write(self, able: Sequence[Mask]) -> Written:
        """The problem on these nodes, without the units that have nobody there."""
        names = {self.nodes.names[row] for row in np.flatnonzero(np.logical_or.reduce(list(able))).tolist()}
        units = [unit for unit in self.units if any(each.pod.node in names for each in unit.leavers)]
        return write_problem(self.members, able, self.nodes, units, self.dear)


def drafted(written: Written, nodes: Nodes, advice: Advice | None) -> Draft | None:
    """The cheapest plan at hand, be it advised; None: there is none."""
    plans = [first_plan(written.problem), advised(advice, written, nodes.names) if advice is not None else None]
    plan = cheaper(*plans)
    return Draft(written, plan, is_open=len(plan.units) > 1) if plan is not None else None


def emptied_slots(written: Written, kinds: Sequence[int]) -> Ints:
    """How many members each node takes once everybody who might leave has left it; `kinds` is the class of each, in
    the order in which they come."""
    problem = written.problem
    emptied = problem.free.copy()
    np.add.at(emptied, problem.pod_node, problem.pod_amounts)
    of_class = {some[0].cls.index: cls for some, cls in zip(written.members, problem.classes, strict=True)}
    asked = np.stack([of_class[kind].request for kind in kinds])
    able = np.logical_or.reduce([cls.nodes for cls in problem.classes])
    columns = [column for column in range(emptied.shape[1]) if asked[:, column].any()]
    slots = slots_in_order(
        [asked[:, column] for column in columns], [np.clip(emptied[:, column], 0, None) for column in columns]
    )
    return np.where(able, slots if columns else len(kinds), 0)


def classes_of(candidates: Iterable[Candidate]) -> list[tuple[Candidate, ...]]:
    """The candidates that ask for the same, in the order of the first of each."""
    found: dict[int, list[Candidate]] = {}
    for each in candidates:
        found.setdefault(each.cls.index, []).append(each)
    return [tuple(each) for each in found.values()]


def write_problem(
    members: Sequence[tuple[Candidate, ...]],
    able: Sequence[Mask],
    nodes: Nodes,
    units: Sequence[LeavingUnit],
    dear: frozenset[str],
) -> Written:
    """`able[class]` says which nodes may take such a member once all have left; `dear` are the uids of those who leave
    only if nobody else does."""
    some = np.flatnonzero(np.logical_or.reduce(list(able)))
    rows = np.array(sorted(some.tolist(), key=lambda row: nodes.names[row]), np.intp)
    at = {nodes.names[row]: index for index, row in enumerate(rows.tolist())}
    columns = sorted({PODS, *(column for each in members for column, _ in each[0].cls.demand.wants)})
    if any(each[0].cls.want is not None for each in members):
        columns.append(PERCENT)
    leavers = [(index, each) for index, unit in enumerate(units) for each in unit.leavers if each.pod.node in at]
    leavers.sort(
        key=lambda pair: (-pair[1].pod.template.priority, _job(pair[1]), pair[1].pod.namespace, pair[1].pod.name)
    )
    amounts = np.array([_amounts(each.claim, columns, nodes) for _, each in leavers], np.int64)
    rank = ranks([each.pod.template.priority for unit in units for each in unit.everybody])
    price = np.array([_price(unit, rank) for unit in units], np.int64)
    surcharge = int(price.sum()) + 1
    price += np.array([surcharge * sum(each.pod.uid in dear for each in unit.everybody) for unit in units], np.int64)
    problem = JobProblem(
        free=np.stack([_free(column, nodes, rows) for column in columns], axis=1),
        pod_node=np.array([at[each.pod.node] for _, each in leavers], np.int64),
        pod_unit=np.array([index for index, _ in leavers], np.int64),
        pod_amounts=amounts.reshape(-1, len(columns)),
        price=price,
        node_cost=_node_cost([each for _, each in leavers], at),
        classes=tuple(
            MemberClass(_request(each[0], columns), len(each), mask[rows])
            for each, mask in zip(members, able, strict=True)
        ),
        order=_order(members),
    )
    return Written(problem, rows, tuple(members), tuple(units))


def question_of(written: Written, plan: JobPlan, names: Sequence[str]) -> JobQuestion:
    """What may be asked about a plan; `names` are those of all rows of nodes."""
    return JobQuestion(
        written.problem,
        plan,
        tuple(names[row] for row in written.rows.tolist()),
        tuple(tuple(each.name for each in some) for some in written.members),
        tuple(frozenset(each.pod.uid for each in unit.everybody) for unit in written.units),
    )


def advised(advice: Advice, written: Written, names: Sequence[str]) -> JobPlan | None:
    """The plan that an advice means by now; None: it is none any more."""
    at = {names[row]: index for index, row in enumerate(written.rows.tolist())}
    places = []
    for cls, some in zip(written.problem.classes, written.members, strict=True):
        counts = np.zeros(len(at), np.int64)
        for each in some:
            index = at.get(advice.nodes.get(each.name, ""))
            if index is None or not cls.nodes[index]:
                return None
            counts[index] += 1
        places.append(counts)
    units = [
        index
        for index, unit in enumerate(written.units)
        if any(each.pod.uid in advice.victims for each in unit.everybody)
    ]
    return needed_plan(written.problem, places, units)


def _order(members: Sequence[Sequence[Candidate]]) -> tuple[int, ...]:
    named = sorted((each.name, kind) for kind, some in enumerate(members) for each in some)
    return tuple(kind for _, kind in named)


def _price(unit: LeavingUnit, rank: Mapping[int, int]) -> int:
    """Who is leaving already costs nothing more."""
    return sum(1 + rank[each.pod.template.priority] for each in unit.everybody if not each.pod.deleting)


def _job(leaver: Leaver) -> str:
    return leaver.pod.template.labels.get(LABEL_QUESTIONED_OBJECT, "")


def _node_cost(leavers: Iterable[Leaver], at: Mapping[str, int]) -> Ints:
    there: dict[str, list[OnNode]] = {node: [] for node in at}
    for each in leavers:
        there[each.pod.node].append(OnNode(each.pod.template.priority, _job(each)))
    costs = node_costs(there)
    return np.array([costs[node] for node in at], np.int64)


def _free(column: int, nodes: Nodes, rows: RowArray) -> Ints:
    if column != PERCENT:
        amounts: Ints = nodes.free[column, rows]
        return amounts
    free: Ints = nodes.fleet.free[CORE][:, rows].sum(axis=0)
    return free


def _request(candidate: Candidate, columns: Sequence[int]) -> Ints:
    cls = candidate.cls
    wanted = dict(cls.demand.wants) | {PODS: 1}
    if cls.want is not None:
        wanted[PERCENT] = cls.want.instances * cls.want.amounts[CORE]
    return np.array([wanted.get(column, 0) for column in columns], np.int64)


def _amounts(claim: Claim, columns: Sequence[int], nodes: Nodes) -> list[int]:
    taken = {nodes.column(name): amount for name, amount in claim.amounts.items() if name in nodes.columns}
    taken[PODS] = 1
    taken[PERCENT] = sum(grant.amounts.get(GPU_CORE, 0) for grant in claim.grants if grant.kind == GPU.name)
    return [taken.get(column, 0) for column in columns]
