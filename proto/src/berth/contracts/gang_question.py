"""What people ask about gangs, answered by request and reply. Never part of a decision."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem, Reason


class GangQuestion(Message, frozen=True, kw_only=True, tag="gang.question.v1"):
    """How far is a gang? Without a name: how far are all of them, without their members and slots."""

    namespace: str = ""
    name: str = ""


class GangView(Part, frozen=True, kw_only=True):
    """A gang as the answering solver sees it; `mine`: it is the one that decides it.

    `source` is where the settings come from: `PodGroup`, `pods`, or empty while there are none. `minimum` is how many
    have to start together, -1 where nobody says. `group` are the gangs that start together, this one alone as well.
    `has_begun`: a member was bound, so that others go by `match_policy`.

    `children` counts all members, `counts` those that are `bound`, `decided` (their bind is in flight), `nominated`
    (others have to leave for them), `waiting` or `leaving` for others, and the `victims`. A gang that was asked for by
    name lists them under the same names, as `namespace/name`, at most 100 of each kind, with their nodes where they
    have one.

    `domain` is where they lie in the network, `slots` what each domain takes of those that wait. `rounds` is how often
    the group was tried in vain, `last_round_s` seconds ago (-1: not since its first member waits). `victims` have still
    to leave for it, `displaced_by` whom its own leave for.
    """

    namespace: str
    name: str
    outcome: str
    mine: bool = False
    source: str = ""
    mode: str = ""
    match_policy: str = ""
    minimum: Integer = -1
    wait_s: float = 0.0
    group: list[str] = []
    has_begun: bool = False
    children: Integer = 0
    counts: dict[str, Integer] = {}
    bound: dict[str, str] = {}
    decided: dict[str, str] = {}
    nominated: dict[str, str] = {}
    waiting: list[str] = []
    leaving: list[str] = []
    domain: str = ""
    slots: list[str] = []
    rounds: Integer = 0
    last_round_s: float = -1.0
    victims: list[str] = []
    displaced_by: list[str] = []
    reasons: list[Reason] = []
    problems: list[Problem] = []


class GangAnswer(Message, frozen=True, kw_only=True, tag="gang.answer.v1"):
    """The gangs that were asked about, by name; none where the solver knows none. At most 1,000: `more` were left
    out."""

    gangs: list[GangView] = []
    more: Integer = 0
