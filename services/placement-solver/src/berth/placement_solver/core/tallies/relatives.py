"""How many pods of one `network-topology-selector` are on each node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.contracts.state import Pod, PodTemplate
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Charge
from berth.placement_solver.core.tallies.row_counts import RowCounts

Ints = npt.NDArray[np.int64]


class Relatives:
    """A tally by the text of the annotation, over pods that are decided or bound, and those that are tried."""

    counts_kept = False

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._counts: dict[str, RowCounts] = {}

    def apply(self, charge: Charge, sign: int) -> None:
        """See `Tally`."""
        text = _text(charge.pod)
        if not text:
            return
        counts = self._counts.setdefault(text, RowCounts())
        counts.add(charge.row, sign)
        if sign < 0 and not counts.amounts.any():
            del self._counts[text]

    def tells_apart(self, before: Pod | None, now: Pod | None) -> bool:
        """See `PodTally`."""
        return _text(before) != _text(now)

    def counts(self, template: PodTemplate) -> Ints:
        """How many relatives of such a pod each row has."""
        found = self._counts.get(selector_of(template))
        return np.zeros(len(self._nodes), np.int64) if found is None else found.dense(len(self._nodes))


def selector_of(template: PodTemplate) -> str:
    """What its relatives say as well; empty: it has none."""
    return template.annotations.get(names.ANNOTATION_TOPOLOGY_SELECTOR, "")


def _text(pod: Pod | None) -> str:
    return "" if pod is None else selector_of(pod.template)
