"""What the solver answers: for each unit either placements, one per pod, or reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from berth.contracts.base import Reason
from berth.contracts.ledger import GangRef
from berth.contracts.quota import PodCharge
from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.registry import Asked
from berth.placement_solver.core.seams import Spec
from berth.placement_solver.core.surcharges import NO_CHARGE, surcharge_in
from berth.resources.amounts import Amounts
from berth.rules.quota_payer import charged
from berth.rules.reservation_match import ReservationRequest
from berth.transaction.claims import Claim, Name


class Candidate(NamedTuple):
    """A pod or Reservation that waits for a node, with what was compiled of it.

    `quota` is the group it is charged to, as tree and name, `uncharged` what of its request is charged to nobody.
    `wish` is None for what uses no reservation. `asked` is what constraints say of it beside those of its class,
    `refusals` what rules out every node. `charge` is what hooks say of it; None: that is not known yet.
    """

    name: Name
    object: Pod | Reservation
    cls: PodClass
    quota: tuple[str, str] | None = None
    non_preemptible: bool = False
    wish: ReservationRequest | None = None
    seen_ms: int = 0
    asked: tuple[Asked, ...] = ()
    refusals: tuple[Reason, ...] = ()
    uncharged: Amounts = {}
    charge: PodCharge | None = NO_CHARGE

    def alike(self, obj: Pod, wish: ReservationRequest | None, seen_ms: int) -> Candidate:
        """What another pod is of which the same was compiled."""
        return Candidate(
            (obj.namespace, obj.name),
            obj,
            self.cls,
            self.quota,
            self.non_preemptible,
            wish,
            seen_ms,
            self.asked,
            self.refusals,
            self.uncharged,
            self.charge,
        )

    @property
    def charged(self) -> Mapping[str, int]:
        """What its quota group pays for."""
        return charged(self.cls.requests, self.uncharged, self.surcharge)

    @property
    def of_min(self) -> Mapping[str, int]:
        """What of it a min may promise: what hooks charge nobody lends, so only a max has a say in it."""
        return charged(self.cls.requests, self.uncharged)

    @property
    def surcharge(self) -> Mapping[str, int]:
        """What hooks charge for it beyond its request."""
        return surcharge_in(self.charge)

    @property
    def charge_id(self) -> str:
        """Equal for those of which hooks say the same."""
        return self.charge.id if self.charge is not None else ""

    @property
    def served(self) -> Candidate:
        """The same where the place of a placeholder serves it, which is a reservation to it."""
        return self if self.wish is None else self._replace(wish=self.wish._replace(must=False))

    @property
    def spec(self) -> Spec:
        """What constraints and scores read of it."""
        return spec_of(self.object)

    @property
    def is_reservation(self) -> bool:
        """It stands for a Reservation."""
        return not self.name[0]


def spec_of(obj: Pod | Reservation) -> Spec:
    """What constraints and scores read of an object; a Reservation has the namespace of its template."""
    if isinstance(obj, Reservation):
        return Spec(("", obj.name), obj.namespace, obj.uid, obj.template, obj.required_node)
    return Spec((obj.namespace, obj.name), obj.namespace, obj.uid, obj.template, owners=obj.owners)


class Unit(NamedTuple):
    """What is placed together: one candidate, or a gang group with how many of each gang have to be placed.

    `needed` maps gang id to the number of its members without which the group does not begin; empty for a single pod.
    """

    id: str
    candidates: tuple[Candidate, ...]
    gang_of: dict[Name, str] = {}
    needed: dict[str, int] = {}
    strict: bool = True


class Placement(NamedTuple):
    """A candidate with its claim: node, amounts, minors."""

    candidate: Candidate
    claim: Claim
    reservation: str = ""
    gang: GangRef | None = None


class Refusal(NamedTuple):
    """A candidate that goes nowhere now, and why. `preemption` says why nobody leaves for it."""

    candidate: Candidate
    reasons: tuple[Reason, ...]
    gang: str = ""
    preemption: str = ""


class Solution(NamedTuple):
    """The answer for a batch. Placements of one gang stand together."""

    placements: tuple[Placement, ...]
    refusals: tuple[Refusal, ...]
