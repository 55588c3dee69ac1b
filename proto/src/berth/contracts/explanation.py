"""Why nobody takes a pod or a gang, and what would help: part of answers, and in short of events."""

from __future__ import annotations

from berth.contracts.base import Integer, Part


class Forbidder(Part, frozen=True, kw_only=True):
    """One constraint. `code` is the name of the constraint, `quota`, `gang` or `reservation`; `what` says which of it:
    a resource, a quota group, a gang."""

    code: str
    what: str = ""
    message: str = ""


class NearestMiss(Part, frozen=True, kw_only=True):
    """The node that lacks least: each constraint that keeps the pod from it counts 1, an amount that is missing the
    part of the request that is missing. `lacking` is by resource name."""

    node: str
    message: str
    lacking: dict[str, Integer] = {}


class QuotaLimit(Part, frozen=True, kw_only=True):
    """What a quota group's `max` and `min` have to be at least, by resource name."""

    tree: str
    name: str
    max: dict[str, Integer] = {}
    min: dict[str, Integer] = {}


class Repair(Part, frozen=True, kw_only=True):
    """A change with which the pod, or the whole gang, is placed: it was solved with it.

    `kinds` are those of its steps, all of which are needed: `ask` (the pod, each member, asks for `requests` instead),
    `raise` (`limits`), `evict` (`pods` leave by the rules of preemption), `free` (`pods` leave, whoever they are),
    `add` (so many `nodes` like the node `like`, and empty). `node` is where pods leave; empty where it is several.
    """

    kinds: list[str]
    message: str
    node: str = ""
    pods: list[str] = []
    requests: dict[str, Integer] = {}
    limits: list[QuotaLimit] = []
    nodes: Integer = 0
    like: str = ""


class Explanation(Part, frozen=True, kw_only=True):
    """`forbidden_by` forbid it together: with nothing but them it fits nowhere, and without any one of them somewhere.

    `is_smallest`: no smaller set does; else it was not looked for to the end, and some of it may not be needed.
    `repairs` are cheapest first: who asks for less troubles nobody, a limit nobody who runs; pods leave by the rules,
    then whoever they are; last comes a new node.
    """

    forbidden_by: list[Forbidder]
    is_smallest: bool = True
    nearest: NearestMiss | None = None
    repairs: list[Repair] = []
