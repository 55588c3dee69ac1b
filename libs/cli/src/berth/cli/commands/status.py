"""`berth status`: every instance of every service, and whether something is missing."""

from __future__ import annotations

import asyncio
import time

import msgspec

from berth.bus import Bus
from berth.cli.asking import on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.errors import EXIT_BAD, EXIT_OK
from berth.cli.facts import fact_texts
from berth.cli.output import WIDTH_MAX, columns, width, wrapped
from berth.cli.stack.services import IN_CLUSTERS, SERVICES
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.subjects import question_subject

ANSWER_WAITS_S = (1.0, 3.0)
"""How long answers are gathered; the second time only where nobody answers the first: a service may be busy."""
FACT_LINES = 2
PER_NODE = frozenset(spec.name for spec in SERVICES if spec.per_node)
BESIDE = frozenset(spec.name for spec in (*SERVICES, *IN_CLUSTERS) if spec in IN_CLUSTERS or spec.on_request)
OPTIONAL = PER_NODE | BESIDE
"""Services without which the control plane is whole: some installations have them."""
LEFT_WIDTH_MAX = 50
"""Where figures begin at the latest; a longer name has them on the next line."""
LEGEND = "active does the work, standby takes over when it ends; --json has every figure, unrounded"


async def ask_status(bus: Bus) -> dict[str, list[StatusAnswer]]:
    """The answers of all instances, by service, sorted by instance; empty where nobody answers."""
    question = encode(StatusQuestion())

    async def of(service: str) -> list[StatusAnswer]:
        answers: list[StatusAnswer] = []
        for wait_s in ANSWER_WAITS_S[:1] if service in OPTIONAL else ANSWER_WAITS_S:
            if answers:
                break
            for raw in await bus.ask_all(question_subject(service, "status"), question, wait_s=wait_s):
                try:
                    answers.append(decode(raw, StatusAnswer))
                except InvalidMessage:
                    continue  # an instance of another version; it counts as missing
        return sorted(answers, key=lambda answer: answer.instance)

    names = [spec.name for spec in (*SERVICES, *IN_CLUSTERS)]
    return dict(zip(names, await asyncio.gather(*map(of, names)), strict=True))


def problems_of(services: dict[str, list[StatusAnswer]]) -> list[str]:
    """What is missing, one sentence each."""
    found = []
    for name, answers in services.items():
        if not answers and name in OPTIONAL:
            continue
        if not answers:
            found.append(f"{name}: no instance answers")
        elif not any(answer.active for answer in answers):
            found.append(f"{name}: no instance is active")
        found += [f"{name}: {answer.instance} is not ready" for answer in answers if not answer.ready]
    return found


async def status(*, bus: BusOptions, as_json: bool) -> int:
    """Print the table; EXIT_BAD when something is missing."""
    services = await on_bus(bus, ask_status)
    problems = problems_of(services)
    if as_json:
        flat = [answer for answers in services.values() for answer in answers]
        print(msgspec.json.encode({"services": flat, "problems": problems}).decode())
    else:
        for line in table(services, time.time(), width()):
            print(line)
        for problem in problems:
            print(f"missing  {problem}")
        print(f"\n{LEGEND}")
    return EXIT_BAD if problems else EXIT_OK


def table(services: dict[str, list[StatusAnswer]], now: float, columns_max: int = WIDTH_MAX) -> list[str]:
    """A line per instance, its figures wrapped beside it to lines of so many columns."""
    rows = [("INSTANCE", "ROLE", "READY", "")]
    figures = ["FACTS"]
    for name, answers in services.items():
        if not answers and name not in BESIDE:
            rows.append((name, "-", "no", ""))
            figures.append("runs on no node" if name in PER_NODE else "no instance answers")
        for answer in answers:
            role, ready = "active" if answer.active else "standby", "yes" if answer.ready else "no"
            rows.append((_instance(name, answer.instance), role, ready, ""))
            figures.append(" · ".join(fact_texts(answer.facts, now)))
    left = [line.ljust(1) for line in columns(rows)]
    beside = min(max(map(len, left)) + 2, LEFT_WIDTH_MAX, columns_max // 2)
    lines = []
    for start, facts in zip(left, figures, strict=True):
        first, *rest = wrapped(facts, indent=" " * beside, width=columns_max, lines_max=FACT_LINES) or [""]
        if len(start) > beside - 2:
            lines += [start, first, *rest]
        else:
            lines += [f"{start.ljust(beside)}{first[beside:]}".rstrip(), *rest]
    return lines


def _instance(service: str, instance: str) -> str:
    """In a cluster an instance is named like its pod, which begins with the service; elsewhere it may be anything."""
    return instance if instance.startswith(service) else f"{service} {instance}"
