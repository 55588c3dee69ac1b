"""NUMA nodes: what pods were given of one is not more than it has. Who was given none of it counts for nothing here,
and neither does what is lent, which may be less at any time."""

from __future__ import annotations

from collections.abc import Iterator

from berth.contracts.grants import ZONE
from berth.invariants.amounts import SHRINKING
from berth.invariants.facts import Facts, Holder
from berth.invariants.layouts import Share, layout_of
from berth.invariants.report import Finding


def subject_of(node: str, share: Share) -> str:
    """How findings name a resource of a NUMA node."""
    return f"node {node}, NUMA node {share[0]}, {share[1]}"


def beyond_capacity(facts: Facts) -> Iterator[Finding]:
    """NUMA nodes of which more is held than they have, Berth being among the holders."""
    notes = {node.metadata.name: node.metadata.annotations or {} for node in facts.world.nodes}
    for seen in sorted(facts.world.topologies, key=lambda each: each.metadata.name):
        node = seen.metadata.name
        held: dict[Share, list[tuple[Holder, int]]] = {}
        for holder in facts.on_node.get(node, ()):
            for grant in holder.devices:
                for name, amount in grant.amounts.items() if grant.kind == ZONE else ():
                    if name not in SHRINKING:
                        held.setdefault((grant.id, name), []).append((holder, amount))
        zones = layout_of(seen, notes.get(node, {})).zones if held else {}
        for share, parts in sorted(held.items()):
            total, most = sum(amount for _, amount in parts), zones.get(share, 0)
            if total > most and any(holder.is_ours for holder, _ in parts):
                listed = ", ".join(f"{holder.text} {amount}" for holder, amount in parts)
                yield Finding(subject_of(node, share), f"{subject_of(node, share)}: {total} of {most}: {listed}")
