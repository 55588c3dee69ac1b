"""`bind-gang-group-id` and `bind-gang-member-count`: the gang group that a pod was bound with."""

from __future__ import annotations

from berth.contracts import names
from berth.rules.records.seam import Bound


class BindGang:
    """See `Record`."""

    annotations: tuple[str, ...] = (names.ANNOTATION_BIND_GANG_GROUP, names.ANNOTATION_BIND_GANG_COUNT)
    nothing = ""

    def write(self, bound: Bound) -> dict[str, str]:
        """See `Record`."""
        if not bound.gang:
            return {}
        return {
            names.ANNOTATION_BIND_GANG_GROUP: bound.gang,
            names.ANNOTATION_BIND_GANG_COUNT: str(bound.gang_size),
        }
