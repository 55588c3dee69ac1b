"""What the optimiser said, and whose capacity was kept while it thought, as plans say it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from berth.contracts.ledger import Decision
from berth.contracts.round import Answer
from berth.placement_solver.core.displacers.advice import Advice
from berth.recording.grounds import pack, unpack
from berth.transaction.claims import Name

ANSWER_BYTES_MAX: Final = 64 << 10
"""A larger answer is not told: plans that go by it are not made again."""
KEPT_BYTES_MAX: Final = 64 << 10
"""The same of what is kept, packed."""

_decoder: Final[msgspec.json.Decoder[list[Decision]]] = msgspec.json.Decoder(list[Decision])


def joined(name: Name) -> str:
    """A name in one word, as plans say it."""
    return "/".join(name)


def parted(text: str) -> Name:
    """The name of such a word."""
    namespace, _, name = text.partition("/")
    return namespace, name


def answer_of(nodes: Mapping[Name, str], leave: Collection[str] = ()) -> Answer:
    """Which node each has, and who leaves for that."""
    places: dict[str, list[str]] = {}
    for name, node in nodes.items():
        places.setdefault(node, []).append(joined(name))
    return Answer(places=places, leave=sorted(leave))


def is_too_large(answer: Answer) -> bool:
    """Whether it is more than a plan tells."""
    return len(msgspec.json.encode(answer)) > ANSWER_BYTES_MAX


def nodes_in(answer: Answer) -> dict[Name, str]:
    """Which node each has."""
    return {parted(text): node for node, listed in answer.places.items() for text in listed}


def advice_in(answer: Answer) -> Advice:
    """The answer as an advice."""
    return Advice(nodes_in(answer), frozenset(answer.leave))


class Kept(NamedTuple):
    """Decisions whose capacity is kept: packed, and the name and uid of each in this order. `text` is empty where they
    are more than a ground tells."""

    text: str
    keys: tuple[tuple[Name, str], ...]


NOTHING_KEPT: Final = Kept("", ())


def kept_of(decisions: Sequence[Decision]) -> Kept:
    """These are kept."""
    text = pack(msgspec.json.encode(decisions))
    keys = tuple(((each.namespace, each.name), each.uid) for each in decisions)
    return Kept(text if len(text) <= KEPT_BYTES_MAX else "", keys)


def kept_in(text: str) -> list[Decision]:
    """The decisions. Raises ValueError for what is no list of them."""
    return _decoder.decode(unpack(text)) if text else []
