"""`berth quota`: the tree of quota groups, what each may use and uses, what is lent to whom, and who waits why."""

from __future__ import annotations

import msgspec

from berth.bus import Bus
from berth.cli.asking import ask_replicas, nobody, on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.output import width
from berth.cli.quota_drawing import drawn
from berth.contracts.quota_question import QuotaAnswer, QuotaQuestion
from berth.contracts.subjects import question_subject

SUBJECT = question_subject("quota-manager", "quota")


async def ask_quotas(bus: Bus, name: str) -> QuotaAnswer | None:
    """The answer of a replica, one that has seen everything if there is one; None when none answers."""
    answers = await ask_replicas(bus, SUBJECT, QuotaQuestion(name=name), QuotaAnswer)
    return max(answers, key=lambda answer: (answer.ready, len(answer.groups)), default=None)


async def quota(name: str, *, bus: BusOptions, as_json: bool) -> int:
    """Print the tree; EXIT_BAD when there is no such group."""
    asked = name.removeprefix("quota/")
    if "/" in asked:
        raise CliError(f"{name!r} is not the name of a quota group: write it without its tree or namespace")
    answer = await on_bus(bus, lambda link: ask_quotas(link, asked))
    if answer is None:
        raise nobody("quota-manager")
    if as_json:
        print(msgspec.json.encode(answer).decode())
    else:
        print("\n".join(drawn(answer, asked, width())))
    return EXIT_BAD if asked and not answer.groups else EXIT_OK
