"""Koordinator's DeviceShare as a score: how full a node's devices are once one instance of a request is on them."""

from __future__ import annotations

import numpy as np

from berth.placement_solver.core.constraints.device_share import DeviceShare, scorings_of
from berth.placement_solver.core.devices.asked import DeviceQuery
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec
from berth.rules.devices.scoring import node_score, normalised
from berth.rules.scheduler_config import DeviceShareArgs, DeviceStrategy


class DeviceShareScore:
    """By the profile's `scoringStrategy`: the devices of each type as if they were one, and the types added up."""

    name = DeviceShare.name
    depends = Depends.CAPACITY

    def __init__(self, nodes: Nodes, constraint: DeviceShare, args: DeviceShareArgs | None = None) -> None:
        strategy = (args or DeviceShareArgs()).scoring_strategy
        self._nodes = nodes
        self._constraint = constraint
        self._scoring = scorings_of(strategy or DeviceStrategy())

    def prescore(self, spec: Spec) -> DeviceQuery | None:
        """Pods that ask for devices are rated."""
        query = self._constraint.prefilter(spec)
        return query if isinstance(query, DeviceQuery) else None

    def raw(self, query: DeviceQuery, rows: RowArray) -> Floats:
        """The sum over the types."""
        slots = self._nodes.devices.slots
        rated = np.zeros(rows.shape)
        for kind, want in query.least:
            scoring, mine = self._scoring[kind], slots[kind]
            for place, row in enumerate(rows.tolist()):
                each = [(slot.total, slot.free) for slot in mine[row]]
                rated[place] += node_score(each, want.amounts, scoring)
        return rated

    def normalise(self, query: DeviceQuery, raw: Floats, rows: RowArray) -> Floats:
        """So that the best node has 100."""
        return np.array(normalised(raw.astype(np.int64).tolist()), np.float64)
