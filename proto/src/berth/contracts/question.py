"""Questions that people ask, answered by request and reply. Never part of a decision."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Problem, Reason
from berth.contracts.ledger import DeviceGrant, Grant


class WhyQuestion(Message, frozen=True, kw_only=True, tag="why.question.v1"):
    """Why is this pod where it is, or nowhere? An empty namespace asks about a Reservation.

    `kind` asks about something else than a pod: `gang`, `quota` (its `namespace` is the tree) or `node`.
    """

    namespace: str
    name: str
    kind: str = "pod"


class WhyAnswer(Message, frozen=True, kw_only=True, tag="why.answer.v1"):
    """What the answering solver knows of the pod.

    `outcome` is one of `unknown` (no such pod), `foreign` (another scheduler's), `bound`, `decided` (waiting for its
    bind), `waiting` (in the queue, a gang gathering), `refused`. `mine` says that this solver is the one that decides
    the pod, so its answer goes first. `attempts` is how many decisions for it were withdrawn.

    Of another `kind` than a pod, `outcome` is `known` or `unknown`, or for a gang as for a pod. `facts` are texts for
    people by what they are about, `pods` those concerned with what they are to it: the members of a gang, the holders
    of a node or of a Reservation, those that wait for a quota; at most 100 of them.
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
    kind: str = "pod"
    facts: dict[str, str] = {}
    pods: dict[str, str] = {}
    grants: list[Grant] = []


class StatusQuestion(Message, frozen=True, kw_only=True, tag="status.question.v1"):
    """How is this service?"""


class StatusAnswer(Message, frozen=True, kw_only=True, tag="status.answer.v1"):
    """One instance of a service: `active` is false for a standby; `facts` are figures and texts for people."""

    service: str
    instance: str
    active: bool
    ready: bool
    facts: dict[str, str | Integer | float] = {}
