"""`berth why`: where a pod is and why, or why it is nowhere and what would help."""

from __future__ import annotations

import msgspec

from berth.bus import Bus, BusError
from berth.cli.bus_options import BusOptions
from berth.cli.connect import connected
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.lines import devices_text, reason_line
from berth.cli.output import wrapped
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.question import WhyAnswer, WhyQuestion
from berth.contracts.subjects import question_subject

ANSWER_WAITS_S = (0.6, 4.0)
"""How long answers are gathered; the second time only when nobody answers the first: a solver may be busy."""
SUBJECT = question_subject("placement-solver", "why")
_RANK = ("bound", "decided", "refused", "waiting", "foreign", "unknown")
GOOD = ("bound", "decided")


def name_of(pod: str, namespace: str | None) -> tuple[str, str]:
    """Namespace and name from `name`, `namespace/name` and the option. Raises CliError."""
    before, slash, after = pod.partition("/")
    name = after if slash else before
    if slash and namespace not in (None, before):
        raise CliError(f"{pod} names another namespace than -n {namespace}")
    if not name or "/" in name or (slash and not before):
        raise CliError(f"{pod!r} is not a pod: write NAME, or NAMESPACE/NAME")
    return (before if slash else namespace or "default"), name


async def ask_why(bus: Bus, namespace: str, name: str) -> WhyAnswer | None:
    """The best answer of all solvers; None when none answers."""
    question = encode(WhyQuestion(namespace=namespace, name=name))
    answers = []
    for wait_s in ANSWER_WAITS_S:
        for raw in await bus.ask_all(SUBJECT, question, wait_s=wait_s):
            try:
                answers.append(decode(raw, WhyAnswer))
            except InvalidMessage:
                continue  # a solver of another version
        if answers:
            break
    return min(answers, key=_rank, default=None)


def _rank(answer: WhyAnswer) -> tuple[bool, int]:
    """The solver that decides the pod goes first, then the answer that says most."""
    return not answer.mine, _RANK.index(answer.outcome) if answer.outcome in _RANK else len(_RANK)


async def why(pod: str, *, namespace: str | None, bus: BusOptions, as_json: bool) -> int:
    """Print the answer; EXIT_BAD when the pod has no node."""
    home, name = name_of(pod, namespace)
    async with connected(bus) as link:
        try:
            answer = await ask_why(link, home, name)
        except BusError as error:
            raise CliError(f"the bus does not answer: {error}") from error
    if answer is None:
        raise CliError("no placement-solver answers; `berth status` shows what is running")
    if as_json:
        print(msgspec.json.encode(answer).decode())
    else:
        print("\n".join(explained(answer)))
    return EXIT_OK if answer.outcome in GOOD else EXIT_BAD


def explained(answer: WhyAnswer) -> list[str]:
    """The answer for people."""
    lines = [f"{answer.namespace}/{answer.name}  {answer.outcome}"]
    facts = (
        ("node", answer.node),
        ("devices", devices_text(answer.devices)),
        ("quota", answer.quota.removeprefix("/")),
        ("reservation", answer.reservation),
        ("gang", answer.gang),
        ("plan", answer.plan),
        ("attempts", str(answer.attempts) if answer.attempts else ""),
    )
    lines += [f"  {what:<12}{value}" for what, value in facts if value]
    if answer.message and not answer.reasons:
        lines += _listed("", answer.message)
    for reason in answer.reasons:
        lines += _listed("because", reason_line(reason))
    for problem in answer.problems:
        lines += _listed("problem", f"{problem.field}: {problem.message}")
    for repair in dict.fromkeys(reason.repair for reason in answer.reasons if reason.repair):
        lines += _listed("repair", repair)
    return lines


def _listed(what: str, text: str) -> list[str]:
    indent = " " * 14
    first, *rest = wrapped(text, indent=indent)
    return [f"  {what:<12}{first[len(indent) :]}", *rest]
