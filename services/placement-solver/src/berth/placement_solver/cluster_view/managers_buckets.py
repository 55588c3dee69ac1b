"""QUOTA and RESERVATION: what the managers publish of quota groups and of reserved capacity."""

from __future__ import annotations

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.quota import PodCharge, QuotaGroup
from berth.contracts.reservation import ReservedCapacity
from berth.placement_solver.cluster_view.holdings import Holdings


class ManagersBuckets(Holdings):
    """Quota groups, and what Reservations hold."""

    def read_quota(self, key: str, value: bytes, deleted: bool) -> None:
        """Take in one message of QUOTA."""
        kind, tree, name = (*subjects.parts(key), "", "")[:3]
        if kind == "group":
            self.quotas.see(tree, name, None if deleted else decode(value, QuotaGroup))
            self.quota_changed = True
        elif kind == "charge":
            self.payers.surcharges.see(tree, None if deleted else decode(value, PodCharge))
            self.quota_changed = True

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
