"""Reservations at the end, and RESERVATION and their status against who really uses them.

A Reservation is placed or told why not; it is over once its time is and not before, and holds nothing on a node that
is not there.
Its time is that of whoever judges it: a clock that was set back makes it last longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from tests.simulation.harness import Harness
from tests.simulation.laws import Pardon
from tests.simulation.settled.held import SCHEDULING, entries, labels, messages, objects

from berth.contracts import buckets, names, subjects
from berth.contracts.codec import decode
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod, Reservation
from berth.invariants import Counts
from berth.invariants.facts import ENDED, Facts, Seen, amounts_of, read_loans
from berth.resources.amounts import Amounts, add_into, without_zeros
from berth.rules.durations import parse_duration_s
from berth.simcluster.store.objects import Obj
from berth.testing.simulation.world import EPOCH_S
from berth.transaction.book import Book

MANAGER: Final = "reservation-manager"
LAG_S: Final = 10.0
"""How long after its time a Reservation may go on: for a look at the clock, a command, and a patch."""
AVAILABLE: Final = "Available"
FAILED: Final = "Failed"


def reservations(harness: Harness, counts: Counts) -> Iterator[str]:
    """Reservations that are not what their time and their node make of them."""
    nodes = objects(harness, "", "nodes")
    now_s = min(
        (_clock(harness, replica.process) for replica in harness.host.of(MANAGER)), default=harness.world.wall()
    )
    for name, obj in objects(harness, SCHEDULING, "reservations").items():
        counts.judged("L1")
        status = _status(obj)
        end_s = ends_at(obj)
        node_of_it = nodes.get(status.get("nodeName", ""))
        if status.get("phase") == FAILED and _is_too_early(obj, end_s, node_of_it, counts):
            yield f"reservation {name} is Failed before its end, on a node that was there all the time"
        if status.get("phase") in ENDED:
            continue
        if end_s and now_s > end_s + LAG_S:
            yield f"reservation {name} ended at {end_s - EPOCH_S:.0f} s and is {status.get('phase') or 'Pending'}"
        elif end_s and harness.world.wall() > end_s + LAG_S:
            counts.excused("L1", Pardon.CLOCK)
        node = status.get("nodeName", "")
        if not node and not _is_told(status):
            yield f"reservation {name} is neither placed nor told why not"
        if node and node not in nodes:
            yield f"reservation {name} is {status.get('phase')} on {node}, which is not there"


def capacities(harness: Harness, facts: Facts, counts: Counts) -> Iterator[str]:
    """What RESERVATION and the objects' status say otherwise than it is."""
    published = messages(harness.nats, buckets.RESERVATION, ReservedCapacity)
    there = objects(harness, SCHEDULING, "reservations")
    users: dict[str, list[Seen]] = {}
    for seen in facts.pods.values():
        if seen.node and seen.is_live and seen.reservation:
            users.setdefault(seen.reservation, []).append(seen)
    for name, obj in there.items():
        counts.judged("I8")
        capacity = published.pop(subjects.named_key("reservation", name), None)
        if capacity is None:
            yield f"RESERVATION shows no {name}"
        else:
            yield from _capacity(name, obj, capacity)
        yield from _users(name, obj, users.get(obj.uid, []))
    yield from (f"RESERVATION shows {key}, which is not there" for key in published)


def loans(harness: Harness, counts: Counts) -> Iterator[str]:
    """What a reader of STATE alone believes that pods borrow, otherwise than their binds say: LEDGER may be lost."""
    book = Book()
    for key, (_, value) in entries(harness.nats, buckets.STATE).items():
        kind, _, rest = key.partition(".")
        if kind == "pod":
            namespace, name = subjects.parts(rest)
            book.see_pod((namespace, name), decode(value, Pod))
        elif kind == "reservation":
            book.see_reservation(("", subjects.unescape(rest)), decode(value, Reservation))
    nodes = {obj.uid: _status(obj).get("nodeName") for obj in objects(harness, SCHEDULING, "reservations").values()}
    for key, obj in objects(harness, "", "pods").items():
        node = obj.data["spec"].get("nodeName")
        said = read_loans(obj.meta.get("annotations") or {}) if node and _status(obj).get("phase") not in ENDED else []
        said = [loan for loan in said if nodes.get(loan.reservation_uid) == node]
        if not said or labels(obj).get(names.LABEL_RESERVATION_IGNORED) != "true":
            continue
        counts.judged("I8")
        namespace, _, name = key.partition("/")
        believed = [loan for claim in book.claims_of((namespace, name)) for loan in claim.loans]
        if believed != said:
            yield f"pod {key} borrows {said}, and STATE alone shows {believed}"


