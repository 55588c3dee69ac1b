"""Prices as PRICE has them, written by the solver that decides by them and read again when it starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.prices import PricesAnswer, PriceTable, ScarceModel, SharePrice
from berth.contracts.round import Arriving
from berth.placement_solver.core.policy import Policy
from berth.placement_solver.core.prices.answers import WORTH_MAX, Refusal, column_refusal
from berth.placement_solver.core.prices.keeping import CONSTANTS, DUALS, Kept, PriceKeeping
from berth.placement_solver.core.prices.models import Models
from berth.placement_solver.core.prices.stranding import TYPICAL, Typical
from berth.placement_solver.core.prices.table import WHOLE, Prices
from berth.placement_solver.core.seams import Floats

MODELS_MAX: Final = 64
SLACK: Final = 1e-6
"""By so much the parts of all kinds of pods may miss one."""


def table_of(keeping: PriceKeeping, policy: Policy, solver: str, now_ms: int) -> PriceTable:
    """What holds now."""
    prices, scarcity = keeping.basis
    weights = policy.weights(prices.turning_over)
    return PriceTable(
        solver=solver,
        version=keeping.version,
        since=keeping.since_ms / 1000.0,
        source=keeping.source,
        shares=[SharePrice(percent=size, price=round(price, 6)) for size, price in prices.shares],
        duals=list(keeping.duals),
        turning_over=prices.turning_over,
        idle_gpu=weights.gpus_left,
        step=weights.step,
        whole_nodes=prices.whole,
        kept_whole=policy.reserve(prices.whole),
        arriving=[Arriving(**each._asdict()) for each in prices.typical],
        scarce=_scarce(keeping.models, scarcity) if scarcity.size else [],
        admissions=list(keeping.admissions),
        arrivals=keeping.workload.arrivals,
        solved_at=keeping.solved_ms / 1000.0,
        written_at=now_ms / 1000.0,
    )


def answer_of(keeping: PriceKeeping, policy: Policy, solver: str, now_ms: int) -> PricesAnswer:
    """The same, and what became of the last question, for people."""
    last = keeping.last
    return PricesAnswer(
        solver=solver,
        table=table_of(keeping, policy, solver, now_ms),
        last=last.name,
        message=last.message,
        at=last.at_ms / 1000.0,
        took_s=last.took_ms / 1000.0,
        counts=dict(sorted(keeping.counts.items())),
        asked_from=keeping.asked_from,
    )


def _scarce(models: Models, scarcity: Floats) -> list[ScarceModel]:
    """By model, the mean over its cards; those asked for most first."""
    found = []
    nodes = models.nodes
    for model, rows in models.rows().items():
        known = rows[rows < scarcity.size]
        cards = nodes.gpu_count[rows].sum()
        pressure = float((scarcity[known] * nodes.gpu_count[known]).sum() / max(cards, 1))
        if pressure > 0.0:
            found.append(ScarceModel(model=model, cards=int(cards), pressure=round(pressure, 6)))
    return sorted(found, key=lambda each: (-each.pressure, each.model))[:MODELS_MAX]


def latest(tables: Iterable[PriceTable], solver: str) -> PriceTable | None:
    """The table to begin with: one's own, else the newest of any solver, for they see parts of the same."""
    listed = [table for table in tables if table.version > 0]
    return max(listed, key=lambda table: (table.solver == solver, table.version, table.solver), default=None)


def kept_of(table: PriceTable, solver: str) -> Kept | Problem:
    """What of a table can hold again; or what is wrong with it: somebody else may have written there. Where only the
    kinds of pods are of no use (`left_out`), the rest holds."""
    if (refusal := _refusal_of(table)) is not None:
        return Problem(field=refusal.message.partition(":")[0].partition(" ")[0], message=refusal.message)
    takes_kinds = left_out(table) is None
    is_own = table.solver == solver and takes_kinds  # a version names one table, whole
    return Kept(
        version=table.version if is_own else 0,
        since_ms=round(table.since * 1000.0) if is_own else 0,
        prices=Prices(
            tuple((each.percent, each.price) for each in table.shares),
            table.turning_over,
            table.whole_nodes,
            tuple(Typical(each.cpu, each.percent, each.cards, each.part) for each in table.arriving if takes_kinds),
        ),
        scarce={each.model: each.pressure for each in table.scarce if each.pressure > 0.0},
        duals=tuple(table.duals) if table.source == DUALS else (),
        solved_ms=round(table.solved_at * 1000.0),
        admissions=tuple(table.admissions),
    )


def left_out(table: PriceTable) -> Refusal | None:
    """Why the kinds of pods of a table do not hold again, though the rest of it may; None: they do, or it has none."""
    listed = table.arriving
    if len(listed) > TYPICAL:
        return Refusal("malformed", f"arriving: {len(listed)} kinds instead of {TYPICAL} at most")
    if len({(each.cpu, each.percent, each.cards) for each in listed}) < len(listed):
        return Refusal("malformed", "arriving: a kind comes twice")
    for at, each in enumerate(listed):
        if each.cpu < 0:
            return Refusal("negative", f"arriving[{at}].cpu is {each.cpu}")
        if not (0 < each.percent <= WHOLE and each.cards > 0):
            return Refusal("malformed", f"arriving[{at}] asks for {each.percent} percent of {each.cards} cards")
    parts = [each.part for each in listed]
    refusal = column_refusal("arriving", parts, len(listed))
    if refusal is None and listed and abs(sum(parts) - 1.0) > SLACK:
        return Refusal("malformed", f"arriving: all parts make {sum(parts):g} instead of 1")
    return refusal


def _refusal_of(table: PriceTable) -> Refusal | None:
    sizes = [each.percent for each in table.shares]
    if sizes != sorted(set(sizes)) or any(not 0 < size <= WHOLE for size in sizes):
        return Refusal("malformed", f"shares: sizes are {sizes[:8]}")
    if table.source not in (CONSTANTS, DUALS):
        return Refusal("malformed", f"source: {table.source!r} is not known here")
    columns = [
        ("shares", [each.price for each in table.shares], len(sizes), 1.0),
        ("turning_over", [table.turning_over], 1, 1.0),
        ("whole_nodes", [table.whole_nodes], 1, 1.0),
        ("scarce", [each.pressure for each in table.scarce], len(table.scarce), WORTH_MAX),
    ]
    if table.source == DUALS:
        columns.append(("duals", table.duals, WHOLE, 1.0))
    found = (column_refusal(name, values, number, most) for name, values, number, most in columns)
    return next(filter(None, found), None)
