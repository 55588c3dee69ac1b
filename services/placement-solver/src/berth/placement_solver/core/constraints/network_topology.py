"""NetworkTopology: a member of a gang that asks for a place in the network goes to a node that lies in it, and where
members are already, into their domain.

Where a gang that begins goes is chosen for all of its members together (`core/gatherers`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from berth.contracts import names
from berth.contracts.base import Problem
from berth.placement_solver.core.network import Network
from berth.placement_solver.core.seams import (
    Depends,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
    Unusable,
)
from berth.rules.gang_config import gang_name_of_pod
from berth.rules.network_topology.layers import ROOT, Path
from berth.rules.network_topology.spec import FIELD, GatherRule, GatherSpec, index_problem, must_gather_layer

NAME: Final = "NetworkTopology"
NO_NETWORK: Final = "no cluster network topology"
"""Koordinator's text."""
OUTSIDE: Final = "node(s) outside of the network topology"
ELSEWHERE: Final = "node(s) outside of the network domain of the gang"


class GatherQuery(NamedTuple):
    """What the gang asks for. `depth`: so many layers from the top is the one whose domain holds all (0: any);
    `home`: that domain, where members are in one."""

    rules: tuple[GatherRule, ...]
    layer: str = ROOT
    depth: int = 0
    home: Path = ()


class NetworkTopology:
    """Where nodes lie is what INVENTORY says."""

    name = NAME
    depends = Depends.NODE | Depends.PEERS
    exact = True

    def __init__(self, network: Network) -> None:
        self.network = network

    def prefilter(self, spec: Spec) -> GatherQuery | Unusable | Rejection | None:
        """See `Constraint`."""
        template = spec.template
        gang = self.network.gangs.gang_of(spec.name)
        if gang is None or gang.config is None:
            is_lonely = bool(spec.name[0]) and not gang_name_of_pod(template.labels, template.annotations)
            if is_lonely and names.ANNOTATION_GANG_TOPOLOGY in template.annotations:
                return Unusable((Problem(field=FIELD, message="is for gangs, and the pod is in none"),))
            return None
        asked = gang.config.network
        if asked is None:
            return None
        problem = asked.problem or index_problem(template.annotations)
        if problem is not None:
            return Unusable((problem,))
        if not self.network.is_known:
            return Rejection((NO_NETWORK,), resolvable=False)
        layers = self.network.names
        limits = _limits_of(asked, layers)
        if isinstance(limits, Unusable):
            return limits
        layer, depth = limits
        home: Path = ()
        if depth and any(each.placed for each in self.network.gathered_with(gang)):
            homes = self.network.homes(gang, depth)
            home = min(homes, key=lambda path: (-homes[path], path), default=())
        return GatherQuery(asked.rules, layer, depth, home)

    def mask(self, query: GatherQuery, rows: Rows) -> Mask:
        """See `Constraint`."""
        mask: Mask = self.network.within(query.home)[rows]
        return mask

    def admits(self, query: GatherQuery, row: int) -> bool:
        """See `Constraint`."""
        return self.network.lies_within(row, query.home)

    def filter(self, query: GatherQuery, target: Target) -> Rejection | None:
        """See `Constraint`."""
        if self.admits(query, target.row):
            return None
        return Rejection((ELSEWHERE if self.network.in_tree()[target.row] else OUTSIDE,), resolvable=False)

    def rejections(self, query: GatherQuery, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        lies = self.network.in_tree()[rows]
        return [
            Rejected(OUTSIDE, np.logical_not(lies), resolvable=False),
            Rejected(ELSEWHERE, lies & ~self.mask(query, rows), resolvable=False),
        ]


@lru_cache(maxsize=1024)
def _limits_of(asked: GatherSpec, layers: tuple[str, ...]) -> tuple[str, int] | Unusable:
    """The layer in one domain of which all have to lie, and how many layers from the top that is; once for all members
    of all gangs that ask alike."""
    problem = asked.beyond(layers)
    if problem is not None:
        return Unusable((problem,))
    layer = must_gather_layer(asked.rules, layers)
    return layer, layers.index(layer) + 1 if layer in layers else 0
