"""What pods count for in scores beyond their requests, per node: the sums that resource scores add to the columns.

A container without a cpu or memory request counts 100m or 200 MiB in scores (`PodTemplate.scored`). Only the surplus
over the request is summed here, so that a pod that names its requests costs nothing, and reservations, which have no
containers, count in scores as they do in the columns. Plain sums of devices are kept, too, which the columns have by
minor only.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from berth.contracts import names
from berth.contracts.state import Pod, PodTemplate
from berth.placement_solver.core.nodes import AMOUNT_MAX, DEVICE_NAMES, Ints, Nodes
from berth.placement_solver.core.seams import Charge, RowArray
from berth.transaction.claims import Claim

COLUMNS: Final = (names.CPU, names.MEMORY)
NOTHING: Final = (0, 0)


class ScoredTally:
    """`surplus` of cpu and memory by node row."""

    counts_kept = True

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._surplus: Ints = np.zeros((len(COLUMNS), 0), np.int64)
        self._devices: dict[str, Ints] = {}

    def apply(self, charge: Charge, sign: int) -> None:
        """See `Tally`."""
        claim, pod = charge.claim, charge.pod
        if claim.grants or claim.unreadable:
            self._apply_devices(claim, charge.row, sign)
        if pod is None or not pod.template.scored:
            return
        self._widen()
        for column, amount in enumerate(surplus_of(pod.template)):
            self._surplus[column, charge.row] += sign * amount
        self._nodes.touched.add(charge.row)

    def tells_apart(self, before: Pod | None, now: Pod | None) -> bool:
        """See `PodTally`."""
        return _surplus(before) != _surplus(now)

    def surplus(self, resource: str, rows: RowArray) -> Ints:
        """What the pods there count for beyond their requests."""
        if resource not in COLUMNS:
            return np.zeros(rows.shape, np.int64)
        self._widen()
        sums: Ints = self._surplus[COLUMNS.index(resource), rows]
        return sums

    def of_devices(self, resource: str, rows: RowArray) -> Ints:
        """The plain sum of what the pods there request of a device resource."""
        sums = self._devices.get(resource)
        if sums is None:
            return np.zeros(rows.shape, np.int64)
        if sums.shape[0] < len(self._nodes):
            sums = self._devices[resource] = _widened(sums, len(self._nodes))
        return sums[rows]

    def _apply_devices(self, claim: Claim, row: int, sign: int) -> None:
        for resource, amount in claim.amounts.items():
            if resource not in DEVICE_NAMES:
                continue
            sums = self._devices.get(resource)
            if sums is None or sums.shape[0] <= row:
                sums = self._devices[resource] = _widened(sums, max(2 * row, len(self._nodes)) + 1)
            sums[row] += sign * min(amount, AMOUNT_MAX)

    def _widen(self) -> None:
        known = self._surplus.shape[1]
        if known < len(self._nodes):
            self._surplus = np.pad(self._surplus, ((0, 0), (0, 2 * len(self._nodes) - known)))


def _surplus(pod: Pod | None) -> tuple[int, int]:
    return NOTHING if pod is None else surplus_of(pod.template)


def surplus_of(template: PodTemplate) -> tuple[int, int]:
    """What a pod that is there counts for beyond its requests.

    Less than them it never counts: the node's sums, unlike the pod's own score, honour requests of the pod level. Until
    the pod is shown as bound one that has such requests may count for too much.
    """
    if not template.scored:
        return NOTHING
    cpu, memory = (
        min(max(0, template.scored.get(name, 0) - template.requests.get(name, 0)), AMOUNT_MAX) for name in COLUMNS
    )
    return cpu, memory


def _widened(sums: Ints | None, length: int) -> Ints:
    return np.zeros(length, np.int64) if sums is None else np.pad(sums, (0, max(0, length - sums.shape[0])))
