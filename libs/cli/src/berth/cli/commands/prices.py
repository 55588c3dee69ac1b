"""`berth prices`: what GPUs are worth to each solver by what arrives, and what one more would admit."""

from __future__ import annotations

import time

import msgspec

from berth.bus import Bus
from berth.cli.asking import ask_replicas, nobody, on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.errors import EXIT_BAD, EXIT_OK
from berth.cli.output import width
from berth.cli.prices_drawing import REFUSED, drawn
from berth.contracts.prices import PricesAnswer, PricesQuestion
from berth.contracts.subjects import question_subject

SUBJECT = question_subject("placement-solver", "prices")


async def ask_prices(bus: Bus) -> list[PricesAnswer]:
    """The answers of all solvers, in the order of their names."""
    answers = await ask_replicas(bus, SUBJECT, PricesQuestion(), PricesAnswer)
    return sorted(answers, key=lambda answer: answer.solver)


async def prices(*, bus: BusOptions, as_json: bool) -> int:
    """Print the tables; EXIT_BAD where a price maker's last answer was refused."""
    answers = await on_bus(bus, ask_prices)
    if not answers:
        raise nobody("placement-solver")
    if as_json:
        print(msgspec.json.encode({"solvers": answers}).decode())
    else:
        print("\n".join(drawn(answers, time.time(), width())))
    return EXIT_BAD if any(answer.last in REFUSED for answer in answers) else EXIT_OK
