"""Where Berth's answers differ from what kube-scheduler did."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.parity.berth_side import Answer, BerthSide, Choice
from tests.parity.world import Manifest, Outcome, Step, Trace, identity

_HEAD = re.compile(r"^0/(\d+) nodes are available: ?(.*)$", re.DOTALL)
_AFTER = re.compile(r"\. (?=no new claims to deallocate, |preemption: |not eligible |not found$)")
"""Where what follows is of preemption, or of a plugin for resource claims that was never asked."""
_PREEMPTION = re.compile(r"(preemption: .*)$", re.DOTALL)
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
    """A pod that could not be compared: Berth refuses these fields by name, or has no part for that at all."""

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


def _differences(step: Step, answer: Answer) -> Iterator[Difference]:
    outcome = step.outcome

    def differs(kind: str, theirs: object, ours: object, signs: Iterable[str]) -> Difference:
        return Difference(kind, step.pod, str(theirs), str(ours), outcome, answer, frozenset(signs))

    if outcome.verdict != answer.verdict:
        texts = {*reasons_of(outcome.message)[0], *answer.reasons, *answer.plain}
        theirs = f"{outcome.verdict} {outcome.node}{outcome.message}"
        yield differs("verdict", theirs, _shown(answer), {f"{outcome.verdict}, {answer.verdict}", *texts})
    elif outcome.verdict == "unschedulable":
        yield from _different_reasons(step, answer, differs)
        yield from _different_victims(outcome, answer, differs)
    elif outcome.verdict == "bound":
        feasible = frozenset(outcome.feasible)
        if step.pod.get("status", {}).get("nominatedNodeName") == outcome.node and not outcome.scores:
            # It had its nominated node, and no other was looked at.
            if answer.node != outcome.node:
                yield differs("node", outcome.node, answer.node, ("nominated",))
            return
        if feasible != answer.feasible:
            signs = [
                sign
                for sign, rows in (("more", answer.feasible - feasible), ("less", feasible - answer.feasible))
                if rows
            ]
            yield differs("feasible", sorted(feasible), sorted(answer.feasible), signs)
        else:
            yield from _different_choice(outcome, answer, differs)


def _different_victims(outcome: Outcome, answer: Answer, differs: Callable[..., Difference]) -> Iterator[Difference]:
    """Who leaves which node, and where nobody does, why."""
    theirs = Choice(outcome.nominated, tuple(sorted(outcome.victims)))
    if outcome.victims or answer.victims:
        if theirs not in answer.choices:
            ours = sorted(answer.choices) or [Choice("nowhere", ())]
            sign = "other" if outcome.victims and answer.victims else "more" if answer.victims else "less"
            yield differs("victims", _leaving([theirs]), _leaving(ours) + answer.preemption, (sign,))
        return
    said = _PREEMPTION.search(outcome.message)
    if said is not None and said.group(1) != answer.preemption:
        yield differs("preemption", said.group(1), answer.preemption, ("text",))


def _leaving(choices: Iterable[Choice]) -> str:
    return "; ".join(f"{each.node}: {', '.join(each.victims)}" for each in choices)


def _different_choice(outcome: Outcome, answer: Answer, differs: Callable[..., Difference]) -> Iterator[Difference]:
    """The scores of each plugin, and the node that they choose. What is not rated counts as nothing."""
    plugins = {plugin for each in (outcome.scores, answer.scores) for scores in each.values() for plugin in scores}
    for plugin in sorted(plugins if outcome.scores else ()):
        expected = {node: scores.get(plugin, 0) for node, scores in outcome.scores.items()}
        given = {node: answer.scores.get(node, {}).get(plugin, 0) for node in expected}
        if expected != given:
            yield differs("scores", f"{plugin} {expected}", f"{plugin} {given}", (plugin,))
    totals = {node: sum(scores.values()) for node, scores in outcome.scores.items()}
    best = {node for node, total in totals.items() if total == max(totals.values())} or {outcome.node}
    if answer.node not in best:
        yield differs("node", sorted(best), answer.node, ("node",))


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
