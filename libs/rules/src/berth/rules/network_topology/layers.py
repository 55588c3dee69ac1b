"""The layers of the network, from the top down, and the domains that a node's labels put it into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.state import NetworkLayer

ROOT: Final = "ClusterTopologyLayer"
"""The layer of the one domain that holds the whole cluster; it is in no list of layers."""
NODES: Final = "NodeTopologyLayer"
"""The lowest layer: its domains are the nodes."""
LAYERS_MAX: Final = 16
FIELD: Final = "spec.networkTopologySpec"

Path = tuple[str, ...]
"""The names of the domains that something lies in, from the top down."""


class Layer(NamedTuple):
    """A layer above the nodes: of these labels, the first with a value names a node's domain."""

    name: str
    label_keys: tuple[str, ...] = ()


def layers_of(listed: Iterable[NetworkLayer]) -> tuple[Layer, ...] | Problem:
    """The layers above the nodes from the top down, or why what is listed is no chain down to the nodes."""
    entries = list(listed)
    if len(entries) > LAYERS_MAX:
        return Problem(field=FIELD, message=f"lists more than {LAYERS_MAX} layers")
    by_name: dict[str, NetworkLayer] = {}
    for at, each in enumerate(entries):
        field = f"{FIELD}[{at}].topologyLayer"
        if each.name in ("", ROOT):
            return Problem(field=field, message="layer chain is broken: this name is taken by the whole cluster")
        if each.name in by_name:
            return _broken(field, f"{each.name} is listed twice")
        by_name[each.name] = each
    chain: list[Layer] = []
    name = NODES
    while name in by_name:
        each = by_name.pop(name)
        chain.append(Layer(name, tuple(each.label_keys)))
        name = each.parent
    if name not in ("", ROOT):
        return _broken(FIELD, f"{name} is not listed, or is a parent twice")
    if by_name or not chain:
        return _broken(FIELD, f"from {NODES} up, {', '.join(sorted(by_name)) or NODES} is not reached")
    return tuple(reversed(chain[1:]))


def names_of(layers: Iterable[Layer]) -> tuple[str, ...]:
    """The names of the layers from the top down, that of the nodes last."""
    return (*(each.name for each in layers), NODES)


def path_of(layers: Iterable[Layer], node: str, labels: Mapping[str, str]) -> Path | None:
    """The domains of a node above itself; None: its labels leave it out of the tree.

    A node without a domain of the lowest of these layers is one by itself, named as it is.
    """
    path = [next((labels[key] for key in each.label_keys if labels.get(key)), "") for each in layers]
    if path and not path[-1]:
        path[-1] = node
    return tuple(path) if all(path) else None


def _broken(field: str, why: str) -> Problem:
    return Problem(field=field, message=f"layer chain is broken: {why}")
