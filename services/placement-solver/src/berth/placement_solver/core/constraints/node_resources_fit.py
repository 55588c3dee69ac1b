"""NodeResourcesFit: a node has what the pod asks for free, and a place for one more pod.

Resources that are given out device by device are the business of `device_share`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.placement_solver.core.nodes import AMOUNT_MAX, DEVICE_NAMES, PODS, Nodes
from berth.placement_solver.core.seams import (
    Depends,
    Floats,
    Lacking,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
)
from berth.placement_solver.core.words import amounts_listed, listed
from berth.resources.amounts import Amounts
from berth.rules.node_fit import TOO_MANY_PODS, in_order, is_extended_resource, is_ignored
from berth.rules.scheduler_config import FitArgs
from berth.transaction.claims import Claim

REQUEST_MAX = 1 << 62


class Demand(NamedTuple):
    """Amounts above zero by resource, in the order in which they are reported; `wants` are (column, amount) pairs."""

    amounts: Amounts
    wants: tuple[tuple[int, int], ...]

    @property
    def columns(self) -> npt.NDArray[np.intp]:
        """The columns of the resources."""
        return np.array([column for column, _ in self.wants], np.intp)


class NodeResourcesFit:
    """The query is the demand; a pod that asks for nothing takes a place all the same."""

    name = "NodeResourcesFit"
    depends = Depends.CAPACITY
    exact = True

    def __init__(self, nodes: Nodes, args: FitArgs | None = None) -> None:
        self._nodes = nodes
        self._ignored = frozenset(args.ignored_resources if args else ())
        self._ignored_groups = frozenset(args.ignored_resource_groups if args else ())

    def prefilter(self, spec: Spec) -> Demand:
        """See `Constraint`."""
        requests = spec.template.requests
        plain = {name: requests[name] for name in in_order(requests) if requests[name] > 0 and is_plain(name)}
        if self._ignored or self._ignored_groups:
            plain = {name: amount for name, amount in plain.items() if not self._is_ignored(name)}
        wants = tuple((self._nodes.column(name), min(amount, REQUEST_MAX)) for name, amount in plain.items())
        return Demand(plain, wants)

    def mask(self, query: Demand, rows: Rows) -> Mask:
        """See `Constraint`."""
        free = self._nodes.free
        fits: Mask = free[PODS, rows] >= 1
        for column, amount in query.wants:
            fits &= free[column, rows] >= amount
        return fits

    def admits(self, query: Demand, row: int) -> bool:
        """See `Constraint`."""
        free = self._nodes.free[:, row].tolist()
        if free[PODS] < 1:
            return False
        for column, amount in query.wants:  # noqa: SIM110 - hot
            if free[column] < amount:
                return False
        return True

    def filter(self, query: Demand, target: Target) -> Rejection | None:
        """See `Constraint`."""
        nodes, row = self._nodes, target.row
        gone, there = target.hypothesis
        slots = int(nodes.free[PODS, row]) + _slots(gone) - _slots(there)
        reasons = [TOO_MANY_PODS] if slots < 1 else []
        lacking: dict[str, int] = {}
        resolvable = True
        for (column, amount), name in zip(query.wants, query.amounts, strict=True):
            free = int(nodes.free[column, row]) + _sum(gone, name) - _sum(there, name)
            if amount > free:
                reasons.append(f"Insufficient {name}")
                lacking[name] = amount - free
                resolvable = resolvable and amount <= int(nodes.allocatable[column, row])
        return Rejection(tuple(reasons), resolvable, lacking) if reasons else None

    def rejections(self, query: Demand, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        nodes = self._nodes
        beyond = np.zeros(rows.shape, np.bool_)
        for column, amount in query.wants:
            beyond |= nodes.allocatable[column, rows] < amount
        short = {TOO_MANY_PODS: nodes.free[PODS, rows] < 1}
        for (column, amount), name in zip(query.wants, query.amounts, strict=True):
            short[f"Insufficient {name}"] = nodes.free[column, rows] < amount
        return [
            Rejected(reason, mask & part, resolvable)
            for reason, mask in short.items()
            for part, resolvable in ((~beyond, True), (beyond, False))
        ]

    def distance(self, query: Demand, rows: RowArray, counts: RowArray) -> Floats:
        """See `Freeable`."""
        nodes = self._nodes
        able: Mask = nodes.allocatable[PODS, rows] >= counts
        distance = (nodes.free[PODS, rows] < counts).astype(np.float64)
        for column, amount in query.wants:
            whole = float(amount) * counts
            able &= nodes.allocatable[column, rows] >= whole
            distance += np.maximum(whole - nodes.free[column, rows], 0.0) / whole
        return np.where(able, distance, np.inf)

    def lacking(self, query: Demand, row: int, count: int) -> Lacking:
        """See `Freeable`."""
        free = self._free(query, row)
        missing = {name: count * amount - free[name] for name, amount in query.amounts.items()}
        amounts = {name: amount for name, amount in missing.items() if amount > 0}
        slots = max(0, count - int(self._nodes.free[PODS, row]))
        less = not slots and all(amount < query.amounts[name] for name, amount in amounts.items())
        things = ("1 pod slot" if slots == 1 else f"{slots} pod slots",) if slots else ()
        return Lacking(amounts, things, "that much less" if less else "")

    def shares_node(self, query: Demand) -> bool:
        """See `Freeable`."""
        return True

    def part(self, query: Demand, rows: RowArray) -> Floats:
        """See `Reducible`."""
        free = self._nodes.free
        part = np.ones(rows.size)
        for column, amount in zip((column for column, _ in query.wants), query.amounts.values(), strict=True):
            part = np.minimum(part, free[column, rows] / amount)
        part[free[PODS, rows] < 1] = 0.0
        return part

    def at_most(self, query: Demand, row: int) -> str:
        """See `Reducible`."""
        free = self._free(query, row)
        less = {name: free[name] for name, amount in query.amounts.items() if free[name] < amount}
        return listed(amounts_listed(less)) if less else ""

    def _free(self, query: Demand, row: int) -> dict[str, int]:
        """May be negative on a node that is over-committed."""
        columns = (column for column, _ in query.wants)
        return {name: int(self._nodes.free[column, row]) for name, column in zip(query.amounts, columns, strict=True)}

    def _is_ignored(self, name: str) -> bool:
        return is_ignored(name, self._ignored) or (
            is_extended_resource(name) and name.partition("/")[0] in self._ignored_groups
        )


def is_plain(name: str) -> bool:
    """Whether the sum over a node says all about a resource."""
    return name not in DEVICE_NAMES and name != names.PODS


def _sum(claims: tuple[Claim, ...], name: str) -> int:
    return sum(min(claim.amounts.get(name, 0), AMOUNT_MAX) for claim in claims)


def _slots(claims: tuple[Claim, ...]) -> int:
    return sum(1 for claim in claims if not claim.is_reservation)
