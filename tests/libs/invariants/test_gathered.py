"""Gangs in the network, as the observer sees them: decided and bound into one domain, by what everybody must know."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tests.libs.invariants.story import Json, Story

from berth.contracts import names
from berth.contracts.ledger import Decision, GangDomain, GangRef

ASKED = {names.ANNOTATION_GANG_TOPOLOGY: json.dumps({"gatherStrategy": [{"layer": "block", "strategy": "MustGather"}]})}


def domain(block: str) -> GangDomain:
    return GangDomain(layer="block", path=[block], label_keys=[["block"]], is_lowest=True)


def labels(story: Story, node: str, block: str) -> None:
    story.change("nodes", node, {"metadata": {"labels": {"block": block}}})


@pytest.fixture
def story() -> Story:
    """Two nodes in two blocks, two members of a gang that must lie in one."""
    made = Story()
    for number in (1, 2):
        made.node(f"n{number}")
        labels(made, f"n{number}", f"b{number}")
        made.pod(f"g{number}", gang="g", minimum=2)
    made.put("podgroups", "g", {"metadata": {"annotations": ASKED}, "spec": {"minMember": 2}}, "default")
    entries: list[Json] = [
        {"topologyLayer": "block", "labelKey": ["block"]},
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "block"},
    ]
    made.put("clusternetworktopologies", "default", {"spec": {"networkTopologySpec": entries}})
    made.wait(60.0)
    return made


def decided(story: Story, nodes: tuple[str, str], blocks: tuple[str, str] | None) -> list[Decision]:
    made = []
    for number, node in enumerate(nodes, 1):
        gang = GangRef(name="default/g", size=2, domain=domain(blocks[number - 1]) if blocks else None)
        made.append(replace(story.decision(f"g{number}", node), gang=gang))
    story.commit(*made)
    return [story.decisions[f"g{number}"] for number in (1, 2)]


def promises(story: Story) -> set[str]:
    return {violation.promise for violation in story.observer.violations}


def test_in_one_domain(story: Story) -> None:
    for made in decided(story, ("n1", "n1"), ("b1", "b1")):
        story.bind(made.name)
    assert "I33" not in promises(story)


@pytest.mark.parametrize(
    ("nodes", "blocks"),
    [
        (("n1", "n2"), None),
        (("n1", "n2"), ("b1", "b2")),
        (("n1", "n2"), ("b1", "b1")),
    ],
)
def test_apart(story: Story, nodes: tuple[str, str], blocks: tuple[str, str] | None) -> None:
    decided(story, nodes, blocks)
    assert "I33" in promises(story)


@pytest.mark.parametrize(("after_s", "broken"), [(1.0, False), (60.0, True)])
def test_a_label_that_changes_counts_once_everybody_can_have_seen_it(
    story: Story, after_s: float, broken: bool
) -> None:
    first, second = decided(story, ("n1", "n1"), ("b1", "b1"))
    story.bind(first.name)
    labels(story, "n1", "b2")
    story.wait(after_s)
    story.bind(second.name)
    assert ("I33" in promises(story)) == broken


def test_what_changes_afterwards_is_nobodys_fault(story: Story) -> None:
    for made in decided(story, ("n1", "n1"), ("b1", "b1")):
        story.bind(made.name)
    labels(story, "n1", "b2")
    story.wait(60.0)
    assert "I33" not in promises(story)
