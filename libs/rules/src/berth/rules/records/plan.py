"""`plan`: the plan that an object was bound under."""

from __future__ import annotations

from berth.contracts import names
from berth.rules.records.seam import Bound


class BoundPlan:
    """See `Record`."""

    annotations: tuple[str, ...] = (names.ANNOTATION_PLAN,)
    nothing = ""

    def write(self, bound: Bound) -> dict[str, str]:
        """See `Record`."""
        return {names.ANNOTATION_PLAN: bound.plan}
