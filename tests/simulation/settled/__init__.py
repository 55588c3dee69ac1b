"""Whether a cluster has come to rest, asked once nothing goes wrong any more.

Every pod is bound or told why not, every decision has ended, Reservations are what their time and their node make of
them (L1), and what the services believe is what is (I8). What is wrong now may come right yet: whoever asks does so
again until the time to settle is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from tests.simulation import node_agent
from tests.simulation.settled import devices, ended, quotas, reserved, shown
from tests.simulation.stand import Stand

from berth.contracts.errors import InvalidMessage
from berth.invariants.facts import Facts

SHOWN: Final = 8


def unsettled(stand: Stand) -> list[str]:
    """Why the cluster is not at rest yet, each with the promise that it breaks; empty when it is."""
    return [*_promised("L1 settles", _not_over(stand)), *_promised("I8 rebuilt-equals", _not_so(stand))]


def _not_over(stand: Stand) -> Iterator[str]:
    for replica in stand.host.replicas:
        if replica.wanted and not replica.ready:
            yield f"{replica.instance} is not ready"
    yield from ended.pods(stand.kube)
    yield from ended.decisions(stand)
    yield from ended.gangs(stand)
    yield from ended.strategies(stand)
    yield from reserved.reservations(stand)
    yield from node_agent.unsettled(stand)


def _not_so(stand: Stand) -> Iterator[str]:
    facts = Facts(stand.observer.world())
    yield from shown.state(stand, facts)
    yield from devices.inventory(stand)
    yield from devices.sums(stand)
    yield from quotas.groups(stand, facts)
    yield from reserved.rooms(stand, facts)


def _promised(promise: str, texts: Iterable[str]) -> list[str]:
    found: list[str] = []
    try:
        found.extend(f"{promise}: {text}" for text in texts)
    except (InvalidMessage, msgspec.MsgspecError) as error:
        found.append(f"{promise}: a message cannot be read: {error}")
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"{promise}: and {len(found) - SHOWN} more"]
