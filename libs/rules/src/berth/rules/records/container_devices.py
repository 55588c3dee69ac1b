"""`container-devices`: which of the pod's devices each container has, as `device-allocated` has them.

Without it every container has all. So it is written where containers differ, and left out where it would be longer
than an object can carry.
"""

from __future__ import annotations

from typing import Final

import msgspec

from berth.contracts import names
from berth.rules.records.device_allocated import content_of
from berth.rules.records.divided import divided
from berth.rules.records.seam import Bound

LENGTH_MAX: Final = 64 * 1024
"""A quarter of what the annotations of an object may have in all."""


class ContainerDevices:
    """See `Record`."""

    annotations: tuple[str, ...] = (names.ANNOTATION_CONTAINER_DEVICES,)
    nothing = ""

    def write(self, bound: Bound) -> dict[str, str]:
        """See `Record`."""
        parts = divided(bound.grants, bound.template)
        if not parts:
            return {}
        content = {name: content_of(part, bound.uuids) for name, part in parts.items()}
        text = msgspec.json.encode(content).decode()
        return {names.ANNOTATION_CONTAINER_DEVICES: text} if len(text) <= LENGTH_MAX else {}
