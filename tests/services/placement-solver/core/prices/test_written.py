"""Prices as PRICE has them: what was written is read again, and nothing that makes no sense."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.prices import PriceTable, ScarceModel, SharePrice
from berth.contracts.round import Arriving, Ground
from berth.placement_solver.core.cost import Basis
from berth.placement_solver.core.policy import Policy
from berth.placement_solver.core.prices.keeping import PriceKeeping
from berth.placement_solver.core.prices.stranding import TYPICAL, Typical
from berth.placement_solver.core.prices.table import Prices
from berth.placement_solver.core.prices.written import answer_of, kept_of, latest, left_out, table_of
from berth.placement_solver.origins import priced
from berth.placement_solver.origins.prices import prices_in
from berth.testing.builders import gpu_slots, pod

TABLE = PriceTable(
    solver="s1",
    version=5000,
    since=4.0,
    source="duals",
    shares=[SharePrice(percent=33, price=0.3), SharePrice(percent=80, price=1.0)],
    duals=[0.0] * 33 + [0.3] * 47 + [1.0] * 20,
    turning_over=0.75,
    whole_nodes=0.4,
    arriving=[
        Arriving(cpu=4000, percent=33, cards=1, part=1 / 3),
        Arriving(cpu=9000, percent=100, cards=2, part=2 / 3),
    ],
    scarce=[ScarceModel(model="T4", cards=4, pressure=0.5)],
    solved_at=3.0,
)
KINDS = (Typical(4000, 33, 1, 1 / 3), Typical(9000, 100, 2, 2 / 3))


@pytest.fixture
def run(solving: Any) -> Any:
    """Nodes of two models."""
    run = solving()
    for at, model in enumerate(("T4", "A100", "A100")):
        run.node(f"n{at}", cpu=64_000, labels={names.LABEL_GPU_MODEL: model})
        run.devices(f"n{at}", gpu_slots(4))
    return run


def keeping_of(run: Any) -> PriceKeeping:
    return PriceKeeping(run.cluster.nodes, run.cluster.solver.costs, run.cluster.quotas)


@pytest.mark.parametrize("me", ["s1", "s2"])
def test_a_solver_that_starts_goes_on_with_what_was_written(run: Any, me: str) -> None:
    keeping = keeping_of(run)
    kept = kept_of(TABLE, me)
    assert not isinstance(kept, Problem)
    keeping.take_up(kept)
    keeping.look(9000)
    prices, scarcity = keeping.basis
    assert prices == Prices(((33, 0.3), (80, 1.0)), 0.75, 0.4, KINDS)
    assert scarcity.tolist() == [0.5, 0.0, 0.0]
    # Under its own name a version means what it meant; what another solver wrote holds under one of its own.
    assert (keeping.version, keeping.since_ms) == ((5000, 4000) if me == "s1" else (9000, 9000))
    written = table_of(keeping, Policy(), me, 9500)
    assert replace(written, written_at=0.0, idle_gpu=0.0, step=0.0, kept_whole=0.0) == replace(
        TABLE, solver=me, version=keeping.version, since=keeping.since_ms / 1000
    )


def test_what_is_known_here_is_not_forgotten_for_what_was_written(run: Any) -> None:
    keeping = keeping_of(run)
    run.pod(pod("a").share(40))
    units, _ = run.cluster.batch(1)
    cls = units[0].candidates[0].cls
    run.cluster.solver.costs.of(cls)
    for _ in range(400):
        keeping.workload.came(cls)
    keeping.look(1000)
    before = keeping.basis
    kept = kept_of(TABLE, "s1")
    assert not isinstance(kept, Problem)
    keeping.take_up(kept)
    keeping.look(2000)
    assert keeping.basis == before
    assert keeping.version == 1000


def test_what_arrives_here_comes_in_the_place_of_what_was_written(run: Any) -> None:
    keeping = keeping_of(run)
    kept = kept_of(TABLE, "s1")
    assert not isinstance(kept, Problem)
    keeping.take_up(kept)
    keeping.look(9000)
    run.pod(pod("a").share(40))
    units, _ = run.cluster.batch(1)
    cls = units[0].candidates[0].cls
    run.cluster.solver.costs.of(cls)
    for _ in range(600):
        keeping.workload.came(cls)
    keeping.look(9001)
    prices, scarcity = keeping.basis
    assert prices == Prices(((40, 0.3),), 0.0), "by the duals that were written"
    assert scarcity.size == 0
    assert keeping.version == 9001


def test_ones_own_table_comes_first_then_the_newest() -> None:
    others = [replace(TABLE, solver="s2", version=7000), replace(TABLE, solver="s3", version=6000)]
    assert latest([*others, TABLE], "s1") is TABLE
    assert latest([*others, TABLE], "s9") is others[0]
    assert latest([replace(TABLE, version=0)], "s1") is None
    assert latest([], "s1") is None


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"source": "oracle"}, "source"),
        ({"shares": [SharePrice(percent=0, price=0.1)]}, "shares"),
        ({"shares": [SharePrice(percent=40, price=0.1), SharePrice(percent=30, price=0.1)]}, "shares"),
        ({"shares": [SharePrice(percent=40, price=-0.1)]}, "shares[0]"),
        ({"shares": [SharePrice(percent=40, price=2.0)]}, "shares[0]"),
        ({"duals": [0.1] * 99}, "duals"),
        ({"duals": []}, "duals"),
        ({"duals": [3.0] * 100}, "duals[0]"),
        ({"turning_over": 1.5}, "turning_over[0]"),
        ({"whole_nodes": 1.5}, "whole_nodes[0]"),
        ({"scarce": [ScarceModel(model="T4", cards=1, pressure=-1.0)]}, "scarce[0]"),
        ({"scarce": [ScarceModel(model="T4", cards=1, pressure=1e300)]}, "scarce[0]"),
    ],
)
def test_a_table_that_makes_no_sense_is_not_taken_up(changed: dict[str, Any], field: str) -> None:
    found = kept_of(replace(TABLE, **changed), "s1")
    assert isinstance(found, Problem)
    assert found.field == field


def kind(part: float, **fields: int) -> Arriving:
    return Arriving(**{"cpu": 4000, "percent": 33, "cards": 1, **fields}, part=part)


@pytest.mark.parametrize(
    ("arriving", "name", "field"),
    [
        ([kind(math.nan)], "nan", "arriving[0] "),
        ([kind(-1.0), kind(2.0, cpu=1)], "negative", "arriving[0] "),
        ([kind(0.0), kind(2.0, cpu=1)], "excessive", "arriving[1] "),
        ([kind(math.inf)], "excessive", "arriving[0] "),
        ([kind(0.25), kind(0.25, cpu=1)], "malformed", "arriving: "),
        ([kind(1.0, cpu=-1)], "negative", "arriving[0].cpu "),
        ([kind(1.0, percent=0)], "malformed", "arriving[0] "),
        ([kind(1.0, percent=101)], "malformed", "arriving[0] "),
        ([kind(1.0, cards=0)], "malformed", "arriving[0] "),
        ([kind(0.5), kind(0.5)], "malformed", "arriving: "),
        ([kind(1 / 16, cpu=at) for at in range(16)], "malformed", "arriving: 16 kinds"),
    ],
)
def test_kinds_that_make_no_sense_are_left_out_and_the_rest_holds(
    run: Any, arriving: list[Arriving], name: str, field: str
) -> None:
    table = replace(TABLE, arriving=arriving)
    found = left_out(table)
    assert found is not None
    assert (found.name, found.message[: len(field)]) == (name, field)
    kept = kept_of(table, "s1")
    assert not isinstance(kept, Problem)
    assert kept.prices == Prices(((33, 0.3), (80, 1.0)), 0.75, 0.4)
    assert (kept.duals, kept.scarce) == (tuple(TABLE.duals), {"T4": 0.5})
    keeping = keeping_of(run)
    keeping.take_up(kept)
    keeping.look(9000)
    assert keeping.version == 9000, "that of the table is the name of another one"


def test_as_many_kinds_are_read_as_are_written_and_a_table_without_any() -> None:
    arriving = [kind(1 / TYPICAL, cpu=at) for at in range(TYPICAL)]
    assert left_out(replace(TABLE, arriving=arriving)) is None
    before = kept_of(replace(TABLE, arriving=[]), "s1")
    assert not isinstance(before, Problem)
    assert (before.version, before.prices.typical) == (5000, ())


def test_what_is_taken_up_says_of_nodes_what_it_said_before_and_is_told_so(run: Any) -> None:
    def cost() -> list[float]:
        found: list[float] = run.cluster.solver.costs.of(cls)[:3].tolist()
        return found

    keeping = keeping_of(run)
    run.pod(pod("a").share(60).requests(cpu=1000))
    units, _ = run.cluster.batch(1)
    cls = units[0].candidates[0].cls
    scarcity = np.array([0.5, 0.0, 0.0])
    run.cluster.solver.costs.use(Prices(((33, 0.3), (80, 1.0)), 0.75, 0.4, KINDS), scarcity)
    before = cost()
    run.cluster.solver.costs.use(Prices(((33, 0.3), (80, 1.0)), 0.75, 0.4), scarcity)
    assert cost() != before, "the kinds of pods count"
    kept = kept_of(decode(encode(TABLE), PriceTable), "s1")
    assert not isinstance(kept, Problem)
    keeping.take_up(kept)
    keeping.look(9000)
    assert cost() == before
    prices, told = prices_in(priced(Ground(id=""), Basis(*keeping.basis)))
    assert (prices, told.tolist()) == (keeping.basis[0], scarcity.tolist())


def test_people_are_told_how_it_stands(run: Any) -> None:
    keeping = keeping_of(run)
    keeping.unanswered("late", "the price maker took too long", 7000)
    answer = answer_of(keeping, Policy(), "s1", 9000)
    assert (answer.last, answer.at, answer.counts) == ("late", 7.0, {"late": 1})
    assert answer.table is not None
    assert answer.table.version == 0
