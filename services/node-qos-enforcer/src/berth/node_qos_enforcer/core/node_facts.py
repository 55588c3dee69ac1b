"""What the cluster says about this node, as far as the node's own rules need it: its CPU, and what is reserved.

Comes from the node's entry in STATE. An annotation that cannot be used reserves nothing and is named as a problem;
the rest still counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec

from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.malformed import Malformed, quoted
from berth.resources.quantity import QuantityError, parse_milli

MAX_ANNOTATION = 64 * 1024
MAX_CPU_MILLI = 10_000_000
NO_CPUS: Final = frozenset[int]()
FIELD = "metadata.annotations[{}]"


class NodeFacts(NamedTuple):
    """CPU of the node in milli-cores; None: the cluster has not said yet, or what it said is unusable.

    `reserved_cpus` are those of the reservation annotation, `system_cpus` those that system processes have for
    themselves: best-effort pods use neither.
    """

    capacity_milli: int | None = None
    allocatable_milli: int | None = None
    annotation_reserved_milli: int = 0
    reserved_cpus: frozenset[int] = frozenset()
    system_cpus: frozenset[int] = frozenset()
    problems: tuple[Problem, ...] = ()


UNKNOWN = NodeFacts()


class _Reservation(msgspec.Struct, frozen=True):
    resources: dict[str, str | int | float] = {}
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")


class _SystemQos(msgspec.Struct, frozen=True, rename="camel"):
    cpuset: str = ""
    cpuset_exclusive: bool = True


T = TypeVar("T")


def facts_of(node: state.Node) -> NodeFacts:
    """Take the facts from the node's state."""
    capacity, capacity_problems = _cpu(node.capacity, "status.capacity[cpu]")
    allocatable, allocatable_problems = _cpu(node.allocatable, "status.allocatable[cpu]")
    reserved, reserved_problems = _annotation(node, names.ANNOTATION_NODE_RESERVATION, _reserved, (0, NO_CPUS))
    system_cpus, system_problems = _annotation(node, names.ANNOTATION_NODE_SYSTEM_QOS, _exclusive_cpus, NO_CPUS)
    if capacity is not None and allocatable is not None and allocatable > capacity:
        # An amplified node offers more than it has; nothing of it is held back.
        allocatable = capacity
    problems = (*capacity_problems, *allocatable_problems, *reserved_problems, *system_problems)
    return NodeFacts(capacity, allocatable, *reserved, system_cpus, problems)


def _cpu(amounts: dict[str, int], field: str) -> tuple[int | None, tuple[Problem, ...]]:
    amount = amounts.get("cpu")
    if amount is None or 0 <= amount <= MAX_CPU_MILLI:
        return amount, ()
    return None, (Problem(field=field, message=f"not a plausible amount of CPU: {amount} milli-cores"),)


def _annotation(node: state.Node, name: str, read: Callable[[str], T], default: T) -> tuple[T, tuple[Problem, ...]]:
    """Read one annotation; one that is absent or cannot be used gives the default."""
    text = node.annotations.get(name, "")
    if not text:
        return default, ()
    if len(text) > MAX_ANNOTATION:
        return default, (Problem(field=FIELD.format(name), message=f"longer than {MAX_ANNOTATION} characters"),)
    try:
        return read(text), ()
    except (msgspec.DecodeError, Malformed, QuantityError, RecursionError, UnicodeError) as error:
        return default, (Problem(field=FIELD.format(name), message=str(error)[:200]),)


def _reserved(text: str) -> tuple[int, frozenset[int]]:
    """Read what is reserved, in milli-cores: as many CPUs as are named, else the amount of CPU; and those CPUs."""
    reservation = msgspec.json.decode(text, type=_Reservation)
    if reservation.reserved_cpus:
        cpus = parse_cpuset(reservation.reserved_cpus, field="reservedCPUs")
        return 1000 * len(cpus), cpus
    return _amount(reservation.resources.get("cpu", 0)), NO_CPUS


def _exclusive_cpus(text: str) -> frozenset[int]:
    system = msgspec.json.decode(text, type=_SystemQos)
    return parse_cpuset(system.cpuset, field="cpuset") if system.cpuset_exclusive else NO_CPUS


def _amount(value: str | float) -> int:
    milli = parse_milli(str(value))
    if not 0 <= milli <= MAX_CPU_MILLI:
        raise Malformed("resources.cpu", f"not a plausible amount of CPU: {quoted(str(value))}")
    return milli
