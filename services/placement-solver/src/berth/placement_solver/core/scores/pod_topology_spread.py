"""PodTopologySpread as a preference: nodes in whose domains fewer pods of the kind are."""

from __future__ import annotations

from typing import Final

import numpy as np

from berth.placement_solver.core.seams import Depends, Floats, Mask, RowArray, Spec
from berth.placement_solver.core.tallies.domains import EMPTY, NOWHERE
from berth.placement_solver.core.tallies.spreads import SpreadPod, Spreads
from berth.rules.topology_spread import HOSTNAME, SOFT

_MAX_SCORE: Final = 100


class PodTopologySpreadScore:
    """The query is a pod with soft constraints. A lower rating is better, and nodes that lack a key have none unless
    the constraints are the system's own."""

    name = "PodTopologySpread"
    depends = Depends.NODE | Depends.PEERS

    def __init__(self, spreads: Spreads) -> None:
        self._spreads = spreads

    def prescore(self, spec: Spec) -> SpreadPod | None:
        """See `Score`."""
        pod = self._spreads.of(spec, SOFT)
        return pod if pod is not None and pod.spread.soft else None

    def raw(self, query: SpreadPod, rows: RowArray) -> Floats:
        """See `Score`."""
        spreads, peer = self._spreads, query.incoming.peer
        rated = self._rated(query, rows)
        sums = np.zeros(len(rows))
        for constraint, counting in zip(query.spread.soft, query.for_soft.masks(), strict=True):
            domains = spreads.domains.of(constraint.key)
            counts = spreads.peers.counted(constraint, peer.namespace)
            has_key = domains.codes[rows] != NOWHERE
            if constraint.key == HOSTNAME:
                amounts = counts.dense(len(domains.codes))[rows]
                size = int(np.count_nonzero(rated))
            else:
                # A node without the key is in the domain of the empty value, as far as domains are counted.
                codes = np.maximum(domains.codes, EMPTY)
                counted = np.bincount(
                    codes[counts.rows], weights=counts.amounts * counting[counts.rows], minlength=domains.count
                )
                amounts = counted[codes[rows]]
                size = len(np.unique(codes[rows][rated]))
            weight = float(np.log(size + 2))
            sums += np.where(rated & has_key, amounts * weight + (constraint.max_skew - 1), 0.0)
        below = np.floor(sums)
        return below + (sums - below >= 0.5)

    def normalise(self, query: SpreadPod, raw: Floats, rows: RowArray) -> Floats:
        """See `Score`."""
        rated = self._rated(query, rows)
        if not rated.any():
            return np.zeros(len(rows))
        least, most = raw[rated].min(), raw[rated].max()
        scores = np.full(len(rows), float(_MAX_SCORE)) if most == 0 else _MAX_SCORE * (most + least - raw) // most
        return np.where(rated, scores, 0.0)

    def _rated(self, query: SpreadPod, rows: RowArray) -> Mask:
        found: Mask = query.for_soft.with_keys()[rows]
        return found
