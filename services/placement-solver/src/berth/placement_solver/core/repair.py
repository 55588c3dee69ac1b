"""What a user can do so that a pod fits: of all nodes the one where the least is missing, and exactly what is missing.

A repair is true as it stands: free what it names on that node, or ask for what it says, and the pod fits there. So it
never asks for more to be freed than the node has, and names everything that is missing at once. It does not look for
the pods whose leaving would do least harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.devices import NoCapacity, Slot, Want, allocate, charge, fill_memory, offers_of
from berth.placement_solver.core.nodes import PODS, Nodes
from berth.resources.amounts import Amounts, format_amount

NODES_TRIED_MAX: Final = 8
"""How many of the nearest nodes are looked at exactly."""
WAIT: Final = "none is needed; if this lasts, see whether device-inventory and cluster-watcher work"
"""For who may fit once devices are counted."""

Rows = npt.NDArray[np.intp]


class _Missing(NamedTuple):
    """What one node lacks: amounts, pod slots, devices and a host port in words; `cards` if devices are whole."""

    amounts: Amounts
    slots: int = 0
    devices: Sequence[str] = ()
    cards: int = 0
    port: str = ""


def capacity_repair(cls: PodClass, nodes: Nodes, rows: Rows) -> str:
    """How one pod of a class would fit on one of these rows, all of which suit the class."""
    if _waits_for_count(cls, nodes, rows):
        return WAIT
    for row in _nearest(cls, nodes, rows, np.ones_like(rows)):
        missing = _missing(cls, nodes, row, 1)
        if missing is not None:
            return _free(missing, nodes.names[row]) + _or_ask(cls, missing)
    return _ask_for_less(cls, nodes, rows) or "add a node with capacity for it"


def group_repair(cls: PodClass, nodes: Nodes, placed: Mapping[int, int], lacking: int) -> str:
    """How all pods of a group of this class would fit: `placed` have found capacity on these rows, `lacking` have not.

    The capacity must be as it is without them all.
    """
    rows = np.flatnonzero(cls.suitable[: len(nodes)])
    if _waits_for_count(cls, nodes, rows):
        return WAIT
    counts = np.array([lacking + placed.get(int(row), 0) for row in rows], np.intp)
    # Pods with the same host port never share a node.
    for row in _nearest(cls, nodes, rows, counts) if not cls.template.host_ports else ():
        missing = _missing(cls, nodes, row, lacking + placed.get(row, 0))
        if missing is not None:
            return _free(missing, nodes.names[row])
    return f"add nodes with capacity for {lacking} such pods"


def _waits_for_count(cls: PodClass, nodes: Nodes, rows: Rows) -> bool:
    """Whether a node whose devices are not counted yet has all else that a pod of the class asks for."""
    rows = rows[nodes.uncounted[rows]]
    if cls.want is None or not rows.size:
        return False
    has_capacity = nodes.free[PODS, rows] >= 1
    for column, amount in cls.demand.wants:
        has_capacity &= nodes.free[column, rows] >= amount
    return bool(has_capacity.any())


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def amounts_listed(amounts: Amounts) -> list[str]:
    """`2 cpu`, `1Gi memory`, ..."""
    return [f"{format_amount(name, amount)} {name}" for name, amount in amounts.items()]


def _nearest(cls: PodClass, nodes: Nodes, rows: Rows, counts: Rows) -> list[int]:
    """Rows that could hold so many pods if they were empty; those of which the smallest part has to be freed first."""
    slots = nodes.columns[names.PODS]
    able = nodes.allocatable[slots, rows] >= counts
    distance = (nodes.free[slots, rows] < counts).astype(np.float64)
    for column, amount in cls.demand.wants:
        whole = float(amount) * counts
        able &= nodes.allocatable[column, rows] >= whole
        distance += np.maximum(whole - nodes.free[column, rows], 0.0) / whole
    if cls.want is not None:
        able &= nodes.gpu_count[rows] >= cls.want.instances
        ready = np.count_nonzero(nodes.fleet.candidates(cls.want, rows), axis=0)
        distance += np.maximum(counts * cls.want.instances - ready, 0) / cls.want.instances
        distance += 1000.0 * (nodes.unreadable[rows] > 0)
    found = np.flatnonzero(able)
    return [int(rows[each]) for each in found[np.argsort(distance[found], kind="stable")][:NODES_TRIED_MAX]]


def _missing(cls: PodClass, nodes: Nodes, row: int, count: int) -> _Missing | None:
    """What a node lacks that could hold the pods if it were empty; None when its devices cannot be made to do."""
    amounts = {name: count * amount - _free_of(name, nodes, row) for name, amount in cls.demand.amounts.items()}
    devices: list[str] = []
    cards = 0
    if cls.want is not None:
        found = _devices(nodes.slots[row], cls.want, count)
        if found is None:
            return None
        cards, devices = found
        if nodes.unreadable[row]:
            devices.append("the GPUs of pods that do not say which")
        if nodes.unreadable[row] or cls.want.shared:
            cards = 0
    taken = nodes.ports[row].conflict(cls.template.host_ports) if cls.template.host_ports else None
    return _Missing(
        amounts={name: amount for name, amount in amounts.items() if amount > 0},
        slots=max(0, count - _free_of(names.PODS, nodes, row)),
        devices=devices,
        cards=cards,
        port=f"host port {taken.protocol or 'TCP'} {taken.port}" if taken is not None else "",
    )


def _free_of(name: str, nodes: Nodes, row: int) -> int:
    """May be negative on a node that is over-committed."""
    return int(nodes.free[nodes.columns[name], row])


# --- devices ---------------------------------------------------------------------------------------------------------


def _devices(slots: Sequence[Slot], want: Want, count: int) -> tuple[int, list[str]] | None:
    """How many devices to free, the least used first, and in words which (part); None: not even all would do."""
    freed: dict[int, Slot] = {}
    waiting = sorted(_useful(slots, want, count), key=_used_part)
    while not _serve([freed.get(slot.minor, slot) for slot in slots], want, count):
        if not waiting:
            return None
        slot = waiting.pop(0)
        freed[slot.minor] = slot._replace(used=want.family.zero)
    mine = [slot for slot in slots if slot.minor in freed]
    parts = [_part(slot, want, count) for slot in mine]
    whole = [slot.minor for slot, part in zip(mine, parts, strict=True) if not part]
    shares = [f"{part} % of GPU {slot.minor}" for slot, part in zip(mine, parts, strict=True) if part]
    cards = [f"GPU{'s' if len(whole) > 1 else ''} {' '.join(map(str, whole))}"] if whole else []
    return len(mine), shares + cards


def _useful(slots: Sequence[Slot], want: Want, count: int) -> list[Slot]:
    """Devices that would help if they were freed: they serve then, and do not now (or may serve several pods)."""
    emptied = offers_of([slot._replace(used=want.family.zero) for slot in slots], want)
    serving = offers_of(slots, want) if count == 1 else {}
    return [slot for slot in slots if slot.minor in emptied and slot.minor not in serving]


def _serve(slots: Sequence[Slot], want: Want, count: int) -> bool:
    for _ in range(count):
        grants = allocate(slots, want)
        if isinstance(grants, NoCapacity):
            return False
        slots = charge(slots, grants)
    return True


def _used_part(slot: Slot) -> tuple[float, int]:
    parts = (used / total for used, total in zip(slot.used, slot.total, strict=True) if total)
    return (max(parts, default=0.0), slot.minor)


def _part(slot: Slot, want: Want, count: int) -> int:
    """For one share the percentage of compute and memory that is missing; 0: the whole device has to be free."""
    filled = fill_memory(want.amounts, slot.total)
    if not want.shared or count > 1 or filled is None:
        return 0
    columns = zip(filled, slot.total, slot.used, strict=True)
    percent = max(-(-100 * (need + used - total) // total) for need, total, used in columns if need and total)
    return percent if 0 < percent < 100 else 0


# --- words -----------------------------------------------------------------------------------------------------------


def _free(missing: _Missing, node: str) -> str:
    parts = amounts_listed(missing.amounts)
    if missing.slots:
        parts.append("1 pod slot" if missing.slots == 1 else f"{missing.slots} pod slots")
    parts += missing.devices
    if missing.port:
        parts.append(missing.port)
    return f"free {listed(parts)} on node {node}" if parts else ""


def _or_ask(cls: PodClass, missing: _Missing) -> str:
    """The other way to the same end, where there is one: the pod asks for less."""
    if missing.slots or missing.port:
        return ""
    if not missing.devices and all(amount < cls.requests[name] for name, amount in missing.amounts.items()):
        return ", or ask for that much less"
    left = cls.want.instances - missing.cards if cls.want is not None and missing.cards else 0
    if left > 0 and not missing.amounts:
        return ", or ask for 1 GPU" if left == 1 else f", or ask for {left} GPUs"
    return ""


def _ask_for_less(cls: PodClass, nodes: Nodes, rows: Rows) -> str:
    """For a pod larger than any node: what one node has free, if nothing but amounts stands in the way there."""
    plain = cls.demand.amounts
    part = np.ones(rows.size)
    for name, amount in plain.items():
        free = nodes.free[nodes.columns[name], rows]
        part = np.minimum(part, free / amount)
    part[nodes.free[nodes.columns[names.PODS], rows] < 1] = 0.0
    if cls.want is not None:
        part[~nodes.fleet.fits(cls.want, rows) | (nodes.unreadable[rows] > 0)] = 0.0
    for each in np.argsort(-part, kind="stable")[:NODES_TRIED_MAX]:
        row = int(rows[each])
        if part[each] <= 0 or nodes.ports[row].conflict(cls.template.host_ports):
            continue
        free = {name: _free_of(name, nodes, row) for name, amount in plain.items()}
        less = {name: amount for name, amount in free.items() if amount < plain[name]}
        return f"ask for at most {listed(amounts_listed(less))}, which node {nodes.names[row]} has free" if less else ""
    return ""
