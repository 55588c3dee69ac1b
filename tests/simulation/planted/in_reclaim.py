"""Bugs in who gives back for the sake of quota. The verifier makes the solver's mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
from tests.simulation.planted.in_writer import together

from berth.placement_solver.core.displacers.lenders import Lenders
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.verify import reclaims

Planted = AbstractContextManager[object]


def beyond_the_min() -> Planted:
    """Others leave for whoever waits, though the min of its group promises it nothing."""
    return together(
        patch.object(Quotas, "is_promised", lambda *_: True),
        patch.object(reclaims, "_is_within_min", lambda *_: True),
    )


def from_anybody() -> Planted:
    """Groups give all that they use, and not what is beyond their runtime."""
    real = Lenders.__init__

    def init(self: Lenders, quotas: Any, tree: str, groups: Iterable[str], used: Any) -> None:
        nothing = {key: msgspec.structs.replace(group, runtime={}) for key, group in quotas.groups.items()}
        real(self, SimpleNamespace(groups=nothing), tree, groups, used)  # type: ignore[arg-type]

    return together(
        patch.object(Lenders, "__init__", init),
        patch.object(reclaims, "_is_over", lambda *_: True),
    )
