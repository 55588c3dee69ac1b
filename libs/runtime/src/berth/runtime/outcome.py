"""What a reconciler answers: writes, commands and events as values. Its caller carries them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from berth.contracts.base import Message


class Moment(NamedTuple):
    """A reading of the clock, in seconds. `now` is Unix time and may go back; `monotonic` never does."""

    now: float
    monotonic: float

    @property
    def ms(self) -> int:
        """Unix time in whole milliseconds."""
        return int(self.now * 1000)


class Event(NamedTuple):
    """An event for people: dropped, and counted, when the queue is full. `level` and `fields` are its line in the log
    (none without a level)."""

    subject: str
    message: Message
    id: str
    level: str = ""
    text: str = ""
    fields: Mapping[str, object] = {}


class Command(NamedTuple):
    """A command. One that `may_drop` is asked for again later anyway, and dropped when the queue is full."""

    subject: str
    message: Message
    id: str
    may_drop: bool = False


class Write(NamedTuple):
    """A message under a key of the service's own bucket; None deletes. `events` are sent if it changes the bucket."""

    key: str
    message: Message | None
    events: Sequence[Event] = ()


class Outcome(NamedTuple):
    """What one look at one name comes to; empty when everything is as it should be.

    `commands_first`: the writes are the record that the commands were sent. Otherwise commands go last, so that no
    write waits for a place in their queue.
    """

    writes: Sequence[Write] = ()
    commands: Sequence[Command] = ()
    events: Sequence[Event] = ()
    commands_first: bool = False


NOTHING = Outcome()


class Reconciler(Protocol):
    """Decides about one name at a time, from its views. No I/O, no clock: the time is an argument."""

    @property
    def is_ready(self) -> bool:
        """The views show enough to decide."""
        ...

    @property
    def missing(self) -> str:
        """What the views still lack, for people."""
        ...

    @property
    def facts(self) -> Mapping[str, str | int | float | bool]:
        """What the question for the status is answered with."""
        ...

    def begin(self) -> None:
        """This replica becomes active: what it remembers of its last time may be outdated."""
        ...

    def names(self) -> Sequence[str]:
        """Every name that may need something."""
        ...

    def due(self, at: Moment) -> Sequence[str]:
        """Names that time alone is a reason to look at."""
        ...

    def reconcile(self, name: str, at: Moment) -> Outcome:
        """What to write and to send so that all is as the views say it should be."""
        ...
