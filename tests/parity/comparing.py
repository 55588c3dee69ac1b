"""Where Berth's answers differ from what kube-scheduler did."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.parity.berth_side import Answer, BerthSide
from tests.parity.world import Manifest, Outcome, Step, Trace, identity

_HEAD = re.compile(r"^0/(\d+) nodes are available: ?(.*)$", re.DOTALL)
_AFTER = re.compile(r"\. (?=no new claims to deallocate, |preemption: |not eligible )")
_COUNTED = re.compile(r"(\d+) (.+?)(?=, \d+ |$)", re.DOTALL)


class Difference(NamedTuple):
    """What differs about which pod. `kind` is the comparison: verdict, reasons, feasible, node, scores, victims.

    `signs` are its parts: a smaller world shows the same difference when it has some of them and no other.
    """

    kind: str
    pod: Manifest
    theirs: str
    ours: str
    outcome: Outcome
    answer: Answer
    signs: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])


class NotYet(NamedTuple):
    """A pod that could not be compared: Berth refuses these fields by name."""

    pod: Manifest
    fields: tuple[str, ...]


def reasons_of(message: str) -> tuple[dict[str, int], str]:
    """The counts of a failure's text and, where it is about all nodes at once, that text instead."""
    found = _HEAD.match(message)
    if found is None:
        return {}, message
    text = _AFTER.split(found.group(2), maxsplit=1)[0].removesuffix(".")
    if not re.match(r"\d+ ", text):
        return {}, text
    return {reason: int(count) for count, reason in _COUNTED.findall(text)}, ""


def compare(trace: Trace) -> Iterator[Difference | NotYet]:
    """Let Berth answer for each step of a trace; what differs."""
    berth = BerthSide(trace.objects)
    for step in trace.steps:
        if step.outcome.verdict not in ("none", "error"):
            answer = berth.decide(step.pod)
            if answer.unsupported:
                yield NotYet(step.pod, answer.unsupported)
            else:
                yield from _differences(step, answer)
        for which, item in step.after:
            if item is None:
                berth.delete(which)
            else:
                berth.show(item)
        if identity(step.pod) not in dict(step.after):
            berth.delete(identity(step.pod))


def _differences(step: Step, answer: Answer) -> Iterator[Difference | NotYet]:
    outcome = step.outcome

    def differs(kind: str, theirs: object, ours: object, signs: Iterable[str]) -> Difference:
        return Difference(kind, step.pod, str(theirs), str(ours), outcome, answer, frozenset(signs))

    if outcome.verdict != answer.verdict:
        texts = {*reasons_of(outcome.message)[0], *answer.reasons, *answer.plain}
        theirs = f"{outcome.verdict} {outcome.node}{outcome.message}"
        yield differs("verdict", theirs, _shown(answer), {f"{outcome.verdict}, {answer.verdict}", *texts})
    elif outcome.verdict == "unschedulable":
        yield from _different_reasons(step, answer, differs)
        if answer.victims is None:
            if outcome.nominated:
                yield NotYet(step.pod, ("preemption",))
        elif (outcome.nominated, outcome.victims) != (answer.nominated, answer.victims):
            theirs = f"{outcome.nominated or 'nowhere'}, victims {list(outcome.victims)}"
            ours = f"{answer.nominated or 'nowhere'}, victims {list(answer.victims)}"
            yield differs("victims", theirs, ours, ("victims",))
    elif outcome.verdict == "bound":
        feasible = frozenset(outcome.feasible)
        if feasible != answer.feasible:
            signs = [
                sign
                for sign, rows in (("more", answer.feasible - feasible), ("less", feasible - answer.feasible))
                if rows
            ]
            yield differs("feasible", sorted(feasible), sorted(answer.feasible), signs)
        elif answer.node not in feasible:
            yield differs("node", outcome.node, answer.node, ("node",))


def _different_reasons(step: Step, answer: Answer, differs: Callable[..., Difference]) -> Iterator[Difference]:
    counted, plain = reasons_of(step.outcome.message)
    ours = {**answer.reasons, **dict.fromkeys(answer.plain, 0)}
    theirs = {plain: 0} if plain else counted
    if ours != theirs:
        signs = {text for text in {*ours, *theirs} if ours.get(text) != theirs.get(text)}
        yield differs("reasons", plain or _listed(counted), _shown(answer), signs)


def _shown(answer: Answer) -> str:
    return f"{answer.verdict} {answer.node}{_listed(answer.reasons)}{'; '.join(answer.plain)}"


def _listed(counted: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
