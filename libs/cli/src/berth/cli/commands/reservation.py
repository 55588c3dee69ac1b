"""`berth reservation`: all Reservations, or one with its users, its borrowers and who waits for it."""

from __future__ import annotations

import msgspec

from berth.bus import BusError
from berth.cli.bus_options import BusOptions
from berth.cli.commands.why import ask_why, explained
from berth.cli.connect import connected
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.output import columns, fitted, width
from berth.cli.program import program
from berth.contracts.question import WhyAnswer, WhyQuestion


async def reservation(name: str, *, bus: BusOptions, as_json: bool) -> int:
    """Print it; EXIT_BAD when nobody knows one of this name."""
    question = WhyQuestion(kind="pod" if name else "reservations", namespace="", name=name)
    async with connected(bus) as link:
        try:
            answer = await ask_why(link, question)
        except BusError as error:
            raise CliError(f"the bus does not answer: {error}") from error
    if answer is None:
        raise CliError(f"no placement-solver answers; `{program()} status` shows what is running")
    if as_json:
        print(msgspec.json.encode(answer).decode())
    else:
        print("\n".join(explained(answer, (), width()) if name else listed(answer, width())))
    return EXIT_OK if answer.outcome != "unknown" else EXIT_BAD


def listed(answer: WhyAnswer, columns_max: int) -> list[str]:
    """A line for each Reservation, and how many there are."""
    rows = columns([(name, text) for name, text in answer.pods.items()], indent="")
    return [*(fitted(row, columns_max) for row in rows), answer.message]
