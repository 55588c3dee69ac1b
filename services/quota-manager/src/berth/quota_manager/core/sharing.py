"""One level of a quota tree, one resource: what each child may use now, and what is left of its minimum.

This is the arithmetic of Koordinator elastic quota in its exact form: integers only, shares by largest remainder, ties
to the smaller name. It knows nothing of trees, pods or several resources; `engine` and `solve` call it level by level.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

Row: TypeAlias = tuple[str, int, int, int, int, bool]
"""What one child brings to the level: name, weight, what it asks for (cut to its max), its effective (perhaps scaled)
min, its guarantee, and whether it lends. A plain tuple, since levels of thousands are worked out often."""


def share(total: int, children: Iterable[Row]) -> dict[str, int]:
    """The runtime of every child, by name.

    The floor of a child is the greater of its effective min and its guarantee. A child that asks for more gets the
    floor and joins the hungry ones; a lending child that asks for less gets what it asks for. What is left of `total`
    goes to the hungry by weight; what a child has no use for is shared again. Nothing is taken back when the floors
    alone exceed `total`.
    """
    runtime: dict[str, int] = {}
    requests: dict[str, int] = {}
    weights: dict[str, int] = {}
    left = total
    for name, weight, request, minimum, guarantee, lends in children:
        granted = minimum if minimum > guarantee else guarantee
        if request > granted:
            requests[name] = request
            weights[name] = weight
        elif lends:
            granted = request
        runtime[name] = granted
        left -= granted
    while left > 0 and weights:
        left = _spread(left, weights, requests, runtime)
    return runtime


def largest_remainder(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """`amount` split in proportion to the weights, exactly; names with a weight of 0 or less get nothing.

    The units that rounding down leaves over go one each to the largest remainders, ties to the smaller name.
    """
    total_weight = sum(weights.values())
    if total_weight <= 0 or amount <= 0:
        return {}
    parts: dict[str, int] = {}
    remainders: list[tuple[int, str]] = []
    missing = amount
    for name, weight in weights.items():
        if weight > 0:
            part, remainder = divmod(weight * amount, total_weight)
            parts[name] = part
            missing -= part
            remainders.append((-remainder, name))
    if missing > 0:
        remainders.sort()
        for _, name in remainders[:missing]:
            parts[name] += 1
    return parts


def effective_minimum(total: int, minimum: int, *, promised: int) -> int:
    """The min of a child: in proportion, rounded down, where the mins of its level exceed the parent's total.

    `total` is what those that may not be scaled leave of it, `promised` the sum of the mins of those that may.
    """
    if total >= promised:
        return minimum
    return total * minimum // promised if total > 0 else 0


def _spread(left: int, weights: dict[str, int], requests: dict[str, int], runtime: dict[str, int]) -> int:
    """One round: adds the shares to `runtime`, drops the children that are full, returns their surplus."""
    surplus = 0
    parts = largest_remainder(left, weights)
    for name, part in parts.items():
        granted = runtime[name] + part
        request = requests[name]
        if granted >= request:
            surplus += granted - request
            granted = request
            del weights[name]
        runtime[name] = granted
    return surplus
