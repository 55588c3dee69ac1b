"""A question to all replicas of a service, and what they answer."""

from __future__ import annotations

from typing import Final, TypeVar

from berth.bus import Bus
from berth.contracts.base import Message
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage

ANSWER_WAITS_S: Final = (0.6, 4.0)
"""How long answers are gathered; the second time only when nobody answers the first: a solver may be busy."""

A = TypeVar("A", bound=Message)


async def ask_solvers(bus: Bus, subject: str, question: Message, answer: type[A]) -> list[A]:
    """The answers that can be read; empty when no solver answers."""
    payload = encode(question)
    answers: list[A] = []
    for wait_s in ANSWER_WAITS_S:
        for raw in await bus.ask_all(subject, payload, wait_s=wait_s):
            try:
                answers.append(decode(raw, answer))
            except InvalidMessage:
                continue  # a solver of another version
        if answers:
            break
    return answers
