"""PodTopologySpread: each pod of a plan keeps its own constraints, beside what is there and what the plan placed before
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core.verify.laws.placed_pods import PlacedPods, node_of, peer_of, pod_of
from berth.placement_solver.core.verify.view import View
from berth.rules.topology_spread import SpreadCounts, compile_spread, incoming_of
from berth.transaction.claims import Claim

PLUGIN: Final = "PodTopologySpread"
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def spread_problems(claims: Sequence[Claim], view: View, placed: PlacedPods) -> Iterator[str]:
    """What speaks against a plan that makes these claims, in this order."""
    counted: dict[bytes, SpreadCounts | None] = {}
    keys: dict[str, bytes] = {}
    for claim in claims:
        seen = view.book.seen(claim.name)
        if seen is not None and seen.template.topology_spread and _is_on(seen, view):
            template = seen.template
            key = keys[claim.uid] = _encode(
                (
                    seen.namespace,
                    template.labels,
                    template.topology_spread,
                    template.node_selector,
                    template.affinity,
                    template.tolerations,
                )
            )
            if key not in counted:
                counted[key] = _counts(seen, view, placed)
    if not counted:
        return
    for claim in claims:
        node = node_of(claim.node, view)
        if node is None:
            continue
        counts = counted.get(keys.get(claim.uid, b""))
        unfit = counts.unfit(node) if counts is not None else None
        if unfit is not None:
            yield f"{'/'.join(claim.name)}: node {node.name}: {unfit.reason}"
        pod = pod_of(claim.name, claim.uid, view)
        if pod is not None:
            for each in counted.values():
                if each is not None:
                    each.add(peer_of(pod), node)


def _is_on(seen: Pod | Reservation, view: View) -> bool:
    return PLUGIN in view.profile_of(seen.template.scheduler).constraints


def _counts(seen: Pod | Reservation, view: View, placed: PlacedPods) -> SpreadCounts | None:
    """The domains as this object counts them before the plan; None: it has no hard constraints."""
    hard = compile_spread(seen.template.topology_spread, seen.template.labels).hard
    if not hard:
        return None
    nodes = [node for node in view.nodes.states if node is not None]
    counts = SpreadCounts(hard, incoming_of(seen.template, seen.namespace), nodes)
    for pod in placed.within((seen.namespace,), view):
        counts.add(pod.peer, pod.node)
    return counts
