"""`berth node`: a node with its devices, NUMA nodes and cores, who holds them, and what is in flight."""

from __future__ import annotations

import msgspec

from berth.bus import Bus
from berth.cli.asking import ask_replicas, nobody, on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.node_drawing import drawn
from berth.cli.output import width
from berth.contracts.question import NodeAnswer, NodeQuestion
from berth.contracts.subjects import question_subject

SUBJECT = question_subject("placement-solver", "node")
KNOWN = "known"


async def ask_node(bus: Bus, name: str) -> NodeAnswer | None:
    """The answer of a solver, one that knows the node if there is one; None when none answers."""
    answers = await ask_replicas(bus, SUBJECT, NodeQuestion(name=name), NodeAnswer)
    return min(answers, key=lambda answer: answer.outcome != KNOWN, default=None)


async def node(name: str, *, bus: BusOptions, as_json: bool) -> int:
    """Print the node; EXIT_BAD when nobody knows it."""
    asked = name.removeprefix("node/")
    if not asked or "/" in asked:
        raise CliError(f"{name!r} is not the name of a node")
    answer = await on_bus(bus, lambda link: ask_node(link, asked))
    if answer is None:
        raise nobody("placement-solver")
    if as_json:
        print(msgspec.json.encode(answer).decode())
    else:
        print("\n".join(drawn(answer, width())))
    return EXIT_OK if answer.outcome == KNOWN else EXIT_BAD
