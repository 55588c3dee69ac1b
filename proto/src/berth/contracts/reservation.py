"""RESERVATION: which reserved capacity exists and for whom, written by reservation-manager alone. Never what is
used."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Problem
from berth.contracts.kube import ReservationOwner, Taint


class ReservedCapacity(Message, frozen=True, kw_only=True, tag="reservedcapacity.set.v1"):
    """Capacity on a node that is held for its owners.

    `phase` is Pending, Available, Succeeded or Failed as reservation-manager judges it now (expiry included), which may
    be ahead of the object's status. `usable` is true while new owners may be placed into it. `amounts` is the capacity,
    empty unless it is Available. `owners` is empty, and nobody's, when one of them cannot be read. `order` 0 means that
    none was given, `restricted` are the resources to which the Restricted policy is narrowed. `revision` is the
    resource version of the object that was judged; it never falls. `expires_at` is unix seconds, 0 for never. `inner`
    is what of the amounts its users never get, `priority` that of its template: pods below it may borrow what is idle.
    """

    name: str
    uid: str
    revision: Integer
    phase: str
    node: str = ""
    usable: bool = False
    amounts: dict[str, Integer] = {}
    allocate_once: bool = True
    allocate_policy: str = ""
    restricted: list[str] = []
    order: Integer = 0
    owners: list[ReservationOwner] = []
    taints: list[Taint] = []
    labels: dict[str, str] = {}
    unschedulable: bool = False
    expires_at: float = 0.0
    problems: list[Problem] = []
    inner: dict[str, Integer] = {}
    priority: Integer = 0