def ends_at(obj: Obj) -> float:
    """When its time is over, Unix seconds; 0 for never."""
    spec, created_s = obj.data["spec"], _unix(obj.meta["creationTimestamp"])
    ends = [_unix(spec["expires"])] if spec.get("expires") else []
    if spec.get("ttl"):
        ttl_s = parse_duration_s(spec["ttl"])
        if not ttl_s:
            return 0.0
        ends.append(created_s + ttl_s)
    return min(ends, default=created_s + 86_400.0)


def _capacity(name: str, obj: Obj, capacity: ReservedCapacity) -> Iterator[str]:
    status = _status(obj)
    phase = status.get("phase") or "Pending"
    amounts = amounts_of(status.get("allocatable")) if phase == AVAILABLE else {}
    is_so = (obj.uid, phase, status.get("nodeName", ""), amounts, bool(obj.data["spec"].get("allocateOnce", True)))
    says = (capacity.uid, capacity.phase, capacity.node, capacity.amounts, capacity.allocate_once)
    for what, here, told in zip(("uid", "phase", "node", "capacity", "allocateOnce"), is_so, says, strict=True):
        if here != told:
            yield f"RESERVATION, {name}: {what} is {here}, shown as {told}"


def _users(name: str, obj: Obj, users: list[Seen]) -> Iterator[str]:
    """Of one that holds capacity: who draws on it, and how much. One that is over stays as it was."""
    status = _status(obj)
    if status.get("phase") != AVAILABLE:
        return
    drawing = [seen for seen in users if seen.node == status.get("nodeName")]
    shown = sorted(each["uid"] for each in status.get("currentOwners") or ())
    if shown != sorted(seen.uid for seen in drawing):
        yield f"reservation {name} is used by {sorted(seen.text for seen in drawing)}, it shows the uids {shown}"
    tracked, held = amounts_of(status.get("allocatable")), dict[str, int]()
    for seen in drawing:
        add_into(held, {key: amount for key, amount in seen.amounts.items() if key in tracked})
    allocated: Amounts = without_zeros(amounts_of(status.get("allocated")))
    if without_zeros(held) != allocated:
        yield f"of reservation {name} its users hold {held}, it shows {allocated}"
    if drawing and obj.data["spec"].get("allocateOnce", True):
        yield f"reservation {name} serves one pod, has it, and is still Available"


def _is_told(status: dict[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(each["type"] == "Scheduled" and each["status"] == "False" and each.get("message") for each in conditions)


def _is_too_early(obj: Obj, end_s: float, node: Obj | None, counts: Counts) -> bool:
    """Whether neither its time nor its node ended it.

    Its time is that of who judged it, which the condition shows; one without that was ended by nobody who may. A node
    that was made after the Reservation may have been away meanwhile, and one without a node has its time alone.
    """
    status = _status(obj)
    probes = [each.get("lastProbeTime") for each in status.get("conditions") or () if each["type"] == "Ready"]
    judged_s = max((_unix(each) for each in probes if each), default=0.0)
    if end_s and judged_s >= int(end_s):
        return False
    if not status.get("nodeName"):
        return True
    if node is not None and _unix(node.meta["creationTimestamp"]) > _unix(obj.meta["creationTimestamp"]):
        counts.excused("L1", Pardon.NODE_REMADE)
        return False
    return node is not None


def _clock(harness: Harness, process: Any) -> float:
    return float(process.clock.now()) if process is not None else harness.world.wall()


def _status(obj: Obj) -> dict[str, Any]:
    return obj.data.get("status") or {}


def _unix(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
