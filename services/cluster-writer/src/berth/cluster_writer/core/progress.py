"""How far the steps before a bind are, and what they are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from berth.contracts.state import Pod
from berth.kube.resources import Resource
from berth.rules.storage import StorageObjects
from berth.transaction.claims import Name


class Progress(Enum):
    """How far the steps of a decision are."""

    DONE = "done"
    REQUEST = "request"
    """The request has to be sent."""
    WAIT = "wait"
    """It was sent: somebody else has to act, or the view is not new enough."""
    REFUSED = "refused"
    """The decision can never be carried out like this: give it up (R6)."""


class Request(NamedTuple):
    """A merge patch of a claim, a volume or a pod."""

    resource: Resource
    namespace: str
    name: str
    body: dict[str, Any]
    step: int


class Outcome(NamedTuple):
    """What is to be done next, with the reason of a wait or of a refusal."""

    progress: Progress
    reason: str = ""
    request: Request | None = None


class View(NamedTuple):
    """What is seen of storage and of pods. `is_known`: all claims and volumes are in it, what is missing is gone."""

    storage: StorageObjects
    is_known: bool
    pods: Mapping[Name, Pod] = {}
