"""Who is a member of which gang: pods, and Reservations.

A Reservation is a member as the pod that stands for it would be (`reservation_stand_in`): by the labels and annotations
of its template with its own laid over them, in the namespace of its template. It is one until it ends; who has used it
is a member, or not, by what he says himself.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from berth.contracts.state import Pod, Reservation
from berth.rules.gang_config import GangConfig, gang_name_of_pod, gang_of_pod

Member: TypeAlias = Pod | Reservation

ENDED: Final = frozenset({"Succeeded", "Failed"})


def counts_as_member(obj: Member) -> bool:
    """Whether it may be a member still: a Reservation until it has ended, a pod until it is deleted."""
    return isinstance(obj, Pod) or obj.phase not in ENDED


def gang_id_of(obj: Member) -> str:
    """The id of the gang that it is a member of (`namespace/name`); empty: of none."""
    name = gang_name_of_pod(obj.template.labels, obj.template.annotations) if counts_as_member(obj) else ""
    return f"{obj.namespace}/{name}" if name else ""


def gang_of_member(obj: Member) -> GangConfig | None:
    """What it says of its gang; None: it is in none."""
    if not counts_as_member(obj):
        return None
    return gang_of_pod(obj.namespace, obj.template.labels, obj.template.annotations)
