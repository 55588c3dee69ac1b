"""Questions that people ask, answered by request and reply. Never part of a decision."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Problem, Reason
from berth.contracts.ledger import DeviceGrant


class WhyQuestion(Message, frozen=True, kw_only=True, tag="why.question.v1"):
    """Why is this pod where it is, or nowhere? An empty namespace asks about a Reservation."""

    namespace: str
    name: str


class WhyAnswer(Message, frozen=True, kw_only=True, tag="why.answer.v1"):
    """What the answering solver knows of the pod.

    `outcome` is one of `unknown` (no such pod), `foreign` (another scheduler's), `bound`, `decided` (waiting for its
    bind), `waiting` (in the queue, a gang gathering), `refused`. `mine` says that this solver is the one that decides
    the pod, so its answer goes first. `attempts` is how many decisions for it were withdrawn.
    """

    namespace: str
    name: str
    outcome: str
    mine: bool = False
    message: str = ""
    node: str = ""
    plan: str = ""
    gang: str = ""
    quota: str = ""
    reservation: str = ""
    devices: list[DeviceGrant] = []
    reasons: list[Reason] = []
    problems: list[Problem] = []
    attempts: Integer = 0


class StatusQuestion(Message, frozen=True, kw_only=True, tag="status.question.v1"):
    """How is this service?"""


class StatusAnswer(Message, frozen=True, kw_only=True, tag="status.answer.v1"):
    """One instance of a service: `active` is false for a standby; `facts` are figures and texts for people."""

    service: str
    instance: str
    active: bool
    ready: bool
    facts: dict[str, str | Integer | float] = {}
