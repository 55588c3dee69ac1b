"""`extended-resource-spec`: what each container has of batch resources, for agents that set its limits on the node.

A webhook writes it when a pod is created. The bind writes it from the specification, over whatever is there: the
webhook may have been away, and a user may have written something else.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from berth.contracts import names
from berth.contracts.state import BatchContainer
from berth.rules.records.seam import Bound


class ExtendedResourceSpec:
    """See `Record`."""

    annotations: tuple[str, ...] = (names.ANNOTATION_EXTENDED_RESOURCE_SPEC,)
    nothing = ""

    def write(self, bound: Bound) -> dict[str, str]:
        """See `Record`."""
        containers = bound.template.batch_containers
        if not containers:
            return {}
        content = {"containers": {each.name: _amounts_of(each) for each in containers}}
        return {names.ANNOTATION_EXTENDED_RESOURCE_SPEC: msgspec.json.encode(content).decode()}


def _amounts_of(container: BatchContainer) -> dict[str, dict[str, str]]:
    parts = (("limits", container.limits), ("requests", container.requests))
    return {field: _texts(amounts) for field, amounts in parts if amounts}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}
