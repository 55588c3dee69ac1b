"""A node of which the layout of CPUs is known."""

from __future__ import annotations

from typing import Any

import pytest

from berth.testing.builders import node_topology


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """One node with two zones of four cores with two CPUs each."""
    made = solving()
    made.node("n", cpu=16_000)
    made.topology("n", node_topology(zones=2))
    return made
