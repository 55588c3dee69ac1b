"""The patch of Berth's webhook configurations: which requests may lead where is said here, and not by who asks."""

from __future__ import annotations

from typing import Any, Final

from berth.contracts.command import ConfigureWebhooks
from berth.contracts.errors import InvalidMessage
from berth.rules.webhooks import DOORS, KINDS, rendered, with_bundle

ENTRIES_MAX: Final = 256
BUNDLE_LENGTH_MAX: Final = 64 << 10


def patch_of(command: ConfigureWebhooks, url: str) -> dict[str, Any]:
    """The merge patch. `url`: where the webhook is reached; empty: by its Service. Raises InvalidMessage."""
    if command.kind not in KINDS:
        raise InvalidMessage("kind", f"{command.kind[:80]!r} is none of {', '.join(KINDS)}")
    if len(command.entries) > ENTRIES_MAX:
        raise InvalidMessage("entries", f"are {len(command.entries)}, at most {ENTRIES_MAX} are written")
    if not command.ca_bundle or len(command.ca_bundle) > BUNDLE_LENGTH_MAX:
        raise InvalidMessage(
            "ca_bundle", f"has {len(command.ca_bundle)} characters, 1 to {BUNDLE_LENGTH_MAX} are taken"
        )
    webhooks = []
    for number, entry in enumerate(command.entries):
        door = DOORS.get(entry.door)
        if door is None or door.kind != command.kind:
            raise InvalidMessage(
                f"entries[{number}].door", f"{entry.door[:80]!r} is no door of a {command.kind} webhook"
            )
        webhooks.append(with_bundle(rendered(entry, url), command.ca_bundle))
    guard = {"uid": command.uid, "resourceVersion": command.version}
    return {"metadata": guard, "webhooks": webhooks}
