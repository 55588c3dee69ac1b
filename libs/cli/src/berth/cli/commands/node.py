"""`berth node`: a node with its devices, NUMA nodes and cores, who holds them, what is in flight, what it lends and
why, who left for its sake, and how its agent's strategies stand."""

from __future__ import annotations

import asyncio

import msgspec

from berth.bus import Bus
from berth.cli.asking import ask_replicas, nobody, on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.node_drawing import Beside, drawn
from berth.cli.output import width
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.node_audit import LendingAnswer, LendingQuestion, TrailAnswer, TrailQuestion
from berth.contracts.question import NodeAnswer, NodeQuestion, StatusAnswer, StatusQuestion
from berth.contracts.subjects import question_subject

SUBJECT = question_subject("placement-solver", "node")
AGENTS = question_subject("node-qos-enforcer", "status")
TRAILS = question_subject("node-qos-enforcer", "trail")
LENDING = question_subject("slo-manager", "lending")
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
    for raw in await bus.ask_all(AGENTS, encode(StatusQuestion(node=name)), wait_s=AGENTS_WAIT_S):
        try:
            facts = decode(raw, StatusAnswer).facts
        except InvalidMessage:
            continue  # an agent of another version
        if facts.get("node") == name:
            return {key.removeprefix(STRATEGY): str(words) for key, words in facts.items() if key.startswith(STRATEGY)}
    return {}


async def ask_trail(bus: Bus, name: str) -> TrailAnswer | None:
    """What the node's agent has written last; None where no agent of that node answers."""
    for raw in await bus.ask_all(TRAILS, encode(TrailQuestion(name=name)), wait_s=AGENTS_WAIT_S):
        try:
            found = decode(raw, TrailAnswer)
        except InvalidMessage:
            continue  # an agent of another version
        if found.node == name:
            return found
    return None


async def ask_lending(bus: Bus, name: str) -> LendingAnswer | None:
    """What slo-manager says of the node; None where none answers."""
    answers = await ask_replicas(bus, LENDING, LendingQuestion(name=name), LendingAnswer)
    return min(answers, key=lambda answer: (answer.outcome != KNOWN, answer.offer is None), default=None)


async def node(name: str, *, bus: BusOptions, as_json: bool) -> int:
    """Print the node; EXIT_BAD when nobody knows it."""
    asked = name.removeprefix("node/")
    if not asked or "/" in asked:
        raise CliError(f"{name!r} is not the name of a node")
    answer, strategies, trail, lending = await on_bus(
        bus,
        lambda link: asyncio.gather(
            ask_node(link, asked), ask_agent(link, asked), ask_trail(link, asked), ask_lending(link, asked)
        ),
    )
    if answer is None:
        raise nobody("placement-solver")
    if as_json:
        beside = {"strategies": strategies, "trail": trail, "lending": lending}
        print(msgspec.json.encode({**msgspec.to_builtins(answer), **msgspec.to_builtins(beside)}).decode())
    else:
        print("\n".join(drawn(answer, width(), Beside(strategies, trail, lending))))
    return EXIT_OK if answer.outcome == KNOWN else EXIT_BAD
