"""`reservation-allocated`: the Reservation that a pod draws on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from berth.contracts import names
from berth.contracts.kube import View
from berth.rules.records.seam import Bound, read_json


class _Reference(View, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""


_REFERENCE: Final = msgspec.json.Decoder(_Reference)


class ReservationAllocated:
    """See `Record`."""

    annotations: tuple[str, ...] = (names.ANNOTATION_RESERVATION_ALLOCATED,)
    nothing = "{}"

    def write(self, bound: Bound) -> dict[str, str]:
        """See `Record`."""
        if not bound.reservation:
            return {}
        reference = {"name": bound.reservation, "uid": bound.reservation_uid}
        return {names.ANNOTATION_RESERVATION_ALLOCATED: msgspec.json.encode(reference).decode()}

    def read(self, annotations: Mapping[str, str]) -> str:
        """Uid of the Reservation; empty when there is none or it cannot be read."""
        text = annotations.get(names.ANNOTATION_RESERVATION_ALLOCATED, "")
        reference = read_json(_REFERENCE, text) if text else None
        return reference.uid if reference is not None else ""
