"""scheduling.berth.sh ReservationSchedule: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

import msgspec

from berth.contracts import state
from berth.contracts.kube import Meta, ReservationScheduleSpec, ReservationScheduleStatus, ScheduleTemplate, View
from berth.rules.durations import parse_duration_s
from berth.rules.reading.findings import Found, problems_of, shortened
from berth.rules.reading.metadata import identity_of
from berth.rules.salvage import read_part

TEMPLATE_BYTES_MAX: Final = 32 << 10
"""Largest template that is carried, as JSON."""
TEXT_LENGTH_MAX: Final = 128
UTC: Final = "UTC"
NOBODY: Final = "Nobody"


class ReservationScheduleItem(View, frozen=True, kw_only=True):
    """A ReservationSchedule whose parts are read later: they may hold anything."""

    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


def reservation_schedule_of(item: ReservationScheduleItem, version: int) -> state.ReservationSchedule:
    """The schedule, with everything that could not be read left out and named."""
    found: Found = []
    spec = read_part(item.spec, ReservationScheduleSpec, "spec", found)
    template = spec.template or ScheduleTemplate()
    if not template.spec:
        found.append(("spec.template.spec", "is missing"))
    size = len(msgspec.json.encode(template))
    if size > TEMPLATE_BYTES_MAX:
        found.append(("spec.template", f"has {size} bytes, at most {TEMPLATE_BYTES_MAX} are accepted"))
        template = ScheduleTemplate()
    texts = {"cron": spec.cron, "timeZone": spec.time_zone or UTC, "displaces": spec.displaces or NOBODY}
    for name, text in texts.items():
        if len(text) > TEXT_LENGTH_MAX:
            found.append((f"spec.{name}", f"has {len(text)} characters, at most {TEXT_LENGTH_MAX} are accepted"))
            texts[name] = shortened(text, TEXT_LENGTH_MAX)
    return state.ReservationSchedule(
        name=identity_of(item.metadata, found).name,
        uid=item.metadata.uid,
        version=version,
        cron=texts["cron"],
        time_zone=texts["timeZone"],
        duration_s=_seconds(spec.duration, "spec.duration", found),
        lead_s=_seconds(spec.lead or "0", "spec.lead", found),
        displaces=texts["displaces"],
        labels=template.metadata.labels or {},
        annotations=template.metadata.annotations or {},
        spec=template.spec or {},
        deleting=item.metadata.deletion_timestamp is not None,
        # What somebody else wrote there is no concern of the schedule's author: its writer puts it right.
        status=read_part(item.status, ReservationScheduleStatus, "status", []),
        problems=problems_of(found),
    )


def _seconds(text: str, field: str, found: Found) -> float:
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        found.append((field, str(error)))
        return 0.0
    if seconds < 0:
        found.append((field, "must not be negative"))
        return 0.0
    return seconds
