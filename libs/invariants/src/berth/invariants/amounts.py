"""Plain amounts: what a node offers is not given out twice."""

from __future__ import annotations

from collections.abc import Iterator

from berth.contracts import names
from berth.invariants.facts import BY_MINOR, Facts, amounts_of
from berth.invariants.report import Finding

SHRINKING = frozenset({names.BATCH_CPU, names.BATCH_MEMORY, names.MID_CPU, names.MID_MEMORY})
"""Reclaimed amounts: what a node offers of them may fall below what is held at any time."""


def beyond_node(facts: Facts) -> Iterator[Finding]:
    """Nodes that hold more than they offer of something that a pod of Berth asks for."""
    offers = {node.metadata.name: amounts_of(node.status.allocatable) for node in facts.world.nodes}
    for name, holders in sorted(facts.on_node.items()):
        offered = offers.get(name)
        ours = {
            resource
            for holder in holders
            if holder.is_ours
            for resource, amount in holder.amounts.items()
            if amount > 0 and resource not in BY_MINOR | SHRINKING
        }
        if offered is None:
            continue  # pods outlive their node object for a while
        for resource in sorted(ours - {names.PODS}):
            total = sum(holder.amounts.get(resource, 0) for holder in holders)
            if total > offered.get(resource, 0):
                text = f"node {name}: {total} of {offered.get(resource, 0)} {resource} held by {len(holders)} pods"
                yield Finding(f"node {name}, {resource}", text)
        most = offered.get(names.PODS)
        if most is not None and len(holders) > most and any(holder.is_ours for holder in holders):
            yield Finding(f"node {name}, pods", f"node {name}: {len(holders)} pods, at most {most}")
