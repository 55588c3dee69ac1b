"""The published answer: which capacity a Reservation holds, for whom, and whether new owners may be placed into it."""

from __future__ import annotations

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Reservation
from berth.reservation_manager.core.life import FINAL, Life, Phase
from berth.rules.records.evidence import held_by_reservation
from berth.rules.reservation_inner import inner_part_of
from berth.rules.reservation_matchable import reservation_matchable
from berth.rules.reservation_owners import compile_owners
from berth.rules.reservation_resize import growth, resized_amounts, why_not_growing
from berth.rules.reservation_restricted import restricted_options
from berth.rules.reservation_score import order_of


def capacity_of(reservation: Reservation, life: Life) -> ReservedCapacity:
    """The capacity as RESERVATION shows it."""
    problems = problems_of(reservation)
    options = restricted_options(reservation.annotations)
    owners_readable = not any(problem.field.startswith("spec.owners") for problem in problems)
    usable = not reservation.deleting and reservation_matchable(
        phase=life.phase.value,
        node=reservation.node,
        owners_readable=owners_readable,
        allocate_once=reservation.allocate_once,
        users=len(life.owners),
    )
    return ReservedCapacity(
        name=reservation.name,
        uid=reservation.uid,
        revision=reservation.version,
        phase=life.phase.value,
        node=reservation.node,
        usable=usable,
        amounts=reservation.allocatable if life.phase is Phase.AVAILABLE else {},
        allocate_once=reservation.allocate_once,
        allocate_policy=reservation.allocate_policy,
        restricted=[] if isinstance(options, Problem) else options,
        order=order_of(reservation.labels.get(names.LABEL_RESERVATION_ORDER, "")),
        owners=reservation.owners if owners_readable else [],
        taints=reservation.taints,
        labels=reservation.labels,
        unschedulable=reservation.unschedulable,
        expires_at=life.ends_at,
        problems=problems,
        inner=inner_part_of(reservation.annotations)[0],
        priority=reservation.template.priority,
    )


def problems_of(reservation: Reservation) -> list[Problem]:
    """Everything that is wrong with the object, as far as it concerns reserving."""
    found = list(reservation.problems)
    if not reservation.owners:
        found.append(Problem(field="spec.owners", message="must name at least one owner"))
    found.extend(compile_owners(reservation.owners).problems)
    read = restricted_options(reservation.annotations)
    if isinstance(read, Problem):
        found.append(read)
    found += inner_part_of(reservation.annotations)[1]
    if reservation.node and reservation.phase not in FINAL:
        resized, unread = resized_amounts(reservation.annotations)
        found += unread
        if growth(reservation.allocatable, resized):
            grants = held_by_reservation(reservation.annotations, reservation.template).grants
            why = why_not_growing(grants, takes_over=reservation.pre_allocation)
            found += [why] if why is not None else []
    return found
