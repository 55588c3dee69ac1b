"""What it costs that so many members find a place on a node, for all nodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from berth.rules.job_preemption.problem import Ints

Floats = npt.NDArray[np.float64]

EXACT_MAX: Final = 10
"""Of nodes with so many pods that might leave by themselves, every subset is looked at."""
ON_NODE_MAX: Final = 32
"""Members on one node, at most."""


class Rows:
    """Rows are nodes under some hypothesis: what is free there, and the pods that might leave by themselves."""

    def __init__(self, free: Ints, pods: Sequence[Sequence[int]], amounts: Ints, price: Floats, request: Ints) -> None:
        """`pods[row]` indexes `amounts` and `price`."""
        self._wanted = np.flatnonzero(request > 0)
        self._request = request[self._wanted]
        self._free = free[:, self._wanted]
        width = max((len(each) for each in pods), default=0)
        at = np.full((len(pods), width), -1, np.int64)
        for row, each in enumerate(pods):
            at[row, : len(each)] = each
        self._at = at
        self._amounts = np.concatenate([amounts[:, self._wanted], np.zeros((1, self._wanted.size), np.int64)])
        self._price = np.append(price, 0.0)

    def cost(self, most: int) -> Floats:
        """Rows x (0 to `most`) members: the price of who has to leave; inf where it cannot be done."""
        if not len(self._free):
            return np.zeros((0, most + 1))
        size = self._amounts[self._at] / np.maximum(self._request, 1)
        weight = size.max(axis=2, initial=0.0)
        price = self._price[self._at]
        cheap_last = np.argsort(-price, axis=1, kind="stable")
        found = self._greedy(most, cheap_last)
        if self._at.shape[1] > 1:
            dense_last = np.argsort(-price / np.maximum(weight, 1e-9), axis=1, kind="stable")
            found = np.minimum(found, self._greedy(most, dense_last))
        return found

    def leaving(self, row: int, count: int) -> list[int]:
        """Who leaves a row for so many members; the row has to be able to take them."""
        best: list[int] | None = None
        pods = [pod for pod in self._at[row].tolist() if pod >= 0]
        size = {pod: float((self._amounts[pod] / np.maximum(self._request, 1)).max(initial=0.0)) for pod in pods}
        everything = self._free[row] - count * self._request + self._amounts[pods].sum(axis=0)
        if np.any(everything < 0):
            raise ValueError(f"a node cannot take {count} members")
        for key in (lambda pod: -self._price[pod], lambda pod: -self._price[pod] / max(size[pod], 1e-9)):
            slack, gone = everything.copy(), []
            for pod in sorted(pods, key=key):
                left = slack - self._amounts[pod]
                if np.all(left >= 0):
                    slack = left
                else:
                    gone.append(pod)
            if best is None or self._price[gone].sum() < self._price[best].sum():
                best = gone
        if len(pods) <= EXACT_MAX:
            freed, price = np.zeros((1, self._wanted.size), np.int64), np.zeros(1)
            for pod in pods:
                freed = np.concatenate([freed, freed + self._amounts[pod]])
                price = np.concatenate([price, price + self._price[pod]])
            price[np.any(freed < count * self._request - self._free[row], axis=1)] = np.inf
            mask = int(price.argmin())
            if best is None or price[mask] < self._price[best].sum():
                best = [pod for at, pod in enumerate(pods) if mask >> at & 1]
        return best or []

    def _greedy(self, most: int, keep_order: Ints) -> Floats:
        """Everybody leaves; then each in this order stays if it can."""
        at = np.take_along_axis(self._at, keep_order, axis=1)
        counts = np.arange(most + 1)
        everything = self._free + self._amounts[self._at].sum(axis=1)
        slack = everything[:, None, :] - counts[None, :, None] * self._request
        cost = np.zeros(slack.shape[:2])
        cost[np.any(slack < 0, axis=2)] = np.inf
        for step in range(at.shape[1]):
            amounts = self._amounts[at[:, step]][:, None, :]
            can_stay = np.all(slack >= amounts, axis=2)
            slack -= amounts * can_stay[:, :, None]
            cost += np.where(can_stay, 0.0, self._price[at[:, step]][:, None])
        cost[:, 0] = 0.0
        return cost


def spread(cost: Floats, wanted: int, rows_max: int) -> tuple[float, Ints, float]:
    """How many members each row takes so that `wanted` find a place at least cost: what it costs, the counts, and what
    a member more or less makes. inf: there is no place for so many.

    The rows that are cheapest per member are looked at, `rows_max` or as many as hold three times as many members.
    """
    counts = np.zeros(len(cost), np.int64)
    if not wanted:
        return 0.0, counts, 0.0
    most = cost.shape[1] - 1
    holds = np.where(np.isfinite(cost), np.arange(most + 1), 0).max(axis=1, initial=0)
    ratio = (cost[:, 1:] / np.arange(1, most + 1)).min(axis=1, initial=np.inf)
    order = np.argsort(ratio, kind="stable")
    order = order[holds[order] > 0]
    held = np.cumsum(holds[order])
    if not held.size or held[-1] < wanted:
        return float("inf"), counts, float("inf")
    enough = int(np.searchsorted(held, 3 * wanted)) + 1
    order = order[: max(enough, min(rows_max, order.size))]
    best = np.full(wanted + 1, np.inf)
    best[0] = 0.0
    choice = np.zeros((order.size, wanted + 1), np.int16)
    shift = np.arange(wanted + 1)[None, :] - np.arange(most + 1)[:, None]
    shift = np.maximum(shift, 0)  # one that could take more takes what is left
    for at, row in enumerate(order.tolist()):
        several = best[shift] + cost[row][:, None]
        choice[at] = several.argmin(axis=0)
        best = several.min(axis=0)
    left = wanted
    for at in range(order.size - 1, -1, -1):
        count = min(int(choice[at, left]), left)
        counts[order[at]] = count
        left -= count
    step = min(wanted, 2 * most)
    return float(best[wanted]), counts, float(best[wanted] - best[wanted - step]) / step
