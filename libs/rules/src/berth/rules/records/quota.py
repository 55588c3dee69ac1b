"""`quota`: the quota group that a pod was charged to, as `tree/group`."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts import names
from berth.rules.records.seam import Bound


class ChargedQuota:
    """See `Record`."""

    annotations: tuple[str, ...] = (names.ANNOTATION_QUOTA,)
    nothing = ""

    def write(self, bound: Bound) -> dict[str, str]:
        """See `Record`."""
        return {names.ANNOTATION_QUOTA: bound.quota} if bound.quota else {}

    def read(self, annotations: Mapping[str, str]) -> str:
        """The group, or empty."""
        return annotations.get(names.ANNOTATION_QUOTA, "")
