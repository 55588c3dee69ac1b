"""Everything that a constraint says of a node agrees: mask, one row, exact check, reasons, and the verifier's own law.

The tests go through the registry. What a new constraint needs in `worlds/solver/conformance` is a row of `WAITING`
(`asked.py`) that makes pods which it concerns, and, where it reads something new of nodes, a row of `NODES`
(`nodes.py`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from tests.services.worlds.solver.conformance.asked import WAITING
from tests.services.worlds.solver.conformance.world import OPTIONAL, World, worlds, worlds_about

from berth.contracts import names
from berth.contracts.ledger import Grant
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.constraints.device_share import UNCOUNTED
from berth.placement_solver.core.seams import (
    Allocator,
    Choice,
    Constraint,
    Depends,
    Freeable,
    Hypothesis,
    Rejection,
    Target,
)
from berth.placement_solver.core.tallies.granted import grant_tallies
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify.grants import LAWS as GRANT_LAWS
from berth.placement_solver.core.verify.grants import Place, capacity
from berth.rules.gpu_request import WHOLE_CARDS
from berth.rules.records import registry
from berth.transaction.claims import Claim

DOCS: Final = Path(__file__).parents[4] / "docs/placement-rules.md"
VIEW = ClusterView([names.SCHEDULER_NAME], "s")
VIEW.configuration.on_use(OPTIONAL)
REGISTRY = VIEW.profiles.of(names.SCHEDULER_NAME)
CONSTRAINTS: Final = [constraint.name for constraint in (*REGISTRY.of_class, *REGISTRY.of_pod)]

MAY_GRANT_NOTHING: Final = {"NodeNUMAResource"}
"""Their query says what a node may give to a pod, and not every node does."""
SEARCH: Final = settings(
    max_examples=6000, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
LAWS: Final = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@LAWS
@given(data=st.data())
def test_what_is_said_of_a_node_agrees(solving: type[Any], data: st.DataObject) -> None:
    """A world takes longer to make than to judge: each of these laws judges the same ones."""
    world = data.draw(worlds(solving))
    _mask_row_check_and_reasons_agree(world)
    _who_cannot_be_helped_by_evictions_is_not(world)
    _the_verifier_takes_what_all_constraints_take_and_nothing_else(world)


def _mask_row_check_and_reasons_agree(world: World) -> None:
    rows = np.array(world.rows(), np.intp)
    for constraint, query in (*world.candidate.cls.asked, *world.candidate.asked):
        whole = constraint.mask(query, slice(0, len(world.run.cluster.nodes)))
        assert np.array_equal(constraint.mask(query, rows), whole[rows]), constraint.name
        told = constraint.rejections(query, rows)
        for place, row in enumerate(rows.tolist()):
            said = bool(whole[row])
            found = constraint.filter(query, Target(row))
            assert constraint.admits(query, row) == said, constraint.name
            if said and not constraint.exact:
                continue
            assert (found is None) == said, constraint.name
            because = [each for each in told if each.rows[place]]
            assert {each.reason for each in because} == set(found.reasons if found else ()), constraint.name
            if found is not None:
                assert all(each.resolvable for each in because) == found.resolvable, constraint.name


def _who_cannot_be_helped_by_evictions_is_not(world: World) -> None:
    nodes = world.run.cluster.nodes
    for row in world.rows():
        everybody = Hypothesis(gone=tuple(world.run.cluster.book.claims_on(nodes.names[row])))
        for constraint, query in (*world.candidate.cls.asked, *world.candidate.asked):
            found = constraint.filter(query, Target(row))
            if found is not None and not found.resolvable:
                assert constraint.filter(query, Target(row, everybody)) is not None, constraint.name


def _the_verifier_takes_what_all_constraints_take_and_nothing_else(world: World) -> None:
    cluster, candidate = world.run.cluster, world.candidate
    refused = bool(candidate.refusals or candidate.cls.refusals)
    for row in world.rows():
        trial = Trial(cluster.capacity)
        placement = cluster.solver.place_on(candidate, row, trial, "plan")
        trial.undo()
        rejections = world.rejections(row)
        assert (placement is not None) == (not rejections and not refused)
        if placement is not None:
            assert world.run.verifier.check([placement.claim]) == []
        else:
            # That a Device waits to be counted is prudence alone where kubelet counts the cards, and none is chosen.
            waits = {reason for each in rejections.values() for reason in each.reasons} == {UNCOUNTED}
            claims = [claim for claim in world.claims(row) if not (waits and WHOLE_CARDS & claim.amounts.keys())]
            assert all(world.run.verifier.check([claim]) for claim in claims), rejections


@LAWS
@given(data=st.data())
def test_what_a_constraint_takes_its_allocator_serves_under_any_hypothesis(
    solving: type[Any], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([each.constraint for each in REGISTRY.allocators]))
    world = data.draw(worlds(solving, name, same_holders=True))
    nodes, cls = world.run.cluster.nodes, world.candidate.cls
    asked = {constraint.name: constraint for constraint, _ in cls.asked}
    for row in world.rows():
        there = list(world.run.cluster.book.claims_on(nodes.names[row]))
        gone = tuple(each for each in there if data.draw(st.booleans()))
        target = Target(row, Hypothesis(gone=gone))
        staying = [each for each in there if each not in gone]
        for allocator, query in cls.chosen:
            found = allocator.choose(query, target)
            if asked[allocator.constraint].filter(query, target) is None:
                assert not isinstance(found, Rejection), allocator.constraint
                by_number = names.NVIDIA_GPU in nodes.states[row].allocatable and names.NVIDIA_GPU in cls.requests
                assert found.grants or allocator.constraint in MAY_GRANT_NOTHING or by_number
                _judge_grants(world, row, found.grants, staying)


def _judge_grants(world: World, row: int, grants: tuple[Grant, ...], staying: list[Claim]) -> None:
    """Each thing once, and no more of it than there is beside those who stay."""
    nodes = world.run.cluster.nodes
    assert len({(each.kind, each.id) for each in grants}) == len(grants)
    offered = capacity(Place(nodes.states[row], nodes.inventories[row], nodes.topologies[row]))
    for grant in grants:
        for name, amount in grant.amounts.items():
            held = sum(
                each.amounts.get(name, 0)
                for claim in staying
                for each in claim.grants
                if (each.kind, each.id) == (grant.kind, grant.id)
            )
            if (grant.kind, grant.id, name) in offered:
                assert held + amount <= offered[grant.kind, grant.id, name]


@pytest.mark.parametrize("allocator", REGISTRY.allocators, ids=lambda each: each.constraint)
def test_what_an_allocator_grants_has_a_record_a_law_and_a_tally(solving: type[Any], allocator: Allocator[Any]) -> None:
    assert allocator.constraint in CONSTRAINTS
    grants: list[Grant] = []

    def grants_something(world: World) -> bool:
        for row in world.rows():
            for each, query in world.candidate.cls.chosen:
                found = each.choose(query, Target(row)) if each.constraint == allocator.constraint else Choice()
                grants.extend(() if isinstance(found, Rejection) else found.grants)
        return bool(grants)

    find(worlds_about(solving, allocator.constraint), grants_something, settings=SEARCH, random=random.Random(1))
    tallied = {each.name for each in grant_tallies(VIEW.nodes)}
    for kind in {grant.kind for grant in grants}:
        records = [each for each in registry.GRANTS if kind in each.kinds]
        assert len(records) == 1, f"{kind}: no record in berth.rules.records"
        assert records[0].name in tallied, f"{kind}: no tally of {records[0].name} in core.tallies.granted"
        assert any(kind in law.kinds for law in GRANT_LAWS), f"{kind}: no law in core.verify.grants"


OF_CAPACITY: Final = [each for each in REGISTRY.of_class if Depends.CAPACITY in each.depends]


@pytest.mark.parametrize("constraint", OF_CAPACITY, ids=lambda each: each.name)
def test_each_constraint_of_capacity_can_say_what_has_to_become_free(constraint: Constraint[Any]) -> None:
    assert isinstance(constraint, Freeable)


@LAWS
@given(data=st.data())
def test_nothing_has_to_become_free_where_a_pod_is_taken(solving: type[Any], data: st.DataObject) -> None:
    world = data.draw(worlds(solving, data.draw(st.sampled_from([each.name for each in OF_CAPACITY]))))
    for constraint, query in world.candidate.cls.by_capacity:
        assert isinstance(constraint, Freeable)
        for row in world.rows():
            lacking = constraint.lacking(query, row, 1)
            distance = constraint.distance(query, np.array([row], np.intp), np.array([1], np.intp))
            if constraint.filter(query, Target(row)) is None:
                assert lacking is not None
                assert not lacking.amounts
                assert not lacking.things
                assert distance == [0.0]
            elif lacking is None:
                continue
            elif not lacking.amounts and not lacking.things:
                found = constraint.rejections(query, np.array([row], np.intp))
                assert any(each.repair for each in found if each.rows[0]), f"{constraint.name}: nothing would help"


def _ruled_out_by_it_alone(name: str) -> Callable[[World], bool]:
    def holds(world: World) -> bool:
        by_node = any(list(world.rejections(row)) == [name] for row in world.rows())
        return by_node and not world.candidate.refusals and not world.candidate.cls.refusals

    return holds


def _rows_of_docs() -> dict[str, list[str]]:
    """Cells of the table, by the name in the first of them."""
    text = DOCS.read_text() if DOCS.exists() else ""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| `"]
    return {row[0].strip("`"): row for row in cells}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_each_constraint_has_pods_a_law_reasons_and_a_row_in_the_docs(solving: type[Any], name: str) -> None:
    assert name in WAITING, f"{name}: no row of WAITING makes pods that it concerns"
    row_of_docs = _rows_of_docs().get(name)
    assert row_of_docs is not None, f"{name}: no row in {DOCS.name}"
    assert len(row_of_docs) == 6, f"{name}: its row in {DOCS.name} needs six cells"
    assert all(row_of_docs), f"{name}: an empty cell in {DOCS.name}"
    try:
        world = find(
            worlds_about(solving, name), _ruled_out_by_it_alone(name), settings=SEARCH, random=random.Random(1)
        )
    except NoSuchExample:
        pytest.fail(f"{name}: rules out no node alone, in any world of WAITING and NODES")
    texts = [re.escape(text).replace("NAME", ".+") for text in re.findall(r"`([^`]+)`", row_of_docs[2])]
    for row in world.rows():
        rejection = world.rejections(row).get(name)
        if rejection is None:
            continue
        assert rejection.reasons, f"{name}: rejects a node without a reason"
        for reason in rejection.reasons:
            assert any(re.fullmatch(text, reason) for text in texts), f"{name}: {reason!r} is not in {DOCS.name}"
        if list(world.rejections(row)) == [name]:
            for claim in world.claims(row):
                assert world.run.verifier.check([claim]), f"{name}: no law in core/verify, {claim} is taken"


def test_the_docs_name_no_constraint_that_is_not_there() -> None:
    assert set(_rows_of_docs()) == set(CONSTRAINTS)
