"""`berth reservation`: all Reservations, or one with its users, its borrowers and who waits for it."""

from __future__ import annotations

import msgspec

from berth.cli.asking import nobody, on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.commands.why import GOOD, ask_why, explained
from berth.cli.errors import EXIT_BAD, EXIT_OK
from berth.cli.output import columns, fitted, width
from berth.contracts.question import WhyAnswer, WhyQuestion


async def reservation(name: str, *, bus: BusOptions, as_json: bool) -> int:
    """Print it; EXIT_BAD when it has no node, or nobody knows one of this name."""
    question = WhyQuestion(kind="pod" if name else "reservations", namespace="", name=name)
    answer = await on_bus(bus, lambda link: ask_why(link, question))
    if answer is None:
        raise nobody("placement-solver")
    if as_json:
        print(msgspec.json.encode(answer).decode())
    else:
        print("\n".join(explained(answer, (), width()) if name else listed(answer, width())))
    return EXIT_OK if answer.outcome in GOOD else EXIT_BAD


def listed(answer: WhyAnswer, columns_max: int) -> list[str]:
    """A line for each Reservation, and how many there are."""
    rows = columns([(name, text) for name, text in answer.pods.items()], indent="")
    return [*(fitted(row, columns_max) for row in rows), answer.message]
