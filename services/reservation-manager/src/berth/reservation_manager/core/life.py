"""The life of a Reservation as a function of what is seen and of now.

Pending until it has a node, Available while it holds capacity, then Succeeded (its first user came and it allows one)
or Failed (expired, or its node is gone). A Reservation that never got a node expires too: nobody wants last week's
booking to surprise the cluster. Rules of the Koordinator protocol's reservation controller; `now` in unix seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from berth.contracts.state import Amounts, Reservation
from berth.rules.reservation_resize import given_back, resized_amounts


class Phase(StrEnum):
    """status.phase."""

    PENDING = "Pending"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


FINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED})
READY = "Ready"


class User(NamedTuple):
    """A pod that draws on the reservation: on its node, not ended, naming its uid."""

    uid: str
    namespace: str
    name: str
    requests: Amounts


class Life(NamedTuple):
    """What the reservation is now. `changed`: whether its status says something else; `reason` is that of Ready.

    `ends_at` is when it expires, 0 for never.
    """

    phase: Phase
    reason: str
    allocated: Amounts
    owners: tuple[User, ...]
    changed: bool
    ends_at: float


def live(reservation: Reservation, users: Sequence[User], *, node_is_gone: bool, now: float) -> Life:
    """Judge one reservation."""
    said = Phase(reservation.phase) if reservation.phase in set(Phase) else Phase.PENDING
    ends_at = end_of(reservation)
    if said in FINAL:
        return Life(said, "", reservation.allocated, (), False, ends_at)
    if (ends_at and now > ends_at) or (reservation.node and node_is_gone):
        return Life(Phase.FAILED, "Expired", reservation.allocated, (), True, ends_at)
    if not reservation.node:
        return Life(Phase.PENDING, "", {}, (), False, ends_at)
    owners = tuple(sorted(users))
    allocated = _sum(owners, reservation.allocatable)
    known = sorted(owner.uid for owner in reservation.current_owners)
    changed = known != [owner.uid for owner in owners] or _plain(allocated) != _plain(reservation.allocated)
    smaller = bool(given_back(reservation.allocatable, resized_amounts(reservation.annotations)[0]))
    # One user ends a reservation that allows one, and so does its leaving: the capacity was meant to be used once.
    used = reservation.allocate_once and (bool(owners) or (changed and bool(known)))
    phase = Phase.SUCCEEDED if used else Phase.AVAILABLE
    reason = "Succeeded" if used else "Available"
    return Life(phase, reason, allocated, owners, changed or smaller or phase is not said, ends_at)


def end_of(reservation: Reservation) -> float:
    """When the reservation expires, unix seconds; 0 for never. A ttl of 0 means for ever, whatever `expires` says."""
    if reservation.ttl_s == 0:
        return 0.0
    ends = []
    if reservation.expires:
        ends.append(unix(reservation.expires))
    if reservation.ttl_s is not None and reservation.created:
        ends.append(unix(reservation.created) + reservation.ttl_s)
    return min((end for end in ends if end > 0), default=0.0)


def finished_of(reservation: Reservation) -> tuple[str, float]:
    """The reason of the Ready condition, and when it came to say so: unix seconds, 0 where that cannot be read."""
    ready = next((each for each in reservation.conditions if each.type == READY), None)
    if ready is None:
        return "", 0.0
    since = ready.last_transition_time if reservation.phase == Phase.FAILED else ready.last_probe_time
    return ready.reason, unix(since or "")


def unix(text: str) -> float:
    """Unix seconds of an RFC 3339 time, UTC when it names no zone; 0 when it is none."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _sum(users: Sequence[User], tracked: Amounts) -> Amounts:
    total: Amounts = {}
    for user in users:
        for name, amount in user.requests.items():
            if name in tracked:
                total[name] = total.get(name, 0) + amount
    return total


def _plain(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}
