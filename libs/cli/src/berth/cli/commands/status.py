"""`berth status`: every instance of every service, and whether something is missing."""

from __future__ import annotations

import asyncio

import msgspec

from berth.bus import Bus, BusError
from berth.cli.connect import connected
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.output import columns, wrapped
from berth.cli.stack.services import SERVICES
from berth.contracts.codec import decode, encode
from berth.contracts.errors import Broken
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.subjects import question_subject

ANSWER_WAIT_S = 1.0
FACT_LINES = 2


async def ask_status(bus: Bus) -> dict[str, list[StatusAnswer]]:
    """The answers of all instances, by service, sorted by instance; empty where nobody answers."""
    question = encode(StatusQuestion())

    async def of(service: str) -> list[StatusAnswer]:
        answers = []
        for raw in await bus.ask_all(question_subject(service, "status"), question, wait_s=ANSWER_WAIT_S):
            try:
                answers.append(decode(raw, StatusAnswer))
            except Broken:
                continue  # an instance of another version; it counts as missing
        return sorted(answers, key=lambda answer: answer.instance)

    names = [spec.name for spec in SERVICES]
    return dict(zip(names, await asyncio.gather(*map(of, names)), strict=True))


def problems_of(services: dict[str, list[StatusAnswer]]) -> list[str]:
    """What is missing, one sentence each."""
    found = []
    for name, answers in services.items():
        if not answers:
            found.append(f"{name}: no instance answers")
        elif not any(answer.active for answer in answers):
            found.append(f"{name}: no instance is active")
        found += [f"{name}: {answer.instance} is not ready" for answer in answers if not answer.ready]
    return found


async def status(*, nats: str | None, as_json: bool) -> int:
    """Print the table; EXIT_BAD when something is missing."""
    async with connected(nats) as bus:
        try:
            services = await ask_status(bus)
        except BusError as error:
            raise CliError(f"the bus does not answer: {error}") from error
    problems = problems_of(services)
    if as_json:
        flat = [answer for answers in services.values() for answer in answers]
        print(msgspec.json.encode({"services": flat, "problems": problems}).decode())
    else:
        for line in table(services):
            print(line)
        for problem in problems:
            print(f"missing  {problem}")
    return EXIT_BAD if problems else EXIT_OK


def table(services: dict[str, list[StatusAnswer]]) -> list[str]:
    """A line per instance, its figures wrapped beside it."""
    rows = [("SERVICE", "INSTANCE", "ROLE", "READY", "")]
    figures = ["FACTS"]
    for name, answers in services.items():
        if not answers:
            rows.append((name, "-", "-", "no", ""))
            figures.append("")
        for answer in answers:
            shown = "=" if answer.instance == name else answer.instance
            rows.append((name, shown, "active" if answer.active else "standby", "yes" if answer.ready else "no", ""))
            figures.append(" · ".join(f"{key} {value}" for key, value in answer.facts.items() if value != ""))
    left = [line.ljust(1) for line in columns(rows)]
    width = max(map(len, left)) + 2
    lines = []
    for start, facts in zip(left, figures, strict=True):
        first, *rest = wrapped(facts, indent=" " * width, lines_max=FACT_LINES) or [""]
        lines += [f"{start.ljust(width)}{first[width:]}".rstrip(), *rest]
    return lines
