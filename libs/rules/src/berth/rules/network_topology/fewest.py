"""The plan that uses the fewest domains: first of the top layer, then of the next one, down to the nodes.

A dynamic programme over the tree. For each domain and each number of pods in it, it knows the least cost, where a
domain of a layer costs more than all domains of the layers below together. A bound by the largest domains of each
layer leaves out candidates that cannot be better than what is known already.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from berth.rules.network_topology.capacity import rounded
from berth.rules.network_topology.distribute import Ground
from berth.rules.network_topology.order import in_order
from berth.rules.network_topology.procedure import Counts, Wanted

Costs = npt.NDArray[Any]
"""By the number of pods from 0 on; integers, of Python where 64 bits are too few."""

WORK_MAX: Final = 1 << 25
"""How many numbers are worked out at most; a larger instance keeps the best plan found so far."""
_BITS: Final = 61


class Fewest(NamedTuple):
    """A plan, None where there is none; `is_proven`: none uses fewer domains (and none is possible, where it is
    None)."""

    counts: Counts | None
    is_proven: bool = True


class TooMuchError(Exception):
    """The instance takes more work than is allowed."""


class Search:
    """Looks for the plan of fewest domains of one job. The slots of the ground are those that the multiples leave."""

    def __init__(self, ground: Ground, wanted: Wanted, work_max: int = WORK_MAX) -> None:
        self._ground = ground
        self._tree = tree = ground.tree
        self._pods = wanted.pods
        self._top = tree.level_of(wanted.must_layer)
        self._multiples = [wanted.multiples.get(each.layer, 1) for each in tree.levels]
        self._is_free = all(each <= 1 for each in self._multiples)
        base = wanted.pods + 1
        self._type: Any = np.int64 if base ** max(1, tree.depth) < 1 << _BITS else object
        self._weights: list[int] = [0, *(base ** (tree.depth - at) for at in range(1, tree.depth + 1))]
        self._none: int = base**tree.depth
        self._left = work_max
        self._known: dict[tuple[int, int], Costs] = {}

    def cost(self, counts: Counts) -> int:
        """The cost of a plan: the domains it uses, by layer."""
        used = np.array(sorted({node for node, _ in counts}), np.int64)
        total = 0
        for at in range(self._tree.depth, 0, -1):
            total += self._weights[at] * used.size
            used = np.unique(self._tree.levels[at].parents[used])
        return total

    def holds(self, counts: Counts) -> bool:
        """Whether a plan has all pods, and their multiples in every layer."""
        amounts = np.zeros(len(self._tree.nodes), np.int64)
        for node, count in counts:
            amounts[node] += count
        sums = self._tree.sums(amounts)
        return int(sums[0][0]) == self._pods and all(
            not (level % multiple).any() for level, multiple in zip(sums, self._multiples, strict=True)
        )

    def better_than(self, start: Counts | None) -> Fewest:
        """The best plan; `start` itself where none uses fewer domains than that does. It has to hold."""
        best = self.cost(start) if start is not None else self._none
        if self._top is None or any(self._pods % each for each in self._multiples):
            return Fewest(None)
        found: tuple[int, int] | None = None
        try:
            for level in range(self._tree.depth, self._top - 1, -1):
                for domain, least in self._candidates(level):
                    if least >= best:
                        break
                    cost = self._within(level, domain)
                    if cost < best:
                        best, found = cost, (level, domain)
                if best < self._above(level) + (self._weights[level] if level else self._none):
                    break  # one domain of this layer does it: whatever needs more of them is worse
        except TooMuchError:
            return Fewest(start if found is None else self._traced(*found), is_proven=False)
        return Fewest(start if found is None else self._traced(*found))

    def _above(self, level: int) -> int:
        """What a plan within one domain of this level costs down to it."""
        return sum(self._weights[: level + 1])

    def _candidates(self, level: int) -> list[tuple[int, int]]:
        """The domains of a level that may take all pods, with what that costs at least, cheapest first."""
        slots = self._ground.slots[level]
        able = np.flatnonzero(slots >= self._pods)
        ground = self._ground
        ordered = in_order(
            self._tree,
            level,
            able,
            existing=ground.existing,
            slots=ground.slots,
            score=ground.score,
            fewest_first=True,
        )
        found = zip(ordered.tolist(), self._least(level, ordered), strict=True)
        return sorted(found, key=lambda each: each[1])

    def _least(self, level: int, domains: npt.NDArray[np.int64]) -> list[int]:
        """What all pods within each of the domains cost at least: the largest domains of each layer below, of any
        parent. Those that have as many below are looked at together."""
        costs = [self._above(level)] * domains.size
        for below in range(level + 1, self._tree.depth + 1):
            starts, ends = self._tree.spans(level, domains, below)
            sizes = ends - starts
            for size in np.unique(sizes).tolist():
                alike = np.flatnonzero(sizes == size)
                slots = self._ground.slots[below][starts[alike, None] + np.arange(size)]
                reach = np.cumsum(np.sort(slots, axis=1)[:, ::-1], axis=1)
                numbers = np.minimum(np.count_nonzero(reach < self._pods, axis=1) + 1, size)
                for at, number in zip(alike.tolist(), numbers.tolist(), strict=True):
                    costs[at] += self._weights[below] * number
        return costs

    def _within(self, level: int, domain: int) -> int:
        """The least cost of all pods within one domain, that of the domain and those above it included."""
        if level == self._tree.depth:
            return self._above(level)
        cost: int = self._above(level) + int(self._costs(level, domain)[self._pods])
        return min(self._none, cost)

    # --- the programme -----------------------------------------------------------------------------------------------

    def _costs(self, level: int, domain: int) -> Costs:
        """The least cost below a domain by the number of pods in it; without multiples, of that many or more."""
        known = self._known.get((level, domain))
        if known is None:
            if level + 1 == self._tree.depth:
                known = self._costs_of_nodes(level, domain)
            else:
                known = self._stages(level, domain)[-1]
            self._known[level, domain] = known
        return known

    def _costs_of_nodes(self, level: int, domain: int) -> Costs:
        slots = np.sort(self._ground.slots[level + 1][self._tree.span(level, domain, level + 1)])[::-1]
        self._spend(self._pods)
        reach = np.cumsum(slots)
        pods = np.arange(self._pods + 1)
        costs: Costs = (np.searchsorted(reach, pods) + 1).astype(self._type) * self._weights[level + 1]
        costs[pods > (reach[-1] if reach.size else 0)] = self._none
        costs[0] = 0
        node, own = self._multiples[level + 1], self._multiples[level]
        costs[(pods % node != 0) | (pods % own != 0)] = self._none
        return costs

    def _stages(self, level: int, domain: int) -> list[Costs]:
        """What the first children cost together, one child more each time; the whole domain at the end."""
        costs = np.full(self._pods + 1, self._none, self._type)
        costs[0] = 0
        stages = [costs]
        for child in self._children(level, domain):
            costs = costs.copy()
            before = stages[-1]
            for pods, cost in self._offers(level + 1, child):
                self._spend(self._pods)
                np.minimum(costs[pods:], before[: self._pods + 1 - pods] + cost, out=costs[pods:])
                if self._is_free:
                    np.minimum(costs[:pods], before[0] + cost, out=costs[:pods])
            np.minimum(costs, self._none, out=costs)
            stages.append(costs)
        own = self._multiples[level]
        if own > 1:
            last = stages[-1].copy()
            last[np.arange(self._pods + 1) % own != 0] = self._none
            stages.append(last)
        return stages

    def _children(self, level: int, domain: int) -> list[int]:
        """Those that take some pods; who comes last is traced first."""
        children = self._ordered(level + 1, self._tree.children(level, domain))
        return [each for each in reversed(children) if self._ground.slots[level + 1][each] > 0]

    def _ordered(self, level: int, domains: npt.NDArray[np.int64]) -> list[int]:
        ground = self._ground
        ordered = in_order(
            self._tree,
            level,
            domains,
            existing=ground.existing,
            slots=ground.slots,
            score=ground.score,
            fewest_first=False,
        )
        return [int(each) for each in ordered]

    def _offers(self, level: int, domain: int) -> list[tuple[int, Any]]:
        """Numbers of pods that a domain may be given with their cost, its own included; without multiples only the
        greatest number at each cost."""
        costs = self._costs(level, domain)
        can = costs < self._none
        can[0] = False
        if self._is_free:
            can[:-1] &= (costs[1:] > costs[:-1]).astype(np.bool_)
        return [(int(pods), costs[pods] + self._weights[level]) for pods in np.flatnonzero(can)]

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise TooMuchError

    # --- the plan behind a cost --------------------------------------------------------------------------------------

    def _traced(self, level: int, domain: int) -> Counts:
        counts: Counts = []
        self._left = max(self._left, WORK_MAX)  # what was worked out once may be again
        self._trace(level, domain, self._pods, counts)
        return counts

    def _trace(self, level: int, domain: int, pods: int, counts: Counts) -> None:
        """Give so many pods to the nodes of a domain as its cost says."""
        if pods <= 0:
            return
        if level == self._tree.depth:
            counts.append((domain, pods))
            return
        if level + 1 == self._tree.depth:
            self._fill(level, domain, pods, counts)
            return
        stages = self._stages(level, domain)
        children = self._children(level, domain)
        del stages[len(children) + 1 :]
        for at in range(len(children), 0, -1):
            cost, before = stages[at][pods], stages[at - 1]
            if before[pods] == cost:
                continue
            for given, price in self._offers(level + 1, children[at - 1]):
                rest = pods - given
                if rest < 0 and not self._is_free:
                    continue
                if before[max(0, rest)] + price == cost:
                    self._trace(level + 1, children[at - 1], min(given, pods), counts)
                    pods = max(0, rest)
                    break

    def _fill(self, level: int, domain: int, pods: int, counts: Counts) -> None:
        """The nodes with most slots first: as few as will do."""
        multiple = self._multiples[level + 1]
        nodes = self._tree.children(level, domain)
        slots = rounded(self._ground.slots[level + 1], multiple)
        ordered = self._ordered(level + 1, nodes)
        ordered.sort(key=lambda node: -int(slots[node]))
        for node in ordered:
            given = min(int(slots[node]), pods)
            if given <= 0:
                return
            counts.append((node, given))
            pods -= given
