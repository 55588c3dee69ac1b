"""The verdict: settings are accepted when they are better on arrivals that the search has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from berth.cli.tuning.measuring import SCORES, Figures, Gain, Measuring, gain_of, means
from berth.cli.tuning.settings import Settings


class Compared(NamedTuple):
    """Both settings on the same arrivals: each figure's mean and deviation over orders, and the gains by pairs."""

    before: dict[str, tuple[float, float]]
    after: dict[str, tuple[float, float]]
    gains: dict[str, Gain]
    """Of each figure, and of each score."""


class Verdict(NamedTuple):
    """Whether the settings are accepted, and why, or why not."""

    is_accepted: bool
    why: str


def compared(
    measuring: Measuring, before: Settings, after: Settings, orders: int, told: Callable[[int], None]
) -> Compared:
    """In so many orders."""
    pairs: list[tuple[Figures, Figures]] = []
    scores: dict[str, list[float]] = {score: [] for score in SCORES}
    for order in range(orders):
        found: list[Figures] = []
        for settings in (before, after):
            found.append({})
            for score in SCORES:
                found[-1] |= measuring.figures(settings, score, order)
        pairs.append((found[0], found[1]))
        for score in SCORES:
            scores[score].append(measuring.score(after, score, order) - measuring.score(before, score, order))
        told(order + 1)
    of_before, of_after = means([each for each, _ in pairs]), means([each for _, each in pairs])
    gains = {name: gain_of([new[name] - old[name] for old, new in pairs]) for name in of_before}
    return Compared(of_before, of_after, {**gains, **{name: gain_of(each) for name, each in scores.items()}})


def judged(unseen: Compared) -> Verdict:
    """Better on fill and on churn by more than chance, and no figure worse by more than chance."""
    unsure = [score for score in SCORES if not unseen.gains[score].is_sure]
    if unsure:
        said = ", ".join(f"{score} {told(unseen.gains[score])}" for score in unsure)
        return Verdict(False, f"not surely better on arrivals that the search has not seen: {said}")
    lost = [name for name, gain in unseen.gains.items() if gain.is_loss]
    if lost:
        said = ", ".join(f"{name} {told(unseen.gains[name])}" for name in lost)
        return Verdict(False, f"worse on arrivals that the search has not seen: {said}")
    said = ", ".join(f"{score} {told(unseen.gains[score])}" for score in SCORES)
    return Verdict(True, f"better on arrivals that the search has not seen: {said}")


def told(gain: Gain) -> str:
    """In words, in percent points, with twice the standard error."""
    return f"{gain.mean:+.2f} (within {2.0 * gain.error:.2f})"
