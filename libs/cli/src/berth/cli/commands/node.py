"""`berth node`: a node with its devices, NUMA nodes and cores, who holds them, what is in flight, and how its agent's
strategies stand."""

from __future__ import annotations

import asyncio

import msgspec

from berth.bus import Bus
from berth.cli.asking import ask_replicas, nobody, on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.node_drawing import drawn
from berth.cli.output import width
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.question import NodeAnswer, NodeQuestion, StatusAnswer, StatusQuestion
from berth.contracts.subjects import question_subject

SUBJECT = question_subject("placement-solver", "node")
AGENTS = question_subject("node-qos-enforcer", "status")
AGENTS_WAIT_S = 0.6
KNOWN = "known"
STRATEGY = "strategy_"
"""What figures of an agent begin with that say how a strategy stands."""


async def ask_node(bus: Bus, name: str) -> NodeAnswer | None:
    """The answer of a solver, one that knows the node if there is one; None when none answers."""
    answers = await ask_replicas(bus, SUBJECT, NodeQuestion(name=name), NodeAnswer)
    return min(answers, key=lambda answer: answer.outcome != KNOWN, default=None)


async def ask_agent(bus: Bus, name: str) -> dict[str, str]:
    """How the strategies of a node's agent stand, by name; empty where no agent of that node answers."""
    for raw in await bus.ask_all(AGENTS, encode(StatusQuestion()), wait_s=AGENTS_WAIT_S):
        try:
            facts = decode(raw, StatusAnswer).facts
        except InvalidMessage:
            continue  # an agent of another version
        if facts.get("node") == name:
            return {key.removeprefix(STRATEGY): str(words) for key, words in facts.items() if key.startswith(STRATEGY)}
    return {}


async def node(name: str, *, bus: BusOptions, as_json: bool) -> int:
    """Print the node; EXIT_BAD when nobody knows it."""
    asked = name.removeprefix("node/")
    if not asked or "/" in asked:
        raise CliError(f"{name!r} is not the name of a node")
    answer, strategies = await on_bus(bus, lambda link: asyncio.gather(ask_node(link, asked), ask_agent(link, asked)))
    if answer is None:
        raise nobody("placement-solver")
    if as_json:
        print(msgspec.json.encode({**msgspec.to_builtins(answer), "strategies": strategies}).decode())
    else:
        print("\n".join(drawn(answer, width(), strategies)))
    return EXIT_OK if answer.outcome == KNOWN else EXIT_BAD
