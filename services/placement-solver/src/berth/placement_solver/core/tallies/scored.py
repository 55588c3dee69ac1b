"""What pods count for in scores beyond their requests, per node: the sums that resource scores add to the columns.

A container without a cpu or memory request counts 100m or 200 MiB in scores (`PodTemplate.scored`). Only the surplus
over the request is summed here, so that a pod that names its requests costs nothing, and reservations, which have no
containers, count in scores as they do in the columns. Plain sums of devices are kept, too, which the columns have by
minor only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from berth.contracts import names
from berth.contracts.state import Pod, PodTemplate
from berth.placement_solver.core.nodes import AMOUNT_MAX, DEVICE_NAMES, Ints, Nodes
from berth.placement_solver.core.seams import RowArray
from berth.transaction.claims import Claim, Name

COLUMNS: Final = (names.CPU, names.MEMORY)
NOTHING: Final = (0, 0)


class _Charge(NamedTuple):
    row: int
    surplus: tuple[int, int]


class ScoredTally:
    """`surplus` of cpu and memory by node row. `objects` shows the pod of a name, as it is now."""

    counts_kept = True

    def __init__(self, nodes: Nodes, objects: Callable[[Name], Pod | None]) -> None:
        self._nodes = nodes
        self._objects = objects
        self._surplus: Ints = np.zeros((len(COLUMNS), 0), np.int64)
        self._devices: dict[str, Ints] = {}
        self._charged: dict[tuple[Name, str], list[_Charge]] = {}

    def apply(self, claim: Claim, sign: int) -> None:
        """Charge (1) or give back (-1) a claim; what was charged is given back, whatever the pod says by then."""
        if claim.is_reservation:
            return
        if claim.grants or claim.unreadable:
            self._apply_devices(claim, sign)
        key = (claim.name, claim.uid)
        row = self._nodes.row(claim.node)
        if sign > 0:
            pod = self._objects(claim.name)
            charge = _Charge(row, NOTHING if pod is None or pod.uid != claim.uid else surplus_of(pod.template))
            self._charged.setdefault(key, []).append(charge)
            self._add(charge, 1)
        elif (held := self._charged.get(key)) is not None:
            charge = next((each for each in reversed(held) if each.row == row), held[-1])
            held.remove(charge)
            if not held:
                del self._charged[key]
            self._add(charge, -1)

    def see(self, name: Name, pod: Pod) -> None:
        """A pod is shown, perhaps after its claim, or says something else than it did when that was charged."""
        held = self._charged.get((name, pod.uid))
        surplus = surplus_of(pod.template) if held is not None else NOTHING
        for at, charge in enumerate(held or ()):
            if charge.surplus != surplus and held is not None:
                self._add(charge, -1)
                held[at] = _Charge(charge.row, surplus)
                self._add(held[at], 1)
                self._nodes.touched.add(charge.row)

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

    def _apply_devices(self, claim: Claim, sign: int) -> None:
        row = self._nodes.row(claim.node)
        for resource, amount in claim.amounts.items():
            if resource not in DEVICE_NAMES:
                continue
            sums = self._devices.get(resource)
            if sums is None or sums.shape[0] <= row:
                sums = self._devices[resource] = _widened(sums, max(2 * row, len(self._nodes)) + 1)
            sums[row] += sign * min(amount, AMOUNT_MAX)

    def _add(self, charge: _Charge, sign: int) -> None:
        if charge.surplus == NOTHING:
            return
        self._widen()
        for column, amount in enumerate(charge.surplus):
            self._surplus[column, charge.row] += sign * amount

    def _widen(self) -> None:
        known = self._surplus.shape[1]
        if known < len(self._nodes):
            self._surplus = np.pad(self._surplus, ((0, 0), (0, 2 * len(self._nodes) - known)))


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
