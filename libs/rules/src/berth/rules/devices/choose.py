"""The whole choice of devices on one node: every type that a pod asks for, by itself or beside the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from berth.rules.devices.accelerators import allocate_accelerators, is_bound, partitions_for
from berth.rules.devices.allocate import allocate
from berth.rules.devices.candidates import EVERYTHING, Candidates, Narrowing, candidates
from berth.rules.devices.columns import FAMILIES, GPU
from berth.rules.devices.hints import APPLY_FOR_ALL, NO_HINT
from berth.rules.devices.joint import Allocate, Chosen, greedy
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.request import DeviceRequest
from berth.rules.devices.scoring import Scoring
from berth.rules.devices.search import Rule, search
from berth.rules.devices.slots import Grant, NoCapacity
from berth.rules.devices.split import allocate_split
from berth.rules.devices.templates import NO_MATCH
from berth.rules.devices.want import want_on

NO_TEMPLATE: Final = NoCapacity(NO_MATCH, unresolvable=True)
NO_SCORING: Final[Mapping[str, Scoring]] = {}
NO_NARROWING: Final[Mapping[str, Narrowing]] = {}


def choose_devices(
    node: NodeDevices,
    request: DeviceRequest,
    *,
    scoring: Mapping[str, Scoring] = NO_SCORING,
    narrowing: Mapping[str, Narrowing] = NO_NARROWING,
    is_final: bool = True,
) -> Chosen | NoCapacity:
    """The devices of each type that the pod asks for, or why the node cannot serve it.

    `scoring` and `narrowing` go by type; without scoring all devices score alike. Not `is_final`: whether the node
    may be chosen at all, for which secondary devices need not be looked at where they are well planned.
    """
    kinds = [kind for kind in FAMILIES if request.amounts.get(kind)]
    types = _joint_types(request, kinds)
    if len(types) > 1 and node.well_planned and not is_final and GPU.name in kinds:
        cards = want_on(GPU.name, request.amounts[GPU.name], node.slots.get(GPU.name, ()))
        if not isinstance(cards, NoCapacity) and cards is not None and not cards.shared:
            kinds = [kind for kind in kinds if kind not in types[1:]]
            types = ()
    parts: dict[str, Candidates] = {}
    for kind in kinds:
        part = _part(node, request, kind, scoring.get(kind), narrowing.get(kind, EVERYTHING))
        if isinstance(part, NoCapacity):
            return part
        parts[kind] = part
    template = _template(node, request) if GPU.name in parts else ""
    if isinstance(template, NoCapacity):
        return template

    by_itself = partial(_by_itself, node=node, request=request, template=template)
    chosen: Chosen = {}
    if len(types) > 1:
        joint = _jointly(types, parts, node, request, by_itself)
        if isinstance(joint, NoCapacity):
            return joint
        chosen = joint
    for kind, part in parts.items():
        if kind not in chosen:
            found = by_itself(part)
            if isinstance(found, NoCapacity):
                return found
            chosen[kind] = found
    return {kind: chosen[kind] for kind in FAMILIES if kind in chosen}


def _joint_types(request: DeviceRequest, kinds: list[str]) -> tuple[str, ...]:
    """The types that lie close together, in order; those of which all devices are taken lie where they lie."""
    if request.joint is None or len(kinds) < 2:
        return ()
    hints = request.hints
    return tuple(
        kind for kind in request.joint.types if kind in kinds and hints.get(kind, NO_HINT).strategy != APPLY_FOR_ALL
    )


def _part(
    node: NodeDevices, request: DeviceRequest, kind: str, scoring: Scoring | None, narrowing: Narrowing
) -> Candidates | NoCapacity:
    slots = node.slots.get(kind, ())
    hint = request.hints.get(kind, NO_HINT)
    want = want_on(kind, request.amounts[kind], slots, hint)
    if want is None:
        return NoCapacity(f"Insufficient {kind} devices", unresolvable=True)
    if isinstance(want, NoCapacity):
        return want
    narrowing = narrowing._replace(
        sealed=narrowing.sealed | node.sealed.get(kind, frozenset()), limit=narrowing.limit or node.limit
    )
    return candidates(slots, want, hint, narrowing, scoring)


def _template(node: NodeDevices, request: DeviceRequest) -> str | NoCapacity:
    """The size that a virtual NPU has on this node; empty: none is needed, or several are equal."""
    if request.templates is None:
        return ""
    named = request.templates.get(node.model, ())
    if not named:
        return NO_TEMPLATE
    return named[0] if len(named) == 1 else ""


def _by_itself(
    part: Candidates, *, node: NodeDevices, request: DeviceRequest, template: str
) -> tuple[Grant, ...] | NoCapacity:
    if part.want.family is GPU:
        hint = request.hints.get(GPU.name, NO_HINT)
        if request.split is not None:
            return allocate_split(part, request.split, hint.scope)
        return allocate_accelerators(
            part, rules=node.partitions, spec=request.partition, scope=hint.scope, template=template
        )
    found = allocate(part.slots, part.want, scoring=part.scoring, preferred=part.preferred, required=part.offers.keys())
    return found if isinstance(found, NoCapacity) else part.grants([grant.minor for grant in found])


def _jointly(
    types: tuple[str, ...],
    parts: Mapping[str, Candidates],
    node: NodeDevices,
    request: DeviceRequest,
    by_itself: Allocate,
) -> Chosen | NoCapacity:
    """The greedy choice, else an exact one where the types must have their places in common.

    Without such a scope the greedy choice finds devices whenever there are any: each type is then free of the others.
    Unevenly divided cards are chosen greedily alone.
    """
    scope = request.joint.scope if request.joint is not None else ""
    found = greedy(types, parts, scope, by_itself)
    if not isinstance(found, NoCapacity) or not scope or found.unresolvable or request.split is not None:
        return found
    rule = Rule()
    if GPU.name in types:
        level = request.hints.get(GPU.name, NO_HINT).scope
        partitions = partitions_for(parts[GPU.name], node.partitions, request.partition, level)
        if isinstance(partitions, NoCapacity):
            return found
        rule = Rule(partitions or (), is_bound(node.partitions, request.partition) and partitions is not None, level)
    return search(types, parts, scope, rule) or found
