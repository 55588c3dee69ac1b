"""What the status of a ClusterNetworkTopology says of its domains, kept up to date node by node."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from berth.rules.network_topology.layers import NODES, ROOT, Layer, Path, path_of


class Domains:
    """The domains that nodes lie in, with how many nodes each has. `outside`: nodes whose labels leave them out."""

    def __init__(self, layers: Iterable[Layer]) -> None:
        self._layers = tuple(layers)
        self._paths: dict[str, Path] = {}
        self._counts: dict[Path, int] = {}
        self._children: dict[Path, dict[str, int]] = {}
        self.outside: set[str] = set()

    def see(self, node: str, labels: Mapping[str, str] | None) -> Path | None:
        """Take in a node, or with None its deletion; its path."""
        path = path_of(self._layers, node, labels) if labels is not None else None
        (self.outside.add if path is None and labels is not None else self.outside.discard)(node)
        before = self._paths.get(node)
        if path == before:
            return path
        if before is not None:
            del self._paths[node]
            self._count(before, -1)
        if path is not None:
            self._paths[node] = path
            self._count(path, 1)
        return path

    def detail_status(self) -> list[dict[str, Any]]:
        """One entry for each domain above the nodes, depth first, children by name."""
        found: list[dict[str, Any]] = []
        self._describe((), found)
        return found

    def _count(self, path: Path, sign: int) -> None:
        for length in range(len(path) + 1):
            domain = path[:length]
            left = self._counts.get(domain, 0) + sign
            if left:
                self._counts[domain] = left
            else:
                del self._counts[domain]
            if length < len(path):
                children = self._children.setdefault(domain, {})
                name = path[length]
                children[name] = children.get(name, 0) + sign
                if not children[name]:
                    del children[name]
                if not children:
                    del self._children[domain]

    def _describe(self, domain: Path, found: list[dict[str, Any]]) -> None:
        depth = len(domain)
        is_lowest = depth == len(self._layers)
        entry: dict[str, Any] = {"topologyInfo": self._info(domain)}
        if domain:
            entry["parentTopologyInfo"] = self._info(domain[:-1])
        entry["childTopologyLayer"] = NODES if is_lowest else self._layers[depth].name
        children = sorted(self._children.get(domain, ()))
        if not is_lowest:
            entry["childTopologyNames"] = children
        entry["nodeNum"] = self._counts.get(domain, 0)
        found.append(entry)
        if not is_lowest:
            for name in children:
                self._describe((*domain, name), found)

    def _info(self, domain: Path) -> dict[str, str]:
        layer = self._layers[len(domain) - 1].name if domain else ROOT
        return {"topologyLayer": layer, "topologyName": domain[-1] if domain else ""}


def digest(status: list[dict[str, Any]]) -> str:
    """Equal for equal statuses, and short."""
    return hashlib.sha256(msgspec.json.encode(status, order="sorted")).hexdigest()[:32]
