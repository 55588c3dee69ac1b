"""`quota`: the quota group that a pod was charged to, as `tree/group`, and what it was charged beyond the request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, format_amounts, parse_amounts
from berth.rules.bounded_json import read_annotation
from berth.rules.records.seam import Bound

_encode: Final = msgspec.json.Encoder(order="sorted").encode


class ChargedQuota:
    """See `Record`."""

    annotations: tuple[str, ...] = (names.ANNOTATION_QUOTA, names.ANNOTATION_QUOTA_SURCHARGE)
    nothing = ""

    def write(self, bound: Bound) -> dict[str, str]:
        """See `Record`."""
        if not bound.quota:
            return {}
        written = {names.ANNOTATION_QUOTA: bound.quota}
        if bound.surcharge:
            written[names.ANNOTATION_QUOTA_SURCHARGE] = _encode(format_amounts(bound.surcharge)).decode()
        return written

    def read(self, annotations: Mapping[str, str]) -> str:
        """The group, or empty."""
        return annotations.get(names.ANNOTATION_QUOTA, "")

    def read_surcharge(self, annotations: Mapping[str, str]) -> Amounts:
        """What is charged beyond the request; what cannot be read is nothing."""
        if not annotations.get(names.ANNOTATION_QUOTA_SURCHARGE):
            return {}
        listed = read_annotation(annotations, names.ANNOTATION_QUOTA_SURCHARGE, dict[str, str | int | float])
        if listed is None or isinstance(listed, Problem):
            return {}
        return {name: amount for name, amount in parse_amounts(listed, "")[0].items() if amount}
