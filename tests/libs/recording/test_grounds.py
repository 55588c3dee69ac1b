"""Grounds come back as they were told: in full, as changes, and never under a name that is not their content's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from berth.contracts.round import Ground
from berth.recording.grounds import Grounds, Known, named, pack, pack_nodes, told, unpack, unpack_nodes

NODES = [f"node-{number}" for number in range(100)]
PLAIN = Ground(id="", version="1", schedulers=["berth"])


def known(nodes: list[str], ground: Ground = PLAIN) -> Known:
    return Known(named(ground, nodes), tuple(nodes))


def test_what_is_told_in_full_is_known() -> None:
    grounds, one = Grounds(), known(NODES)
    assert grounds.take(told(one.ground, one.nodes)) is None
    assert grounds.of(one.ground.id) == one


@pytest.mark.parametrize("changed", [{3: "new"}, {100: "new"}, {3: "new", 100: "newer", 101: "newest"}])
def test_what_is_told_as_changes_is_known_and_small(changed: dict[int, str]) -> None:
    grounds, one = Grounds(), known(NODES)
    nodes = [*NODES, *([""] * len([at for at in changed if at >= 100]))]
    for at, name in changed.items():
        nodes[at] = name
    other = known(nodes, replace(PLAIN, turning_over=0.5))
    grounds.take(told(one.ground, one.nodes))
    said = told(other.ground, other.nodes, one)
    assert (said.nodes, said.after, len(said.renamed)) == ("", one.ground.id, len(changed))
    assert grounds.take(said) is None
    assert grounds.of(other.ground.id) == other


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (told(known(NODES).ground, NODES, known(NODES[:-1])), "round.told.after"),
        (replace(known(NODES).ground, nodes="%%"), "round.told.nodes"),
        (replace(known(NODES).ground, nodes=pack_nodes(NODES)[:40]), "round.told.nodes"),
        (replace(known(NODES).ground, nodes=pack_nodes(NODES[1:])), "round.told.id"),
    ],
)
def test_what_cannot_be_used_is_named(said: Ground, field: str) -> None:
    grounds = Grounds()
    problem = grounds.take(said)
    assert problem is not None
    assert problem.field == field
    assert grounds.of(said.id) is None


@given(st.binary(max_size=200))
def test_bytes_come_back(data: bytes) -> None:
    assert unpack(pack(data)) == data


@given(st.text("ab-.0", max_size=8))
def test_what_was_not_packed_is_refused_in_one_way(text: str) -> None:
    try:
        unpack_nodes(text)
    except ValueError:
        return
    assert text == ""
