"""What there is now, as numbers to play with: what is free, who runs where, who waits in which order, who arrives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.estimates.lifetimes import Kind

Floats = npt.NDArray[np.float64]


class Want(NamedTuple):
    """What a pod takes: amounts by column, so many whole cards, a part of one card, and what its quota groups pay."""

    amounts: tuple[tuple[int, float], ...]
    cards: int = 0
    part: float = 0.0
    groups: tuple[int, ...] = ()
    """Numbers of the groups of its line."""
    charged: tuple[tuple[int, float], ...] = ()
    """By number of the resource."""


class Runs(NamedTuple):
    """Someone who runs and will end: on which row, since how long, with which cards and how much of each."""

    row: int
    age_s: float
    kind: Kind
    want: Want
    held: tuple[tuple[int, float], ...] = ()


class Waits(NamedTuple):
    """A unit that waits: so many pods that start together. `rows`: those that suit it; None: all do."""

    id: str
    want: Want
    size: int
    kind: Kind
    rows: npt.NDArray[np.bool_] | None = None
    priority: int = 0


class Arrives(NamedTuple):
    """One that has arrived lately, as others will, so long after the one before it."""

    want: Want
    kind: Kind
    rows: npt.NDArray[np.bool_] | None
    priority: int
    gap_s: float


class Ground(NamedTuple):
    """`free` is by column and row, `cards` what is free of each card by row (-1: there is none), `room` what each
    group may still be charged, by group and resource. `arrives` is in the order in which they came."""

    free: Floats
    cards: Floats
    room: Floats
    runs: list[Runs]
    waits: list[Waits]
    arrives: list[Arrives]
