"""Bugs of how what nodes lend is divided with YARN."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from unittest.mock import patch

from berth.contracts.base import Problem
from berth.slo_manager.core.offers import deciding
from berth.slo_manager.core.offers.origin import Values, shown_values
from berth.slo_manager.core.offers.sums import Sum
from berth.yarn_operator.core import dividing, step
from berth.yarn_operator.core.listing import Listing
from berth.yarn_operator.core.step import Manager, Seen, Step
from berth.yarn_operator.core.units import NONE, Share, share_of
from berth.yarn_operator.resource_manager import ResourceManager, UnreachableError

Planted = AbstractContextManager[object]


def grows_at_once() -> Planted:
    """YARN grows before Kubernetes has shrunk."""
    return patch.object(step, "_secured", lambda seen, granted: share_of(seen.origin))


def charged_and_offered() -> Planted:
    """What YARN is charged with is offered to Kubernetes as well."""

    def shown(sums: Mapping[str, Sum], annotations: Mapping[str, str], before: Mapping[str, int]) -> Values:
        whole = shown_values(sums, {}, {})
        return shown_values(sums, annotations, before)._replace(sums=whole.sums)

    return patch.object(deciding, "shown_values", shown)


def unlisted_has_nothing() -> Planted:
    """A NodeManager that its ResourceManager does not list yet has nothing."""

    def stepped(seen: Seen, before: Share, *, percent: int) -> Step:
        if seen.manager is not None:
            return step.step(seen, before, percent=percent)
        there = seen._replace(manager=Manager(step.RUNNING, NONE, NONE))
        return step.step(there, before, percent=percent)._replace(grant=None)

    return patch.object(dividing, "step", stepped)


def away_is_empty() -> Planted:
    """While no ResourceManager answers YARN has nothing."""
    listing = ResourceManager.listing

    async def forgetful(self: ResourceManager) -> Listing | Problem:
        try:
            return await listing(self)
        except UnreachableError:
            return Listing({})

    stack = ExitStack()
    stack.enter_context(unlisted_has_nothing())
    stack.enter_context(patch.object(ResourceManager, "listing", forgetful))
    return stack
