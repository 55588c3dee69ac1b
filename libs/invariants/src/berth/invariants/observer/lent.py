"""What nodes lend: a pod that borrows of a node is given no more than the node offers in the revision that its decision
names (I36), and no more of a NUMA node than is offered there. An offer that falls later takes nothing back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.grants import ZONE, granted
from berth.contracts.ledger import Decision
from berth.contracts.names import LENT, LENT_BY_ZONE
from berth.contracts.slo import NodeOffer
from berth.invariants.observer.capacity import Capacity
from berth.invariants.observer.holds import Hold
from berth.invariants.observer.sight import Reader
from berth.invariants.observer.verdicts import Verdicts

LAW: Final = "I36"
KEPT_MAX: Final = 64
"""Revisions of one node that are kept: a decision names none that is older."""
_KIND: Final = "offer"


class Lent:
    """What SLO has said that nodes offer, and whether decisions keep to it."""

    def __init__(self, verdicts: Verdicts, capacity: Capacity) -> None:
        self._verdicts = verdicts
        self._capacity = capacity
        self._said: dict[tuple[str, str], dict[int, NodeOffer]] = {}
        """By name and uid of the node, and revision."""

    def see(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message that SLO has stored."""
        if deleted or key.partition(".")[0] != _KIND:
            return
        try:
            _, name = subjects.parts(key)
            offer = decode(value, NodeOffer)
        except (InvalidMessage, ValueError) as error:
            self._verdicts.add("I0", f"SLO {key}", f"SLO key {key} cannot be read: {error}")
            return
        said = self._said.setdefault((name, offer.uid), {})
        said.setdefault(offer.revision, offer)
        while len(said) > KEPT_MAX:
            del said[next(iter(said))]

    def decided(self, decision: Decision) -> None:
        """A decision, before it counts among those that hold something of its node."""
        offer = self._said.get((decision.node, decision.node_uid), {}).get(decision.offer)
        if offer is None:
            return
        for name in LENT:
            most = offer.offers[name].amount if name in offer.offers else 0
            self._judge(decision, "", name, decision.allocation.amounts.get(name, 0), most)
        offered = {str(each.zone): each.amounts for each in offer.zones}
        for grant in granted(decision.allocation):
            for name in LENT_BY_ZONE if grant.kind == ZONE else ():
                most = offered.get(grant.id, {}).get(name, 0)
                self._judge(decision, grant.id, name, grant.amounts.get(name, 0), most)

    def _judge(self, decision: Decision, zone: str, name: str, wanted: int, most: int) -> None:
        """By what of it others hold; `zone`: of this NUMA node, empty: of the node."""
        if wanted <= 0:
            return
        self._verdicts.judged(LAW)
        holders = self._holders(decision, zone, name)
        if wanted + sum(amount for _, amount in holders()) > most:
            place = f"NUMA node {zone} of node {decision.node}" if zone else f"node {decision.node}"
            subject = f"{place}, offer {decision.offer}, with {decision.namespace}/{decision.name}"
            self._capacity.beyond(LAW, subject, name, most - wanted, holders, Reader.SOLVER)
            if wanted > most:
                self._verdicts.add(LAW, f"{subject}, {name}", f"{subject}: {wanted} of {most} {name}")

    def _holders(self, decision: Decision, zone: str, name: str) -> Callable[[], Iterator[tuple[Hold, int]]]:
        minor = (decision.node, ZONE, zone, name)

        def holders() -> Iterator[tuple[Hold, int]]:
            for hold in self._capacity.on_node.get(decision.node, {}).values():
                if hold.uid != decision.uid:
                    of_zone = sum(amount for each, amount in hold.devices if each == minor)
                    yield hold, of_zone if zone else hold.amounts.get(name, 0)

        return holders
