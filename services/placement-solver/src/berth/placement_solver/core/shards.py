"""Which solver decides which pod, and which nodes each prefers: rendezvous hashing over the solvers that are alive.

Solvers may disagree for a moment about who is alive: the ledger lets only one of two decisions in. The split only
keeps them out of each other's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt


def owner(unit: str, solvers: Sequence[str]) -> str:
    """The solver that decides this unit (a gang group's id, or a pod's uid); empty without solvers."""
    return max(solvers, key=lambda solver: (_weight(unit, solver), solver), default="")


def foreign_nodes(names: Sequence[str], me: str, solvers: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which nodes this solver leaves to the others as long as it can."""
    if len(solvers) < 2:
        return np.zeros(len(names), np.bool_)
    return np.array([owner(name, solvers) != me for name in names], np.bool_)


def _weight(unit: str, solver: str) -> bytes:
    return blake2b(f"{solver}/{unit}".encode(), digest_size=8).digest()
