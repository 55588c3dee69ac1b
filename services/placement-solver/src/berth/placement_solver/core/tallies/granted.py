"""The list of tallies of what is granted within nodes: one for each kind of record that a decision may grant."""

from __future__ import annotations

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import GrantTally
from berth.placement_solver.core.tallies.cores import CoresTally
from berth.placement_solver.core.tallies.devices import DeviceTally
from berth.placement_solver.core.tallies.numbers import NumberTally


def grant_tallies(nodes: Nodes) -> tuple[GrantTally, ...]:
    """All of them, over these nodes."""
    return (DeviceTally(nodes), NumberTally(nodes), CoresTally(nodes))
