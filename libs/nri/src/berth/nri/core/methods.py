"""Methods of the Plugin service, events, and the mask that says which of them a plugin wants."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from berth.nri.api_pb2 import (
    ConfigureRequest,
    CreateContainerRequest,
    Empty,
    EventRequest,
    StateChangeEvent,
    StopContainerRequest,
    SynchronizeRequest,
    UpdateContainerRequest,
    UpdatePodSandboxRequest,
    ValidateContainerAdjustmentRequest,
)
from berth.nri.core.fault import Fault


class Event(IntEnum):
    """What happens to a pod or a container, by the interface's numbers."""

    RUN_POD_SANDBOX = 1
    STOP_POD_SANDBOX = 2
    REMOVE_POD_SANDBOX = 3
    CREATE_CONTAINER = 4
    POST_CREATE_CONTAINER = 5
    START_CONTAINER = 6
    POST_START_CONTAINER = 7
    UPDATE_CONTAINER = 8
    POST_UPDATE_CONTAINER = 9
    STOP_CONTAINER = 10
    REMOVE_CONTAINER = 11
    UPDATE_POD_SANDBOX = 12
    POST_UPDATE_POD_SANDBOX = 13
    VALIDATE_CONTAINER_ADJUSTMENT = 14


EVENTS = {
    "RunPodSandbox": Event.RUN_POD_SANDBOX,
    "StopPodSandbox": Event.STOP_POD_SANDBOX,
    "RemovePodSandbox": Event.REMOVE_POD_SANDBOX,
    "PostUpdatePodSandbox": Event.POST_UPDATE_POD_SANDBOX,
    "PostCreateContainer": Event.POST_CREATE_CONTAINER,
    "StartContainer": Event.START_CONTAINER,
    "PostStartContainer": Event.POST_START_CONTAINER,
    "PostUpdateContainer": Event.POST_UPDATE_CONTAINER,
    "RemoveContainer": Event.REMOVE_CONTAINER,
}
"""Methods of newer runtimes that tell one event each; older ones tell them by StateChange."""

REQUESTS: dict[str, type[Message]] = {
    "Configure": ConfigureRequest,
    "Synchronize": SynchronizeRequest,
    "Shutdown": Empty,
    "CreateContainer": CreateContainerRequest,
    "UpdateContainer": UpdateContainerRequest,
    "StopContainer": StopContainerRequest,
    "UpdatePodSandbox": UpdatePodSandboxRequest,
    "StateChange": StateChangeEvent,
    "ValidateContainerAdjustment": ValidateContainerAdjustmentRequest,
    **dict.fromkeys(EVENTS, EventRequest),
}
"""Every method that is known, and what its request is."""


def event_mask(events: Iterable[Event]) -> int:
    """Bit `event - 1` for each. Of none it is 0, by which a runtime understands all."""
    mask = 0
    for event in events:
        mask |= 1 << (event - 1)
    return mask


def decode(method: str, payload: bytes) -> Message | Fault:
    """The request of a known method."""
    try:
        return REQUESTS[method].FromString(payload)
    except DecodeError:
        return Fault("malformed", f"{method}: a payload of {len(payload)} bytes cannot be read")


def unknown_fields(message: Message) -> int:
    """How many fields of the message itself (not of those in it) are of a later version. They are skipped."""
    return len(UnknownFieldSet(message))
