"""What people ask about a node beside what is placed on it: what it lends and why, who leaves for its sake, and what
its agent has written. Never part of a decision."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem
from berth.contracts.slo import NodeOffer, Offer


class LendingQuestion(Message, frozen=True, kw_only=True, tag="lending.question.v1"):
    """What does this node lend, and who leaves for its sake?"""

    name: str


class Departure(Part, frozen=True, kw_only=True):
    """What was asked of a pod for its node's sake, and the answer: `granted` or `refused`, with the `reason`.

    `at` is when it was answered, `left` when the pod was gone (0: it is there), unix seconds of slo-manager's clock.
    """

    holder: str
    state: str
    feature: str = ""
    reason: str = ""
    message: str = ""
    at: float = 0.0
    left: float = 0.0


class LendingAnswer(Message, frozen=True, kw_only=True, tag="lending.answer.v1"):
    """A node as slo-manager sees it at `at`, unix seconds. `outcome` is `known` or `unknown`.

    `offer` is what SLO says, None: nothing. `newest` is what the newest report comes to, by resource; where that rises,
    the term `waiting` is what is not lent before a second report agrees. `reported_at` is when that report arrived, 0:
    there is none. `shown` is what of it the node's status has. `strategies` are the node strategies that won, by
    section. `departures` are the newest first.
    """

    name: str
    outcome: str
    at: float = 0.0
    offer: NodeOffer | None = None
    newest: dict[str, Offer] = {}
    reported_at: float = 0.0
    shown: dict[str, Integer] = {}
    strategies: dict[str, str] = {}
    departures: list[Departure] = []
    problems: list[Problem] = []


class TrailQuestion(Message, frozen=True, kw_only=True, tag="trail.question.v1"):
    """What has the agent of this node written last?"""

    name: str


class TrailEntry(Part, frozen=True, kw_only=True):
    """A file that was written: its path, the text that was written last, `at`, unix seconds of the node's clock, and
    how often since the agent started. `undone`: it was given back what it had before."""

    path: str
    text: str = ""
    at: float = 0.0
    times: Integer = 1
    undone: bool = False


class TrailAnswer(Message, frozen=True, kw_only=True, tag="trail.answer.v1"):
    """The answer of the agent of the node that was asked about, with the time `at` by its clock. `entries` are the
    newest first."""

    node: str
    at: float = 0.0
    entries: list[TrailEntry] = []
