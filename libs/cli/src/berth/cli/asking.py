"""A question to all replicas of a service, and what they answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from berth.bus import Bus, BusError
from berth.cli.bus_options import BusOptions
from berth.cli.connect import connected
from berth.cli.errors import CliError
from berth.cli.program import program
from berth.contracts.base import Message
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage

ANSWER_WAITS_S: Final = (0.6, 4.0)
"""How long answers are gathered; the second time only when nobody answers the first: a replica may be busy."""

A = TypeVar("A", bound=Message)
T = TypeVar("T")


async def ask_replicas(
    bus: Bus, subject: str, question: Message, answer: type[A], waits_s: Sequence[float] = ANSWER_WAITS_S
) -> list[A]:
    """The answers that can be read; empty when none answers."""
    payload = encode(question)
    answers: list[A] = []
    for wait_s in waits_s:
        for raw in await bus.ask_all(subject, payload, wait_s=wait_s):
            try:
                answers.append(decode(raw, answer))
            except InvalidMessage:
                continue  # a replica of another version
        if answers:
            break
    return answers


async def on_bus(options: BusOptions, ask: Callable[[Bus], Awaitable[T]]) -> T:
    """What `ask` finds on the bus that the options name. Raises CliError when the bus does not answer."""
    async with connected(options) as bus:
        try:
            return await ask(bus)
        except BusError as error:
            raise CliError(f"the bus does not answer: {error}") from error


def nobody(service: str) -> CliError:
    """That no replica of a service answers."""
    return CliError(f"no {service} answers; `{program()} status` shows what is running")
