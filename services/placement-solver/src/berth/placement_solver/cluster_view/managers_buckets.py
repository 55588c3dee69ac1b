"""QUOTA, RESERVATION and SLO: quota groups, reserved capacity, and what nodes lend, as the managers publish them."""

from __future__ import annotations

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.quota import PodCharge, QuotaGroup
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.slo import NodeOffer
from berth.placement_solver.cluster_view.holdings import Holdings
from berth.rules.queueing.events import NODE


class ManagersBuckets(Holdings):
    """Quota groups, what Reservations hold, and what nodes lend."""

    def read_quota(self, key: str, value: bytes, deleted: bool) -> None:
        """Take in one message of QUOTA."""
        self.moment += 1
        kind, tree, name = (*subjects.parts(key), "", "")[:3]
        if kind == "group":
            self.quotas.see(tree, name, None if deleted else decode(value, QuotaGroup))
            self.quota_changed = True
        elif kind == "charge":
            self.charged_anew |= self.payers.surcharges.see(tree, None if deleted else decode(value, PodCharge))

    def reset_quota(self) -> None:
        """QUOTA starts over."""
        self.quotas.reset()
        self.payers.surcharges.reset()
        self.awaited.elastic_quotas.anew_at = self.now

    def knows_quotas(self) -> bool:
        """Whether QUOTA has what STATE shows of ElasticQuotas, as far as who pays depends on it."""
        return self.awaited.elastic_quotas.are_in(self.quotas.knows, self.now)

    def read_reserved(self, key: str, value: bytes, deleted: bool) -> None:
        """Take in one message of RESERVATION."""
        self.moment += 1
        kind, _, rest = key.partition(".")
        if kind == "reservation":
            name, capacity = subjects.unescape(rest), None if deleted else decode(value, ReservedCapacity)
            self.reservations.see(name, capacity)
            self.awaited.capacity.publish(name, capacity)
            self.capacity_came_back = True

    def reset_reserved(self) -> None:
        """RESERVATION starts over."""
        self.reservations.reset()
        self.awaited.capacity.reset_reserved()

    def read_offer(self, key: str, value: bytes, deleted: bool) -> None:
        """Take in one message of SLO."""
        self.moment += 1
        kind, _, rest = key.partition(".")
        if kind == "offer":
            self._see_offer(subjects.unescape(rest), None if deleted else decode(value, NodeOffer))

    def reset_offers(self) -> None:
        """SLO starts over: until it is read to its end nothing is planned."""
        for name in list(self.nodes.offers):
            self._see_offer(name, None)

    def _see_offer(self, name: str, offer: NodeOffer | None) -> None:
        before = self.nodes.state(name)
        grown = self.nodes.see_offer(name, offer)
        after = self.nodes.state(name)
        if after is not before:
            self.happenings.changed(NODE, before, after)
        elif grown:
            self.capacity_came_back = True  # of a NUMA node, which no event of the node tells of
