"""The search: some settings are turned by chance, and those that do best go on to more orders (successive halving).

What holds while pods only come has no say where as many leave, and the other way round. So both are searched by turns,
each by its own score, and then what holds for both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth.cli.tuning.measuring import SCORES, Measuring
from berth.cli.tuning.settings import BOTH, FILLING, TURNING_OVER, Knob, Settings, changed, moved

TRIED: Final = 8
"""Settings of a turn; a quarter of them goes on to two orders more, and the best of these to all."""
ORDERS: Final = (1, 3, 6)
WIDE: Final = 0.6
NARROWER: Final = 0.8
"""Of the spread of changes, after a turn that has found nothing."""
NARROWEST: Final = 0.15


class Block(NamedTuple):
    """What is turned together, and the scores that say whether it helps."""

    name: str
    knobs: Sequence[Knob]
    scores: Sequence[str]


BLOCKS: Final = (
    Block("filling", FILLING, SCORES[:1]),
    Block("turning over", TURNING_OVER, SCORES[1:]),
    Block("both", BOTH, SCORES),
)


class Turn(NamedTuple):
    """What became of one turn: how its best settings differ, and what they gain, by score, in all of its orders."""

    number: int
    block: str
    tried: int
    change: Settings
    gains: dict[str, float]
    is_kept: bool


def search(
    measuring: Measuring, start: Settings, seed: int, is_over: Callable[[int], bool], told: Callable[[Turn], None]
) -> tuple[Settings, list[Turn]]:
    """The best settings that were found, and the turns. `is_over` is asked before each turn, with its number."""
    rng = np.random.default_rng(seed)
    best, turns = start, list[Turn]()
    spreads = {block.name: WIDE for block in BLOCKS}
    while not is_over(len(turns)):
        block = BLOCKS[len(turns) % len(BLOCKS)]
        turn = _turn(measuring, best, block, spreads[block.name], rng, len(turns))
        if turn.is_kept:
            best = {**best, **turn.change}
        else:
            spreads[block.name] = max(NARROWEST, spreads[block.name] * NARROWER)
        turns.append(turn)
        told(turn)
    return best, turns


def _turn(
    measuring: Measuring, best: Settings, block: Block, spread: float, rng: np.random.Generator, number: int
) -> Turn:
    tried = [moved(best, block.knobs, spread, rng) for _ in range(TRIED)]
    left = tried
    for orders, keep in zip(ORDERS, (TRIED // 4, 1, 1), strict=True):
        left = sorted(left, key=lambda each: -_worth(measuring, each, best, block, orders))[:keep]
    first = left[0]
    gains = {score: measuring.gain(first, best, score, ORDERS[-1]) for score in block.scores}
    # What is sure of one score must not cost another one.
    is_kept = any(each.is_sure for each in gains.values()) and all(each.mean >= 0.0 for each in gains.values())
    means = {score: each.mean for score, each in gains.items()}
    return Turn(number, block.name, len(tried), changed(first, best), means, is_kept)


def _worth(measuring: Measuring, settings: Settings, before: Settings, block: Block, orders: int) -> float:
    return min(measuring.gain(settings, before, score, orders).mean for score in block.scores)
