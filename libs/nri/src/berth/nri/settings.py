"""Who a plugin is, and how patient."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from berth.nri.core.methods import Event

FailurePolicy = Literal["Ignore", "Fail"]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class PluginSettings(msgspec.Struct, frozen=True):
    """Read from outside with `msgspec.convert`, which says which field is wrong."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
    socket: str = "/var/run/nri/nri.sock"
    index: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{2}$")] = "00"
    """Two digits: plugins are asked in this order."""
    events: tuple[Event, ...] = ()
    """What it wants to hear of; nothing means everything that this runtime knows.

    A runtime refuses a plugin that wants an event it does not know: those after REMOVE_CONTAINER came with later ones.
    """
    failure_policy: FailurePolicy = "Ignore"
    """What a handler that raises or is late does to a container: nothing, or its creation fails."""
    register_s: Positive = 5.0
    """For dialling, for the answer to the registration, and for being configured after it."""
    synchronize_s: Positive = 60.0
    """From Configure to the last part of Synchronize."""
    call_s: Positive = 10.0
    """For the answer to an update: the runtime may be busy with another plugin."""
    pause_first_s: Positive = 1.0
    pause_most_s: Positive = 30.0
    """Between connections: from the first to the longest, doubling."""
    held_s: Positive = 6.0
    """A connection that lived so long was up: the next pause is the first one again."""
