"""`berth why`: where a pod is and why, or why it is nowhere and what would help; what became of one that is gone."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import msgspec

from berth.bus import Bus, Denied
from berth.cli.asking import ask_replicas, nobody, on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.facts import ago
from berth.cli.lines import held_lines, reason_line
from berth.cli.output import WIDTH_MAX, columns, fitted, width, wrapped
from berth.cli.past import Past, past_lines, past_of
from berth.contracts.explanation import Explanation
from berth.contracts.grants import all_of
from berth.contracts.question import WhyAnswer, WhyQuestion
from berth.contracts.subjects import question_subject

SUBJECT = question_subject("placement-solver", "why")
DOMAIN = "berth"
"""What the bus of an installation with users calls the API of its streams (docs/subscribe.md)."""
_RANK = ("bound", "decided", "known", "refused", "waiting", "foreign", "unknown")
GOOD = ("bound", "decided", "known")


KINDS = ("pod", "gang", "quota", "reservation", "node")
_SPACED = ("pod", "gang")
"""Kinds whose objects live in a namespace."""


def question_of(about: str, namespace: str | None) -> WhyQuestion:
    """The question from `NAME`, `NAMESPACE/NAME`, `KIND/NAME` or `KIND/NAMESPACE/NAME`. Raises CliError.

    Of a quota the middle part is its tree. A namespace that is called like a kind is given by `-n`.
    """
    first, slash, rest = about.partition("/")
    kind, text = (first, rest) if slash and first in KINDS else ("pod", about)
    before, slash, after = text.rpartition("/")
    if not after or "/" in before or (slash and not before) or (slash and kind in ("reservation", "node")):
        raise CliError(f"{about!r} is not a name: write NAME, NAMESPACE/NAME, or KIND/NAME ({', '.join(KINDS)})")
    if kind not in _SPACED:
        if namespace is not None:
            raise CliError(f"a {kind} has no namespace: leave -n out")
        return WhyQuestion(kind="pod" if kind == "reservation" else kind, namespace=before, name=after)
    if before and namespace not in (None, before):
        raise CliError(f"{about} names another namespace than -n {namespace}")
    return WhyQuestion(kind=kind, namespace=before or namespace or "default", name=after)


async def ask_why(bus: Bus, question: WhyQuestion) -> WhyAnswer | None:
    """The best answer of all solvers; None when none answers."""
    answers = await ask_replicas(bus, SUBJECT, question, WhyAnswer)
    return min(answers, key=_rank, default=None)


def _rank(answer: WhyAnswer) -> tuple[bool, int]:
    """The solver that decides the pod goes first, then the answer that says most."""
    return not answer.mine, _RANK.index(answer.outcome) if answer.outcome in _RANK else len(_RANK)


async def why(about: str, *, namespace: str | None, bus: BusOptions, as_json: bool) -> int:
    """Print the answer; EXIT_BAD when the pod or gang has no node, or nobody knows what was asked about."""
    question = question_of(about, namespace)

    async def ask(link: Bus) -> tuple[WhyAnswer | None, list[Past], str]:
        return await ask_why(link, question), *await _past(link, question)

    answer, past, unread = await on_bus(bus, ask)
    if answer is None:
        raise nobody("placement-solver")
    if as_json:
        print(msgspec.json.encode({**msgspec.to_builtins(answer), "past": [each.json() for each in past]}).decode())
    else:
        print("\n".join(explained(answer, past, width())))
    if unread:
        print(f"past events are not shown: {unread}", file=sys.stderr)
    return EXIT_OK if answer.outcome in GOOD else EXIT_BAD


async def _past(bus: Bus, question: WhyQuestion) -> tuple[list[Past], str]:
    """What the bus keeps of a pod or Reservation; or nothing, and why its user may not read that."""
    if question.kind != "pod":
        return [], ""
    try:
        return await past_of(bus, question.namespace, question.name), ""
    except Denied as error:
        return [], f"{error}; where the bus has users, name its domain: --nats-domain {DOMAIN}"


def explained(answer: WhyAnswer, past: Sequence[Past] = (), columns_max: int = WIDTH_MAX) -> list[str]:
    """The answer for people, in lines of so many columns."""
    said = "gone" if answer.outcome == "unknown" and past else answer.outcome
    lines = [f"{_title(answer)}  {said}"]
    facts = (
        ("node", answer.node if answer.kind != "node" else ""),
        *held_lines(all_of(answer.grants, answer.devices)),
        ("quota", answer.quota.removeprefix("/")),
        ("reservation", answer.reservation),
        ("gang", answer.gang),
        ("plan", answer.plan),
        ("attempts", str(answer.attempts) if answer.attempts else ""),
        ("waits", _waits(answer, time.time())),
    )
    lines += [f"  {what:<12}{value}" for what, value in facts if value]
    beside = max(map(len, answer.facts), default=10) + 2
    lines += [f"  {what:<{beside}}{fitted(value, columns_max - beside - 2)}" for what, value in answer.facts.items()]
    if answer.message and not answer.reasons and said != "gone":
        lines += _listed("", answer.message, columns_max)
    for reason in answer.reasons:
        lines += _listed("because", reason_line(reason), columns_max)
    for problem in answer.problems:
        lines += _listed("problem", f"{problem.field}: {problem.message}", columns_max)
    if answer.explanation is not None:
        lines += _explained(answer.explanation, columns_max)
    for repair in _repairs(answer):
        lines += _listed("repair", repair, columns_max)
    if answer.pods:
        heading = {"gang": "members", "quota": "waiting for it"}.get(answer.kind, "held by")
        rows = columns([(name, text) for name, text in answer.pods.items()], indent="    ")
        lines += [f"  {heading}", *(fitted(row, columns_max) for row in rows)]
    if past:
        lines += ["  past", *(fitted(f"    {line}", columns_max) for line in past_lines(list(past)))]
    return lines


def _waits(answer: WhyAnswer, now: float) -> str:
    """Since when, and who comes before it."""
    if not answer.waiting_since_ms:
        return ""
    before = f"{answer.before} before it" if answer.before else "first in the queue"
    return f"since {ago(answer.waiting_since_ms / 1000, now)}, {before}"


def _explained(explanation: Explanation, columns_max: int) -> list[str]:
    """What forbids it together, and what is nearest."""
    named = [f"{each.code} {each.what}".rstrip() for each in explanation.forbidden_by]
    together = " together" if len(named) > 1 else ""
    beyond = "" if explanation.is_smallest else "; not all of it may be needed"
    lines = _listed("forbids", f"{', '.join(named)}{together}{beyond}", columns_max)
    if explanation.nearest is not None:
        lines += _listed("nearest", f"{explanation.nearest.node}: {explanation.nearest.message}", columns_max)
    return lines


def _repairs(answer: WhyAnswer) -> list[str]:
    """Those that were tried, the cheapest first; where there are none, or beside nodes, what the reasons say."""
    tried = [each.message for each in answer.explanation.repairs] if answer.explanation is not None else []
    said = [reason.repair for reason in answer.reasons if reason.repair and not tried]
    return list(dict.fromkeys([*tried, *said]))


def _title(answer: WhyAnswer) -> str:
    name = f"{answer.namespace}/{answer.name}" if answer.namespace else answer.name
    return name if answer.kind == "pod" and answer.namespace else f"{_kind(answer)}/{name}"


def _kind(answer: WhyAnswer) -> str:
    return "reservation" if answer.kind == "pod" else answer.kind


def _listed(what: str, text: str, columns_max: int) -> list[str]:
    indent = " " * 14
    first, *rest = wrapped(text, indent=indent, width=columns_max)
    return [f"  {what:<12}{first[len(indent) :]}", *rest]
