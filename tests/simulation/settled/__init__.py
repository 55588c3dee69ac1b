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
from tests.simulation.harness import Harness
from tests.simulation.settled import devices, ended, quotas, reserved, shown

from berth.contracts.errors import InvalidMessage
from berth.invariants.facts import Facts

SHOWN: Final = 8


def unsettled(harness: Harness) -> list[str]:
    """Why the cluster is not at rest yet, each with the promise that it breaks; empty when it is."""
    return [*_promised("L1 settles", _not_over(harness)), *_promised("I8 rebuilt-equals", _not_so(harness))]


def _not_over(harness: Harness) -> Iterator[str]:
    for replica in harness.host.replicas:
        if replica.wanted and not replica.ready:
            yield f"{replica.instance} is not ready"
    yield from ended.pods(harness.kube)
    yield from ended.decisions(harness)
    yield from ended.gangs(harness)
    yield from ended.strategies(harness)
    yield from reserved.reservations(harness)
    yield from node_agent.unsettled(harness)


def _not_so(harness: Harness) -> Iterator[str]:
    facts = Facts(harness.observer.world())
    yield from shown.state(harness, facts)
    yield from devices.inventory(harness)
    yield from devices.sums(harness)
    yield from quotas.groups(harness, facts)
    yield from reserved.rooms(harness, facts)


def _promised(promise: str, texts: Iterable[str]) -> list[str]:
    found: list[str] = []
    try:
        found.extend(f"{promise}: {text}" for text in texts)
    except (InvalidMessage, msgspec.MsgspecError) as error:
        found.append(f"{promise}: a message cannot be read: {error}")
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"{promise}: and {len(found) - SHOWN} more"]
