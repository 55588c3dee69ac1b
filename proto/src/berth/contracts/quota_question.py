"""What people ask quota-manager: the tree of groups, how each stands, and why. Never part of a decision."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem


class QuotaQuestion(Message, frozen=True, kw_only=True, tag="quota.question.v1"):
    """How do the groups stand? With a `name` only that group, those above it and those below it."""

    name: str = ""


class QuotaStanding(Part, frozen=True, kw_only=True):
    """One group. Amounts are by resource, in base units (cpu in thousandths).

    `depth` is how many groups are above it; `limits` are the resources that its max names. `effective_min` is the part
    of `min` that can be honoured now. `lent` is idle min that others use, `borrowed` what it has beyond its min of
    others' idle min or of what nobody was promised. `lent_to` and `borrowed_from` name the other end, largest parts
    first, some of them. `pods` are its own, `waiting` those without a node; `short` are the resources of which they ask
    for more than it may use. `detached`: it belongs to no tree, and its pods get nothing, for the reason in `problems`.
    `shown` is what hooks have shown of it last, by hook and field.
    """

    tree: str
    name: str
    namespace: str = ""
    parent: str = ""
    depth: Integer = 0
    limits: list[str] = []
    min: dict[str, Integer] = {}
    max: dict[str, Integer] = {}
    effective_min: dict[str, Integer] = {}
    runtime: dict[str, Integer] = {}
    used: dict[str, Integer] = {}
    request: dict[str, Integer] = {}
    lent: dict[str, Integer] = {}
    borrowed: dict[str, Integer] = {}
    lent_to: list[str] = []
    borrowed_from: list[str] = []
    pods: Integer = 0
    waiting: Integer = 0
    short: list[str] = []
    lends: bool = True
    guarantees: bool = False
    detached: bool = False
    problems: list[Problem] = []
    shown: dict[str, dict[str, str]] = {}


class QuotaAnswer(Message, frozen=True, kw_only=True, tag="quota.answer.v1"):
    """The groups of all trees, each behind the one above it; `totals` is what each tree has to share out.

    `ready`: all that counts was seen. `left_out` counts the groups that there was no place for. `uses_runtime`: off,
    the max of a group is its limit.
    """

    ready: bool = False
    groups: list[QuotaStanding] = []
    left_out: Integer = 0
    totals: dict[str, dict[str, Integer]] = {}
    uses_runtime: bool = True
