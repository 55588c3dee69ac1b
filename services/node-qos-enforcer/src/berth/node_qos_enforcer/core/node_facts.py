"""What the cluster says about this node, as far as the node's own rules need it: its CPU, and what is reserved.

Comes from the node's entry in STATE. An annotation that cannot be used reserves nothing and is named as a problem;
the rest still counts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.rules.bounded_json import annotation_field
from berth.rules.cpu_normalization import ratio_of
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.node_reservation import read_node_reservation
from berth.rules.cpus.system_qos import read_system_cpus

MAX_CPU_MILLI = 10_000_000
_RESERVATION: Final = annotation_field(names.ANNOTATION_NODE_RESERVATION)


class NodeFacts(NamedTuple):
    """CPU of the node in milli-cores; None: the cluster has not said yet, or what it said is unusable.

    `reserved_cpus` are those of the reservation annotation, `system_cpus` those that system processes have for
    themselves: best-effort pods use neither. `system_pod_cpus` are what pods of class SYSTEM run on, whether they share
    them or not. `cpu_ratio` is the work of one CPU, where 1 is that of the reference; None: not known.
    """

    capacity_milli: int | None = None
    allocatable_milli: int | None = None
    annotation_reserved_milli: int = 0
    reserved_cpus: frozenset[int] = frozenset()
    system_cpus: frozenset[int] = frozenset()
    problems: tuple[Problem, ...] = ()
    system_pod_cpus: frozenset[int] = frozenset()
    cpu_ratio: float | None = None


UNKNOWN = NodeFacts()


def facts_of(node: state.Node) -> NodeFacts:
    """Take the facts from the node's state."""
    capacity, capacity_problems = _cpu(node.capacity, "status.capacity[cpu]")
    allocatable, allocatable_problems = _cpu(node.allocatable, "status.allocatable[cpu]")
    reservation, reserved_problem = read_node_reservation(node.annotations)
    reserved_milli = reservation.amounts.get(names.CPU, 0)
    system = read_system_cpus(node.annotations)
    if capacity is not None and allocatable is not None and allocatable > capacity:
        # An amplified node offers more than it has; nothing of it is held back.
        allocatable = capacity
    ratio = ratio_of(node.annotations)
    annotation_problems = [each for each in (reserved_problem, system, ratio) if isinstance(each, Problem)]
    if reserved_milli > MAX_CPU_MILLI:
        annotation_problems.append(_implausible(f"{_RESERVATION}.resources[cpu]", reserved_milli))
        reserved_milli = 0
    return NodeFacts(
        capacity,
        allocatable,
        reserved_milli,
        reservation.cpus,
        NO_CPUS if isinstance(system, Problem) else system.kept,
        (*capacity_problems, *allocatable_problems, *annotation_problems),
        NO_CPUS if isinstance(system, Problem) else system.cpus,
        None if isinstance(ratio, Problem) else ratio,
    )


def _cpu(amounts: dict[str, int], field: str) -> tuple[int | None, tuple[Problem, ...]]:
    amount = amounts.get("cpu")
    if amount is None or 0 <= amount <= MAX_CPU_MILLI:
        return amount, ()
    return None, (_implausible(field, amount),)


def _implausible(field: str, milli: int) -> Problem:
    return Problem(field=field, message=f"not a plausible amount of CPU: {milli} milli-cores")
