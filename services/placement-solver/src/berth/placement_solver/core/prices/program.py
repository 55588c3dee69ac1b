"""The linear program whose duals are the prices. It runs in a child process: cvxpy and HiGHS live there alone.

How much of the workload, in the proportions in which it arrives, can all nodes take? Cards are cut by flows through
the percents that are free (an arc from g to g - s is a share of s percent), so that every way to cut a card is there
without a list of them. What is placed is `part` of all that comes, less what some classes fall short of, which costs
`SHORT` times as much: pods that a few nodes alone take must not stop the others. The dual of a size says how much of
the workload one such share denies; that of a kind of nodes, what one card more would let in.

The problem is written once, with parameters (DPP): asking again costs a few milliseconds besides the solve.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple, TypeAlias

import cvxpy as cp
import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.prices.problem import CLASSES, KINDS, QUOTAS, SHORT, Duals, PriceProblem
from berth.placement_solver.core.prices.table import WHOLE

Floats: TypeAlias = npt.NDArray[np.float64]

TINY: Final = 1e-6


class Program(NamedTuple):
    """The problem, its parameters, and what is read of its answer."""

    problem: cp.Problem
    pods: cp.Parameter
    gpus: cp.Parameter
    all_gpus: cp.Parameter
    cores: cp.Parameter
    share: cp.Parameter
    whole: cp.Parameter
    sizes: cp.Parameter
    most: cp.Parameter
    cards: cp.Parameter
    cores_of_nodes: cp.Parameter
    quotas: cp.Parameter
    charges: cp.Parameter
    missing: cp.Variable
    by_size: cp.Constraint
    by_kind: cp.Constraint
    by_core: cp.Constraint
    by_quota: cp.Constraint


def solve(asked: PriceProblem) -> Duals | None:
    """The duals; None where HiGHS has no optimum in time."""
    program = the_program()
    _fill(program, asked)
    try:
        program.problem.solve(solver=cp.HIGHS, threads=1, time_limit=asked.time_limit_s, warm_start=False)
    except (cp.error.SolverError, ValueError):
        return None
    if program.problem.status != cp.OPTIMAL:
        return None
    classes, kinds = len(asked.pods), len(asked.cards)
    shares = np.abs(program.by_size.dual_value)
    # Not by the price of some kind of cards: those that are scarce are dear for other reasons than their shares.
    shares = (shares / max(_best_cut(shares), TINY)).clip(0.0, 1.0)
    return Duals(
        shares=shares.round(6).tolist(),
        cards=_told(program.by_kind, kinds),
        cores=_told(program.by_core, kinds),
        quotas=_told(program.by_quota, len(asked.quotas)),
        short=_listed(program.missing.value, classes),
    )


def _fill(program: Program, asked: PriceProblem) -> None:
    """Give the parameters their values."""
    classes, kinds = len(asked.pods), len(asked.cards)
    gpus = np.array(asked.whole) + np.array(asked.share) / WHOLE
    sizes = np.zeros((WHOLE, CLASSES))
    sizes[np.array(asked.share, int), np.arange(classes)] = np.array(asked.share, int) > 0
    most = np.zeros((CLASSES, KINDS))
    most[:classes, :kinds] = 2.0 * np.array(asked.pods)[:, None] * np.array(asked.suits, float).reshape(classes, kinds)
    program.pods.value = _padded(asked.pods, CLASSES)
    program.gpus.value = _padded(gpus, CLASSES)
    program.all_gpus.value = float(gpus @ np.array(asked.pods))
    program.cores.value = _padded(asked.cores, CLASSES)
    program.share.value = _padded(asked.share, CLASSES) / WHOLE
    program.whole.value = _padded(asked.whole, CLASSES)
    program.sizes.value = sizes
    program.most.value = most
    program.cards.value = _padded(asked.cards, KINDS)
    program.cores_of_nodes.value = _padded(asked.cores_of_nodes, KINDS)
    charges = np.zeros((QUOTAS, CLASSES))
    charges[: len(asked.quotas), :classes] = np.array(asked.charges).reshape(-1, classes)
    program.charges.value = charges
    program.quotas.value = _padded(asked.quotas, QUOTAS)


def _told(constraint: cp.Constraint, number: int) -> list[float]:
    """What one more of each would let in."""
    return _listed(constraint.dual_value, number)


def _listed(values: npt.ArrayLike, number: int) -> list[float]:
    found: list[float] = np.abs(np.atleast_1d(np.array(values, float)))[:number].round(6).tolist()
    return found


def _best_cut(shares: Floats) -> float:
    """The most that shares of one card are worth together."""
    best = np.zeros(WHOLE + 1)
    for free in range(1, WHOLE + 1):
        sizes = np.arange(1, min(free, WHOLE - 1) + 1)
        best[free] = max(best[free - 1], (shares[sizes] + best[free - sizes]).max())
    return float(best[WHOLE])


def _padded(values: npt.ArrayLike, size: int) -> Floats:
    found = np.zeros(size)
    given = np.array(values, float)
    found[: given.size] = given
    return found


@cache
def the_program() -> Program:
    """Written when it is asked for first."""
    pods, gpus, cores, share, whole = (cp.Parameter(CLASSES, nonneg=True) for _ in range(5))
    cards, cores_of_nodes = (cp.Parameter(KINDS, nonneg=True) for _ in range(2))
    all_gpus = cp.Parameter(nonneg=True)
    quotas, charges = cp.Parameter(QUOTAS, nonneg=True), cp.Parameter((QUOTAS, CLASSES), nonneg=True)
    sizes, most = cp.Parameter((WHOLE, CLASSES), nonneg=True), cp.Parameter((CLASSES, KINDS), nonneg=True)
    placed = cp.Variable((CLASSES, KINDS), nonneg=True)
    # By itself, or each parameter that it meets would be written once for each kind of nodes.
    of_class = cp.Variable(CLASSES, nonneg=True)
    part, missing = cp.Variable(nonneg=True), cp.Variable(CLASSES, nonneg=True)
    arcs = [(free, size) for free in range(1, WHOLE + 1) for size in range(1, min(free, WHOLE - 1) + 1)]
    flow, cut = cp.Variable(len(arcs), nonneg=True), cp.Variable(KINDS, nonneg=True)
    out = _incidence([free - 1 for free, _ in arcs])
    into = _incidence([free - size - 1 for free, size in arcs])
    of_size = _incidence([size for _, size in arcs])
    whole_card = np.zeros(WHOLE)
    whole_card[-1] = 1.0
    by_size = sizes @ of_class <= of_size @ flow
    by_kind = cut + whole @ placed <= cards
    by_core = cores @ placed <= cores_of_nodes
    by_quota = charges @ of_class <= quotas
    problem = cp.Problem(
        cp.Maximize(all_gpus * part - SHORT * (gpus @ missing)),
        [
            cp.sum(placed, axis=1) == of_class,
            of_class == part * pods - missing,
            by_size,
            out @ flow <= into @ flow + whole_card * cp.sum(cut),
            by_kind,
            share @ placed <= cut,
            by_core,
            placed <= most,
            by_quota,
        ],
    )
    return Program(
        problem,
        pods,
        gpus,
        all_gpus,
        cores,
        share,
        whole,
        sizes,
        most,
        cards,
        cores_of_nodes,
        quotas,
        charges,
        missing,
        by_size,
        by_kind,
        by_core,
        by_quota,
    )


def _incidence(rows: list[int]) -> Floats:
    """One column an arc, with a one in its row; none where the row is negative."""
    found = np.zeros((WHOLE, len(rows)))
    there = [(row, column) for column, row in enumerate(rows) if row >= 0]
    found[[row for row, _ in there], [column for _, column in there]] = 1.0
    return found
