"""PodTopologySpread: each pod of a plan keeps its own constraints, or those that its profile has for it, beside what is
there and what the plan placed before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from berth.contracts.kube import LabelSelector
from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core.verify.laws.placed_pods import PlacedPods, node_of, peer_of, pod_of
from berth.placement_solver.core.verify.view import View
from berth.rules.pod_selectors import default_selector
from berth.rules.scheduler_config import PodTopologySpreadArgs
from berth.rules.topology_spread import (
    HARD,
    Defaults,
    SpreadConstraint,
    SpreadCounts,
    compile_spread,
    default_spread,
    incoming_of,
)
from berth.transaction.claims import Claim

PLUGIN: Final = "PodTopologySpread"
NO_DEFAULTS: Final = Defaults(())
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def spread_problems(claims: Sequence[Claim], view: View, placed: PlacedPods) -> Iterator[str]:
    """What speaks against a plan that makes these claims, in this order."""
    counted: dict[bytes, SpreadCounts | None] = {}
    keys: dict[str, bytes] = {}
    without_defaults: set[str] = set()  # schedulers
    for claim in claims:
        seen = view.book.seen(claim.name)
        if seen is None or (not seen.template.topology_spread and seen.template.scheduler in without_defaults):
            continue
        profile = view.profile_of(seen.template.scheduler)
        if PLUGIN not in profile.constraints:
            continue
        template, defaults, fellows = seen.template, NO_DEFAULTS, None
        if not template.topology_spread:
            defaults = profile.args_of(PLUGIN, PodTopologySpreadArgs).defaults
            if not any(each.when_unsatisfiable == HARD for each in defaults.constraints):
                without_defaults.add(template.scheduler)
                continue
            if not view.selecting_is_complete:
                yield f"{'/'.join(claim.name)}: who is spread with it is not known yet"
            fellows = _fellows(seen, view)
        key = keys[claim.uid] = _encode(
            (
                seen.namespace,
                template.labels,
                template.topology_spread,
                template.scheduler,
                fellows,
                template.node_selector,
                template.affinity,
                template.tolerations,
            )
        )
        if key not in counted:
            spread = compile_spread(template.topology_spread, template.labels)
            if fellows is not None:
                spread = default_spread(defaults, fellows)
            counted[key] = _counts(seen, spread.hard, view, placed)
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


def _fellows(seen: Pod | Reservation, view: View) -> LabelSelector:
    """What selects the object together with those that it is spread with."""
    owners = seen.owners if isinstance(seen, Pod) else ()
    owner = view.selecting.of_owner(seen.namespace, owners)
    return default_selector(seen.template.labels, view.selecting.services(seen.namespace), owner)


def _counts(
    seen: Pod | Reservation, hard: Sequence[SpreadConstraint], view: View, placed: PlacedPods
) -> SpreadCounts | None:
    """The domains as this object counts them before the plan; None: it has no hard constraints."""
    if not hard:
        return None
    nodes = [node for node in view.nodes.states if node is not None]
    counts = SpreadCounts(hard, incoming_of(seen.template, seen.namespace), nodes)
    for pod in placed.within((seen.namespace,), view):
        counts.add(pod.peer, pod.node)
    return counts
