"""What may go wrong on the way, as functions that somebody outside draws from a seed. By default nothing does.

Each knob is asked at most once per burst of messages, so a function may draw anew every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from berth.testing.simulation.nats.client import SimClient
    from berth.testing.simulation.nats.subscription import Subscription


class _Up(Protocol):
    def __call__(self, client: SimClient, /) -> float: ...


class _Down(Protocol):
    def __call__(self, subscription: Subscription, /) -> float: ...


class _Chunk(Protocol):
    def __call__(self, subscription: Subscription, /) -> int: ...


class _Store(Protocol):
    def __call__(self, stream: str, /) -> float: ...


class _Full(Protocol):
    def __call__(self, stream: str, /) -> bool: ...


class _Subject(Protocol):
    def __call__(self, stream: str, subject: str, /) -> bool: ...


class _Consumer(Protocol):
    def __call__(self, stream: str, consumer: str, /) -> bool: ...


@dataclass
class Faults:
    """Knobs.

    `up_s`: seconds from a client to the server; what one client sends stays in order. `down_s`: seconds from the server
    to a subscription; each stays in order, several overtake each other. `chunk`: how many of the messages that arrived
    together are handed on in one turn, 0 for all. `store_s`: seconds that a stream's own queue takes before it stores
    and answers, so that a read may overtake a write. `drop_ack(stream, subject)`: the acknowledgement of a publish is
    lost, the message is stored. `duplicate(stream, consumer)`: a delivery that awaits an acknowledgement comes twice.
    `full(stream)`: it is as large as it may be; where old messages do not give way, only what replaces one goes in.
    """

    up_s: _Up = lambda _: 0.0
    down_s: _Down = lambda _: 0.0
    chunk: _Chunk = lambda _: 0
    store_s: _Store = lambda _: 0.0
    drop_ack: _Subject = lambda _stream, _subject: False
    duplicate: _Consumer = lambda _stream, _consumer: False
    full: _Full = lambda _: False
