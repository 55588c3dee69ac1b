"""`resource-status`: cores and NUMA nodes. Berth hands out none: it writes nothing, and counts nothing of it."""

from __future__ import annotations

from berth.contracts import names
from berth.rules.records.seam import Bound


class ResourceStatus:
    """See `Record`."""

    annotations: tuple[str, ...] = (names.ANNOTATION_RESOURCE_STATUS,)
    nothing = "{}"

    def write(self, bound: Bound) -> dict[str, str]:
        """See `Record`."""
        return {}
