"""Where constraints look up which nodes are those of the quota that pays."""

from __future__ import annotations

from berth.contracts import names
from berth.contracts.quota import QuotaGroup
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.seams import Spec


class Pools:
    """QUOTA as a constraint looks at it; the view puts its own in place of the empty one."""

    def __init__(self) -> None:
        self.quotas = Quotas()

    def payer(self, spec: Spec) -> QuotaGroup | None:
        """The group that pays; None for a Reservation, which is charged to none, and where nobody pays."""
        if not spec.name[0]:
            return None
        key = self.quotas.group_of(spec.template.labels.get(names.LABEL_QUOTA_NAME), spec.namespace)
        return self.quotas.groups.get(key) if key is not None else None
