"""Nodes as groups: what each group has of what runs short, and how many pods of each item it takes at most.

Groups are nodes that are alike; where there are too many of them, nodes that are nearly alike are put together, which
only makes the bound looser.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.bounds.problem import BoundProblem
from berth.placement_solver.core.counting.supplies import Groups, Percents, Supply, pieces, scarce, supplies_of_cards

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

VARIABLES_MAX: Final = 12_000
"""Items times groups."""


def groups_of(problem: BoundProblem, variables_max: int = VARIABLES_MAX) -> Groups:
    """The nodes of a problem by what they have."""
    items, nodes = len(problem.counts), problem.nodes
    free, percent = _amounts(problem.free, nodes), _percents(problem.percent, nodes)
    spared = np.array(problem.spared, np.bool_)
    kept = _amounts(problem.kept, nodes) if problem.kept else free
    kept_percent = _percents(problem.kept_percent, nodes) if problem.kept_percent else percent
    counted = np.ones(nodes, np.bool_)
    counted[problem.uncounted] = False
    needs = np.array(problem.needs, np.int64).reshape(items, -1)
    cards, share = np.array(problem.cards, np.int64), np.array(problem.share, np.int64)
    most = _suitable(problem) * np.array(problem.counts, np.int64)[:, None]
    for item in range(items):
        has, of_cards = (kept, kept_percent) if spared[item] else (free, percent)
        for need, amount in zip(needs[item], has, strict=True):
            if need:
                np.minimum(most[item], amount // need, out=most[item])
        if share[item]:
            able = np.count_nonzero(of_cards >= share[item], axis=0) >= cards[item]
            fit = np.where(able, pieces(of_cards, int(share[item])) // cards[item], 0)
            np.minimum(most[item], np.where(counted, fit, most[item]), out=most[item])
        if problem.alone[item]:
            np.minimum(most[item], 1, out=most[item])
    used = np.flatnonzero(most.any(axis=0))
    most, counted = most[:, used], counted[used]
    # Of what is free outside of what is kept for others those take their part who may use nothing of that.
    grounds = [(free, percent, ~spared)] if problem.kept and not spared.all() else []
    grounds.append((kept, kept_percent, np.ones(items, np.bool_)))

    def supplies() -> Iterator[Supply]:
        for amounts, of_cards, who in grounds:
            for at, amount in enumerate(amounts):
                yield Supply(needs[:, at] * who, amount[used])
            for each in supplies_of_cards(cards * who, share, of_cards[:, used]):
                yield Supply(each.takes, _where(counted, each.has))

    return _grouped(most, scarce(most, supplies()), max(1, variables_max // max(1, items)))


UNBOUNDED: Final = 1 << 40


def _where(counted: Mask, pieces: Ints) -> Ints:
    """What nobody knows of may be any number."""
    found: Ints = np.where(counted, pieces, UNBOUNDED)
    return found


def _grouped(most: Ints, supplies: list[Supply], groups_max: int) -> Groups:
    nodes = most.shape[1]
    matrix = np.vstack([most, *(each.has[None, :] for each in supplies)])
    # Two nodes that differ and are taken for alike count together, which is allowed.
    factors = np.random.default_rng(0).integers(1, 1 << 62, matrix.shape[0], np.int64)
    with np.errstate(over="ignore"):
        _, of_node = np.unique((matrix * factors[:, None]).sum(axis=0), return_inverse=True)
    number = int(of_node.max()) + 1 if nodes else 0
    if number > groups_max:
        order = np.lexsort(matrix[::-1])
        of_node = np.empty(nodes, np.intp)
        of_node[order] = np.arange(nodes) * groups_max // nodes
        number = groups_max
    return Groups(
        np.array([_summed(of_node, row, number) for row in most], np.int64).reshape(most.shape[0], number),
        [Supply(each.takes, _summed(of_node, each.has, number)) for each in supplies],
    )


def _summed(of_node: npt.NDArray[np.intp], values: Ints, number: int) -> Ints:
    found = np.zeros(number, np.int64)
    np.add.at(found, of_node, values)
    return found


def _suitable(problem: BoundProblem) -> Ints:
    masks = [
        np.unpackbits(np.frombuffer(each, np.uint8), count=problem.nodes).astype(np.int64) for each in problem.masks
    ]
    return np.array([masks[each] for each in problem.suits], np.int64).reshape(len(problem.suits), problem.nodes)


def _amounts(columns: list[bytes], nodes: int) -> Ints:
    return np.array([np.frombuffer(each, np.int64) for each in columns], np.int64).reshape(len(columns), nodes)


def _percents(data: bytes, nodes: int) -> Percents:
    return np.frombuffer(data, np.int16).reshape(-1, nodes) if nodes else np.zeros((0, 0), np.int16)
