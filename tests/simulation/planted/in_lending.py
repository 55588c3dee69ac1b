"""Bugs of what nodes lend."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from unittest.mock import patch

from berth.bus.port import Entry
from berth.placement_solver.core.lending import Lending
from berth.placement_solver.core.verify import verifier
from berth.placement_solver.core.verify.laws import offers
from berth.rules.load_aware.metric import Metric
from berth.slo_manager.core.offers import deciding
from berth.slo_manager.views.reports import ObjectReports

Planted = AbstractContextManager[object]


def by_status_alone() -> Planted:
    """What the status of a node shows is lent, whatever is offered."""
    stack = ExitStack()
    stack.enter_context(patch.object(Lending, "_lowered", lambda self, node: node))
    stack.enter_context(patch.object(verifier, "lent_problems", lambda *_: iter(())))
    return stack


def zones_by_topology_alone() -> Planted:
    """What its topology shows of a NUMA node is lent, whatever is offered there."""
    stack = ExitStack()
    stack.enter_context(patch.object(Lending, "topology", lambda self, name: self.topologies.get(name)))
    stack.enter_context(patch.object(offers, "_of_zones", lambda *_: iter(())))
    return stack


def old_as_new() -> Planted:
    """A report counts for ever."""
    return patch.object(deciding, "is_stale", lambda arrived_s, *_: arrived_s is None)


def by_clocks_of_nodes() -> Planted:
    """A report is as old as its node's clock says."""
    real = ObjectReports._read

    def read(self: ObjectReports, name: str, entry: Entry) -> Metric | None:
        metric = real(self, name, entry)
        return None if metric is None else metric._replace(updated_s=self.made[name])

    return patch.object(ObjectReports, "_read", read)


def any_write_is_news() -> Planted:
    """An object that is written without a new report counts as one."""
    real = ObjectReports._read

    def read(self: ObjectReports, name: str, entry: Entry) -> Metric | None:
        self.made.pop(name, None)
        return real(self, name, entry)

    return patch.object(ObjectReports, "_read", read)
