"""The request, what a rule works on, and the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.rules.admission.draft import Draft
from berth.rules.admission.gates import DEFAULT, Gates
from berth.rules.admission.views import Views

Json = dict[str, Any]

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
DRAW_MAX: Final = 100
"""A draw is an integer from 1 to this: a profile with a probability of p percent takes draws up to p."""
TEXTS_MAX: Final = 20
"""Refusals, warnings and problems that an answer carries of each; what is beyond is only counted."""


class Request(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`request` of an AdmissionReview (admission.k8s.io/v1). Objects are JSON as it came and are never changed."""

    uid: str
    operation: str
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None
    object: Json | None = None
    old_object: Json | None = None


class Refusal(NamedTuple):
    """Why an object is not admitted."""

    rule: str
    """The name of the broken rule: stable, for machines."""
    field: str
    """The path inside the object as its author knows it."""
    message: str

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.field}: {self.message}" if self.field else self.message


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered. A refused request has no patch.

    `is_message_json`: the message is an object with `reason` and `message`, as tools for ConfigMaps read it.

    `patch` are operations of a JSON patch (RFC 6902). `counts` say by name what was done (`profile`, `converted`, ...)
    and how often, for metrics. `problems` are what could not be used of the object, and is admitted all the same.
    """

    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    patch: tuple[Json, ...] = ()
    counts: Mapping[str, int] = {}
    is_message_json: bool = False

    @property
    def is_allowed(self) -> bool:
        """Nothing refuses it."""
        return not self.refusals

    @property
    def message(self) -> str:
        """The refusals as one text."""
        text = "; ".join(refusal.text for refusal in self.refusals)
        if self.is_message_json and self.refusals:
            return msgspec.json.encode({"reason": self.refusals[0].rule, "message": text}).decode()
        return text


class Case:
    """One request under review: rules read it, change `draft`, and say what they find."""

    def __init__(self, request: Request, views: Views, gates: Gates = DEFAULT, draw: int = DRAW_MAX) -> None:
        """`draw` is from 1 to `DRAW_MAX`, drawn for this request."""
        self.request = request
        self.views = views
        self.gates = gates
        self.draw = draw
        self.draft = Draft(request.object or {})
        self.refusals: list[Refusal] = []
        self.warnings: list[str] = []
        self.problems: list[Problem] = []
        self.counts: Counter[str] = Counter()
        self.is_message_json = False

    def refuse(self, rule: str, field: str, message: str) -> None:
        """Not admitted."""
        self.counts["refused"] += 1
        if len(self.refusals) < TEXTS_MAX:
            self.refusals.append(Refusal(rule, field[:300], message[:500]))

    def warn(self, text: str) -> None:
        """Admitted, and its author is told this."""
        if len(self.warnings) < TEXTS_MAX:
            self.warnings.append(text[:200])

    def note(self, problem: Problem) -> None:
        """A field that counts for nothing: its author is warned, and the service counts it."""
        self.counts["problems"] += 1
        if len(self.problems) < TEXTS_MAX:
            self.problems.append(Problem(field=problem.field[:300], message=problem.message[:300]))
            self.warn(f"{problem.field[:100]}: {problem.message}")

    def answer(self) -> Answer:
        """What all rules came to."""
        return Answer(
            refusals=tuple(self.refusals),
            warnings=tuple(self.warnings),
            problems=tuple(self.problems),
            patch=() if self.refusals else self.draft.patch(),
            counts=dict(self.counts),
            is_message_json=self.is_message_json,
        )


class Rule(NamedTuple):
    """One idea: when it is asked, and what it does."""

    name: str
    run: Callable[[Case], None]
    operations: frozenset[str] = frozenset({CREATE})
    is_asked: Callable[[Gates], bool] = lambda gates: True
    """Whether the gates let it be asked."""
