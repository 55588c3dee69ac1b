"""The next step towards what YARN is to have of a node, so that offer and grant together are never more than it lends.

Who grows waits until the other has shrunk. The node's annotation charges YARN: slo-manager offers Kubernetes what is
left of it. YARN is granted no more than it is charged with and Kubernetes no longer has; it is charged with what it has
or uses until its ResourceManager says that it does not.
"""

from __future__ import annotations

from typing import NamedTuple

from berth.yarn_operator.core.split import wanted
from berth.yarn_operator.core.units import NONE, Share, larger, share_of, smaller

RUNNING = "RUNNING"


class Manager(NamedTuple):
    """A NodeManager as its ResourceManager shows it: `granted` is its total resource."""

    state: str
    granted: Share
    used: Share


class Seen(NamedTuple):
    """What is seen of a node.

    `origin` is what it lends before YARN has its part, `offered` what is offered of that to Kubernetes (None: the offer
    has not followed the charge yet), `held` what bound pods have asked for of it. `charged` is what the
    node's annotation says that YARN has. `manager` None: the ResourceManager does not list it. `has_pod`: the pod of a
    NodeManager is there. `doubt` is the most that YARN may have been granted by requests without an answer.
    """

    origin: dict[str, int]
    offered: dict[str, int] | None
    held: dict[str, int]
    charged: Share
    manager: Manager | None
    has_pod: bool
    doubt: Share = NONE


class Step(NamedTuple):
    """What to do now; None: nothing. `want` is what YARN is to have in the end."""

    charge: Share | None
    grant: Share | None
    want: Share


def step(seen: Seen, before: Share, *, percent: int) -> Step:
    """Decide.

    Args:
        seen: the node.
        before: what YARN was to have until now.
        percent: YARN's part of what neither side uses.
    """
    manager = seen.manager
    is_there = manager is not None and manager.state == RUNNING
    if seen.has_pod and not is_there:
        # Its containers may go on, and it may come with what it was granted to a ResourceManager that has just become
        # the active one and lists nobody yet.
        return Step(None, None, before)
    granted = manager.granted if manager is not None and is_there else NONE
    used = manager.used if manager is not None else NONE
    want = NONE
    if seen.has_pod:
        want = wanted(share_of(_less(seen.origin, seen.held)), used, before, percent=percent)
    target = smaller(want, _secured(seen, granted))
    charge = larger(larger(want, seen.doubt), larger(granted, used))
    return Step(
        charge if charge != seen.charged else None,
        target if is_there and target != granted else None,
        want,
    )


def _secured(seen: Seen, granted: Share) -> Share:
    """What YARN may be granted now: what it is charged with, and Kubernetes no longer has."""
    if seen.offered is None:
        return smaller(seen.charged, granted)
    return smaller(seen.charged, share_of(_less(seen.origin, _more(seen.offered, seen.held))))


def _less(amounts: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: max(0, amount - other.get(name, 0)) for name, amount in amounts.items()}


def _more(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}
