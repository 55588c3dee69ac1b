"""How many pods of one `network-topology-selector` are on each node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.contracts.state import Pod, PodTemplate
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.tallies.row_counts import RowCounts
from berth.transaction.claims import Claim, Name

Ints = npt.NDArray[np.int64]


class Relatives:
    """A tally by the text of the annotation, over pods that are decided or bound, and those that are tried."""

    counts_kept = False

    def __init__(self, nodes: Nodes, objects: Callable[[Name], Pod | None]) -> None:
        self._nodes = nodes
        self._objects = objects
        self._counts: dict[str, RowCounts] = {}
        self._charged: dict[tuple[Name, str], list[tuple[str, int]]] = {}

    def apply(self, claim: Claim, sign: int) -> None:
        """See `Tally`. What was charged is given back, whatever the pod says by then."""
        if claim.is_reservation:
            return
        key, row = (claim.name, claim.uid), self._nodes.row(claim.node)
        if sign > 0:
            pod = self._objects(claim.name)
            text = selector_of(pod.template) if pod is not None and pod.uid == claim.uid else ""
            self._charged.setdefault(key, []).append((text, row))
            self._count(text, row, 1)
        elif (held := self._charged.get(key)) is not None:
            charge = next((each for each in reversed(held) if each[1] == row), held[-1])
            held.remove(charge)
            if not held:
                del self._charged[key]
            self._count(*charge, -1)

    def see(self, name: Name, pod: Pod) -> None:
        """A pod is shown, perhaps after its claim, or says something else than it did when that was charged."""
        held = self._charged.get((name, pod.uid), [])
        text = selector_of(pod.template) if held else ""
        for at, (before, row) in enumerate(held):
            if before != text:
                self._count(before, row, -1)
                self._count(text, row, 1)
                held[at] = (text, row)

    def counts(self, template: PodTemplate) -> Ints:
        """How many relatives of such a pod each row has."""
        found = self._counts.get(selector_of(template))
        return np.zeros(len(self._nodes), np.int64) if found is None else found.dense(len(self._nodes))

    def _count(self, text: str, row: int, sign: int) -> None:
        if not text:
            return
        counts = self._counts.setdefault(text, RowCounts())
        counts.add(row, sign)
        if sign < 0 and not counts.amounts.any():
            del self._counts[text]


def selector_of(template: PodTemplate) -> str:
    """What its relatives say as well; empty: it has none."""
    return template.annotations.get(names.ANNOTATION_TOPOLOGY_SELECTOR, "")
