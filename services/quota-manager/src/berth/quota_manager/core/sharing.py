"""One level of a quota tree, one resource: what each child may use now, and what is left of its minimum.

This is the arithmetic of Koordinator elastic quota in its exact form: integers only, shares by largest remainder, ties
to the smaller name. It knows nothing of trees, pods or several resources; `engine` and `solve` call it level by level.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Child(NamedTuple):
    """What one child brings to the level, all in the unit of the resource."""

    name: str
    weight: int
    request: int
    """What the child asks for, already cut to its max."""
    minimum: int
    """The effective (perhaps scaled) min."""
    guarantee: int = 0
    lends: bool = True

    @property
    def floor(self) -> int:
        """What the child keeps whatever its siblings ask for, if it asks for that much itself."""
        return self.minimum if self.minimum > self.guarantee else self.guarantee


def share(total: int, children: Iterable[Child]) -> dict[str, int]:
    """The runtime of every child, by name.

    A child that asks for more than its floor gets the floor and joins the hungry ones; a lending child that asks for
    less gets what it asks for. What is left of `total` goes to the hungry by weight; what a child has no use for is
    shared again. Nothing is taken back when the floors alone exceed `total`.
    """
    runtime: dict[str, int] = {}
    hungry: list[Child] = []
    left = total
    for child in children:
        floor = child.floor
        if child.request > floor:
            hungry.append(child)
            granted = floor
        else:
            granted = child.request if child.lends else floor
        runtime[child.name] = granted
        left -= granted
    while left > 0 and hungry:
        left, hungry = _spread(left, hungry, runtime)
    return runtime


def largest_remainder(amount: int, weights: Sequence[tuple[str, int]]) -> dict[str, int]:
    """`amount` split in proportion to the weights, exactly; names with a weight of 0 or less get nothing.

    The units that rounding down leaves over go one each to the largest remainders, ties to the smaller name.
    """
    total_weight = sum(weight for _, weight in weights)
    if total_weight <= 0 or amount <= 0:
        return {}
    parts: dict[str, int] = {}
    remainders: list[tuple[int, str]] = []
    for name, weight in weights:
        if weight > 0:
            parts[name], remainder = divmod(weight * amount, total_weight)
            remainders.append((-remainder, name))
    missing = amount - sum(parts.values())
    if missing > 0:
        remainders.sort()
        for _, name in remainders[:missing]:
            parts[name] += 1
    return parts


def effective_minimum(total: int, minimum: int, *, scalable_sum: int, fixed_sum: int) -> int:
    """The min of a scalable child: in proportion, rounded down, where the mins of its level exceed the parent's total.

    `scalable_sum` and `fixed_sum` are the sums of the mins of the level's scalable and fixed children.
    """
    if total >= scalable_sum + fixed_sum:
        return minimum
    rest = total - fixed_sum
    if rest <= 0 or scalable_sum <= 0:
        return 0
    return rest * minimum // scalable_sum


def _spread(left: int, hungry: list[Child], runtime: dict[str, int]) -> tuple[int, list[Child]]:
    """One round: adds the shares to `runtime`; returns the surplus of the children that are full, and the others."""
    parts = largest_remainder(left, [(child.name, child.weight) for child in hungry])
    if not parts:
        return 0, []
    surplus = 0
    still_hungry: list[Child] = []
    for child in hungry:
        granted = runtime[child.name] + parts.get(child.name, 0)
        if granted < child.request:
            still_hungry.append(child)
        else:
            surplus += granted - child.request
            granted = child.request
        runtime[child.name] = granted
    return surplus, still_hungry
