"""Whether a cluster has come to rest, asked once nothing goes wrong any more.

Every pod is bound or told why not, every decision has ended, Reservations are what their time and their node make of
them (L1), and what the services believe is what is (I8). What is wrong now may come right yet: whoever asks does so
again until the time to settle is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from tests.simulation import node_agent, silent
from tests.simulation.harness import Harness
from tests.simulation.settled import cores, devices, ended, quotas, reserved, shown

from berth.contracts.errors import InvalidMessage
from berth.invariants import Counts
from berth.invariants.facts import Facts

SHOWN: Final = 8


def unsettled(harness: Harness, counts: Counts | None = None) -> list[str]:
    """Why the cluster is not at rest yet, each with the promise that it breaks; empty when it is.

    `counts`: told how much this look has judged, and what it has excused.
    """
    counts = counts or Counts()
    not_over, not_so = _not_over(harness, counts), _not_so(harness, counts)
    left, old = node_agent.left_behind(harness, counts), silent.on_old_reports(harness, counts)
    return [
        *_promised("L1 settles", not_over),
        *_promised("I8 rebuilt-equals", not_so),
        *_promised("I38 undone-exactly", left),
        *_promised("I42 lent-on-news", old),
    ]


def _not_over(harness: Harness, counts: Counts) -> Iterator[str]:
    for replica in harness.host.replicas:
        counts.judged("L1")
        if replica.wanted and not replica.ready:
            yield f"{replica.instance} is not ready"
    yield from ended.pods(harness.kube, counts)
    yield from ended.decisions(harness, counts)
    yield from ended.gangs(harness, counts)
    yield from ended.strategies(harness, counts)
    yield from reserved.reservations(harness, counts)
    yield from node_agent.unsettled(harness)
    if harness.yarn is not None:
        yield from harness.yarn.unsettled()


def _not_so(harness: Harness, counts: Counts) -> Iterator[str]:
    facts = Facts.of(harness.observer.world())
    yield from shown.state(harness, facts, counts)
    yield from devices.inventory(harness, counts)
    yield from devices.sums(harness, counts)
    yield from cores.topologies(harness, counts)
    yield from quotas.groups(harness, facts, counts)
    yield from reserved.capacities(harness, facts, counts)
    yield from reserved.loans(harness, counts)


def _promised(promise: str, texts: Iterable[str]) -> list[str]:
    found: list[str] = []
    try:
        found.extend(f"{promise}: {text}" for text in texts)
    except (InvalidMessage, msgspec.MsgspecError) as error:
        found.append(f"{promise}: a message cannot be read: {error}")
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"{promise}: and {len(found) - SHOWN} more"]
