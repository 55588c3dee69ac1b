"""What the cluster says about this node, as far as the node's own rules need it: its CPU, and what is reserved.

Comes from the node's entry in STATE. An annotation that cannot be used reserves nothing and is named as a problem;
the rest still counts.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.malformed import Malformed, quoted
from berth.resources.quantity import QuantityError, parse_milli

MAX_ANNOTATION = 64 * 1024
MAX_CPU_MILLI = 10_000_000
FIELD = f"metadata.annotations[{names.ANNOTATION_NODE_RESERVATION}]"


class NodeFacts(NamedTuple):
    """CPU of the node in milli-cores; None: the cluster has not said yet, or what it said is unusable."""

    capacity_milli: int | None = None
    allocatable_milli: int | None = None
    annotation_reserved_milli: int = 0
    problems: tuple[Problem, ...] = ()


UNKNOWN = NodeFacts()


class _Reservation(msgspec.Struct, frozen=True):
    resources: dict[str, str | int | float] = {}
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")


def facts_of(node: state.Node) -> NodeFacts:
    """Take the facts from the node's state."""
    capacity, capacity_problems = _cpu(node.capacity, "status.capacity[cpu]")
    allocatable, allocatable_problems = _cpu(node.allocatable, "status.allocatable[cpu]")
    reserved, reserved_problems = _reserved_milli(node.annotations.get(names.ANNOTATION_NODE_RESERVATION, ""))
    if capacity is not None and allocatable is not None and allocatable > capacity:
        # An amplified node offers more than it has; nothing of it is held back.
        allocatable = capacity
    return NodeFacts(capacity, allocatable, reserved, (*capacity_problems, *allocatable_problems, *reserved_problems))


def _cpu(amounts: dict[str, int], field: str) -> tuple[int | None, tuple[Problem, ...]]:
    amount = amounts.get("cpu")
    if amount is None or 0 <= amount <= MAX_CPU_MILLI:
        return amount, ()
    return None, (Problem(field=field, message=f"not a plausible amount of CPU: {amount} milli-cores"),)


def _reserved_milli(text: str) -> tuple[int, tuple[Problem, ...]]:
    """Read the reservation annotation: the number of reserved CPUs if it names them, else its amount of CPU."""
    if not text:
        return 0, ()
    if len(text) > MAX_ANNOTATION:
        return 0, (Problem(field=FIELD, message=f"longer than {MAX_ANNOTATION} characters"),)
    try:
        reservation = msgspec.json.decode(text, type=_Reservation)
        if reservation.reserved_cpus:
            return 1000 * len(parse_cpuset(reservation.reserved_cpus, field="reservedCPUs")), ()
        return _amount(reservation.resources.get("cpu", 0)), ()
    except (msgspec.DecodeError, Malformed, QuantityError, RecursionError, UnicodeError) as error:
        return 0, (Problem(field=FIELD, message=str(error)[:200]),)


def _amount(value: str | float) -> int:
    milli = parse_milli(str(value))
    if not 0 <= milli <= MAX_CPU_MILLI:
        raise Malformed("resources.cpu", f"not a plausible amount of CPU: {quoted(str(value))}")
    return milli
