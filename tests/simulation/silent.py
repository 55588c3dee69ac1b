"""Nodes that lend and fall silent: their reports stop for longer than one counts, some for good.

Some objects are written meanwhile without a new report, and the clocks of some nodes are wrong, as they are among nodes
that lend. Batch pods come all the time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Final

from tests.simulation import lending
from tests.simulation.harness import Harness
from tests.simulation.settled.held import messages, objects
from tests.simulation.workload import Change, Json, Size, Timed

from berth.contracts import buckets, subjects
from berth.contracts.names import BATCH_CPU
from berth.contracts.slo import NodeOffer
from berth.invariants import Counts

DEGRADE_MIN: Final = 1
SILENT_S: Final = (80.0, 105.0)
"""Longer than a report counts, and than it takes that everybody has seen that."""
FIRST_S: Final = (10.0, 40.0)
"""When those fall silent that are heard of again."""
AGAIN_S: Final = 4.0
LAW: Final = "I42"


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """Nodes that lend, whose reports count for a minute."""
    made = lending.cluster(rng, size)
    strategy = lending.COLOCATION | {"degradeTimeMinutes": DEGRADE_MIN}
    made[-1]["data"]["colocation-config"] = json.dumps(strategy)
    return made


def crowd(rng: random.Random, size: Size) -> list[Timed]:
    """What happens to nodes that lend, but for the reports that do not come."""
    silences = {f"node-{number}": _silence(rng, size, for_good=number == 0) for number in range(size.nodes)}
    done = [timed for timed in lending.crowd(rng, size) if not _is_silenced(timed, silences)]
    for name, (start_s, end_s) in silences.items():
        if rng.random() < 0.5:
            done += [Timed(at_s, _again(name, at_s)) for at_s in _every(rng, start_s, min(end_s, size.end_s))]
    return sorted(done, key=lambda timed: timed.at_s)


def on_old_reports(harness: Harness, counts: Counts) -> Iterator[str]:
    """Nodes that lend, or show it, although nothing has been heard of them for too long."""
    offers = messages(harness.nats, buckets.SLO, NodeOffer, "offer.")
    nodes = objects(harness, "", "nodes")
    for name, why in harness.observer.news.silent():
        counts.judged(LAW)
        offer = offers.get(subjects.named_key("offer", name))
        if offer is not None and any(each.amount for each in offer.offers.values()):
            yield f"node {name} lends, {why}"
        shown = nodes[name].data["status"].get("allocatable", {}).get(BATCH_CPU, "0") if name in nodes else "0"
        if shown != "0":
            yield f"node {name} shows that it lends {shown}, {why}"


def _silence(rng: random.Random, size: Size, *, for_good: bool) -> tuple[float, float]:
    length_s = rng.uniform(*SILENT_S)
    start_s = size.end_s - length_s if for_good else rng.uniform(*FIRST_S)
    return start_s, float("inf") if for_good else start_s + length_s


def _is_silenced(timed: Timed, silences: dict[str, tuple[float, float]]) -> bool:
    action = timed.action
    if not isinstance(action, Change) or action.kind != lending.KIND:
        return False
    start_s, end_s = silences[action.name]
    return start_s <= timed.at_s < end_s


def _again(name: str, at_s: float) -> Change:
    """The object is written, and says nothing new."""
    return Change(lending.KIND, name, {"metadata": {"labels": {"written": f"{at_s:.0f}"}}})


def _every(rng: random.Random, start_s: float, end_s: float) -> Iterator[float]:
    at_s = start_s + rng.uniform(0.0, AGAIN_S)
    while at_s < end_s:
        yield at_s
        at_s += rng.uniform(AGAIN_S / 2, 2 * AGAIN_S)
