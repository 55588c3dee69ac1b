"""A whole quota tree computed from scratch: requests bottom-up, then effective mins and runtimes top-down.

This is the definition. `engine` keeps the same figures incrementally, and the tests hold the two against each other.
It neither checks nor repairs its input: parents must be known and free of cycles.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import NamedTuple

from berth.quota_manager.core.sharing import effective_minimum, share
from berth.resources.amounts import Amounts, add_into, maximum


class Child(NamedTuple):
    """What one child brings to the level, all in the unit of the resource."""

    name: str
    weight: int
    request: int
    """What the child asks for, already cut to its max."""
    minimum: int
    """The effective (perhaps scaled) min."""
    guarantee: int = 0
    lends: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One group of the tree and what its own pods ask for and use, reduced to the keys of its max."""

    name: str
    parent: str | None
    """None: below the root."""
    max: Amounts
    min: Amounts = field(default_factory=dict)
    weight: Amounts | None = None
    lends: bool = True
    guarantees: bool = False
    """What it uses is guaranteed, whatever holds for the others."""
    keeps_min: bool = False
    """Its min is never scaled."""
    self_request: Amounts = field(default_factory=dict)
    self_used: Amounts = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Figures:
    """What the rules make of one group. A missing resource means 0."""

    request: Amounts = field(default_factory=dict)
    limited: Amounts = field(default_factory=dict)
    effective_min: Amounts = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)
    guaranteed: Amounts = field(default_factory=dict)
    runtime: Amounts = field(default_factory=dict)


def solve(
    groups: Sequence[Asking], total: Mapping[str, int], *, scales_min: bool = True, guarantees_use: bool = False
) -> dict[str, Figures]:
    """The figures of every group, by name, where the tree has `total` to share out."""
    by_name = {group.name: group for group in groups}
    children: dict[str | None, list[Asking]] = {}
    for group in sorted(groups, key=lambda group: group.name):
        children.setdefault(group.parent, []).append(group)
    order = _parents_first(groups)
    figures = {name: Figures() for name in order}

    for name in reversed(order):
        _rise(by_name[name], children.get(name, []), figures, guarantees_use=guarantees_use)

    every_key = {key for group in groups for key in group.max}
    _descend(children.get(None, []), every_key, total, figures, scales_min, guarantees_use)
    for name in order:
        level = children.get(name, [])
        _descend(level, by_name[name].max.keys(), figures[name].runtime, figures, scales_min, guarantees_use)
    return figures


def _parents_first(groups: Sequence[Asking]) -> list[str]:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for group in groups:
        sorter.add(group.name, *([] if group.parent is None else [group.parent]))
    return list(sorter.static_order())


def _rise(group: Asking, children: list[Asking], figures: dict[str, Figures], *, guarantees_use: bool) -> None:
    own = figures[group.name]
    asked, allocated = dict(group.self_request), dict(group.self_used)
    below: Amounts = {}
    for child in children:
        add_into(asked, figures[child.name].limited)
        add_into(below, figures[child.name].guaranteed)
    add_into(allocated, below)
    guarantees = guarantees_use or group.guarantees
    lends = group.lends and not guarantees
    own.guaranteed = below
    own.request = asked if lends else maximum(asked, group.min)
    own.limited = {key: min(own.request.get(key, 0), limit) for key, limit in group.max.items()}
    if guarantees:
        own.allocated = allocated
        own.guaranteed = maximum(allocated, group.min)


def _descend(
    level: list[Asking],
    keys: Iterable[str],
    total: Mapping[str, int],
    figures: dict[str, Figures],
    scales_min: bool,
    guarantees_use: bool,
) -> None:
    if not level:
        return
    for child in level:
        figures[child.name].effective_min = dict(child.min)
    if scales_min:
        for key, amount in total.items():
            fixed = sum(child.min.get(key, 0) for child in level if child.keeps_min)
            promised = sum(child.min.get(key, 0) for child in level if not child.keeps_min)
            for child in level:
                if key in child.min and not child.keeps_min:
                    scaled = effective_minimum(amount - fixed, child.min[key], promised=promised)
                    figures[child.name].effective_min[key] = scaled
    for key in sorted(keys):
        sharers = [_sharer(child, key, figures[child.name], guarantees_use) for child in level if key in child.max]
        for name, amount in share(total.get(key, 0), sharers).items():
            figures[name].runtime[key] = amount


def _sharer(group: Asking, key: str, figures: Figures, guarantees_use: bool) -> Child:
    weights = group.weight if group.weight is not None and any(group.weight.values()) else group.max
    return Child(
        name=group.name,
        weight=weights.get(key, 0),
        request=figures.limited.get(key, 0),
        minimum=figures.effective_min.get(key, 0),
        guarantee=figures.guaranteed.get(key, 0),
        lends=group.lends and not (guarantees_use or group.guarantees),
    )
