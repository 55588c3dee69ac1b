"""NodeAffinity: the weights of the preferred terms that the node matches, the pod's and those of the configuration."""

from __future__ import annotations

import numpy as np

from berth.contracts.kube import NodeAffinity
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.scores.normalise import by_highest
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec
from berth.rules.node_affinity import NodePreference, compile_preference

Preferences = tuple[NodePreference, ...]


class NodeAffinityScore:
    """Rated by the sum of the weights. `added` is the affinity that the configuration adds to every pod."""

    name = "NodeAffinity"
    depends = Depends.NODE

    def __init__(self, nodes: Nodes, added: NodeAffinity | None = None) -> None:
        self._nodes = nodes
        self._added = compile_preference(added)

    def prescore(self, spec: Spec) -> Preferences | None:
        """The preferences that can count at all."""
        found = tuple(each for each in (compile_preference(spec.template.affinity), self._added) if not each.empty)
        return found or None

    def raw(self, query: Preferences, rows: RowArray) -> Floats:
        """The sum of the weights of the matching terms."""
        found = np.zeros(rows.shape)
        for at, row in enumerate(rows.tolist()):
            node = self._nodes.states[row]
            if node is not None:
                found[at] = sum(each.score(node.labels, node.name) for each in query)
        return found

    def normalise(self, query: Preferences, raw: Floats, rows: RowArray) -> Floats:
        """The highest sum becomes 100."""
        return by_highest(raw)
