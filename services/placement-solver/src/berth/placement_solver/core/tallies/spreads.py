"""Pods that are to be spread: their constraints, compiled once for all pods that cannot be told apart by them."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from berth.contracts.kube import LabelSelector
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.pod_selectors import PodSelectors
from berth.placement_solver.core.seams import Spec
from berth.placement_solver.core.tallies.counted_nodes import CountedNodes
from berth.placement_solver.core.tallies.domains import LabelDomains
from berth.placement_solver.core.tallies.interned import Interned
from berth.placement_solver.core.tallies.peers import Peers
from berth.rules.topology_spread import (
    HARD,
    Defaults,
    Incoming,
    Spread,
    compile_spread,
    default_spread,
    incoming_of,
    is_empty,
)

SPREADS_MAX: Final = 1024

_encode: Final = msgspec.json.Encoder(order="sorted").encode


class SpreadPod:
    """A pod with its constraints, and which nodes count for the hard and for the soft ones.

    `verdicts` belongs to the constraint: one for each row, as things were at `stamp`.
    """

    __slots__ = ("for_hard", "for_soft", "incoming", "spread", "stamp", "verdicts")

    def __init__(self, incoming: Incoming, spread: Spread, for_hard: CountedNodes, for_soft: CountedNodes) -> None:
        self.incoming = incoming
        self.spread = spread
        self.for_hard = for_hard
        self.for_soft = for_soft
        self.stamp: object = None
        self.verdicts: npt.NDArray[np.int8] = np.zeros(0, np.int8)


class Spreads:
    """The pods that somebody asks about.

    A pod without constraints has the `defaults` of the configuration, with the selector of its fellows; without fellows
    it has none.
    """

    def __init__(
        self,
        nodes: Nodes,
        domains: LabelDomains,
        peers: Peers,
        selectors: PodSelectors,
        defaults: Defaults | None = None,
    ) -> None:
        self.nodes = nodes
        self.domains = domains
        self.peers = peers
        self._defaults = Defaults() if defaults is None else defaults
        self._default_actions = frozenset(each.when_unsatisfiable for each in self._defaults.constraints)
        self._selectors = selectors
        self._known: Interned[SpreadPod] = Interned(SPREADS_MAX)

    def waits(self, spec: Spec) -> bool:
        """It is not known yet which pods count for it by the configuration's hard constraints."""
        has_none = not spec.template.topology_spread
        return has_none and HARD in self._default_actions and not self._selectors.is_complete

    def of(self, spec: Spec, action: str) -> SpreadPod | None:
        """The pod, when it may have constraints with this action (`HARD`, `SOFT`); None: it has none."""
        template = spec.template
        selector = None
        if not template.topology_spread:
            if action not in self._default_actions:
                return None
            selector = self._selectors.fellows(spec)
            if is_empty(selector):
                return None
        affinity = template.affinity
        key = (
            spec.namespace,
            frozenset(template.labels.items()),
            _encode(
                (
                    template.topology_spread,
                    selector,
                    template.node_selector,
                    affinity and affinity.node_affinity,
                    template.tolerations,
                )
            ),
        )
        return self._known.of(key, lambda: self._make(spec, selector))

    def _make(self, spec: Spec, selector: LabelSelector | None) -> SpreadPod:
        template = spec.template
        incoming = incoming_of(template, spec.namespace)
        if template.topology_spread:
            spread = compile_spread(template.topology_spread, template.labels)
        else:
            spread = default_spread(self._defaults, selector)
        return SpreadPod(
            incoming,
            spread,
            CountedNodes(self.nodes, self.domains, spread.hard, incoming),
            CountedNodes(self.nodes, self.domains, spread.soft, incoming, requires_all_keys=spread.requires_all_keys),
        )
