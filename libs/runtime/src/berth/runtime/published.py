"""A service's own bucket as it really is: after a restart, beside another replica, after a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from berth.bus.port import Entry, Sink
from berth.contracts.base import Message
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import named_key, parts

M = TypeVar("M", bound=Message)


class OwnView(Sink, Protocol):
    """A sink of the service's own bucket that also learns of its writes."""

    def name_of(self, key: str) -> str | None:
        """The name to look at again when a write of this key was refused; None: every name."""
        ...

    def get(self, key: str) -> object:
        """What the key shows; another object whenever the bucket shows something else."""
        ...

    def wrote(self, key: str, message: Message | None) -> None:
        """The key is about to be written (None: deleted). Should that be refused, the bucket shows the other value."""
        ...


class PublishedView(Generic[M]):
    """Messages under keys `<kind>.<name>`, by name. A key that shows something else than was written is marked."""

    def __init__(self, kind: str, message_type: type[M], mark: Callable[[str], None]) -> None:
        self.messages: dict[str, M] = {}
        self.keys: dict[str, str] = {}
        """Name by key, for every key that is there, readable or not."""
        self._kind = kind
        self._type = message_type
        self._mark = mark

    def put(self, name: str, message: M | None) -> None:
        """What the key of this name shows now, or will in a moment; None: nothing."""
        key = named_key(self._kind, name)
        if message is None:
            self.messages.pop(name, None)
            self.keys.pop(key, None)
        else:
            self.messages[name] = message
            self.keys[key] = name

    def wrote(self, key: str, message: Message | None) -> None:
        """See `OwnView`."""
        self.put(parts(key)[1], message)  # type: ignore[arg-type]

    def get(self, key: str) -> M | None:
        """See `OwnView`."""
        return self.messages.get(self.keys.get(key, ""))

    def name_of(self, key: str) -> str | None:
        """See `OwnView`."""
        return self.keys.get(key)

    def reset(self) -> None:
        """The bucket begins anew."""
        self.messages.clear()
        self.keys.clear()

    def apply(self, entry: Entry) -> None:
        """A message as published; one that cannot be read counts as absent and is written again."""
        try:
            _, name = parts(entry.key)
        except ValueError:
            return
        try:
            shown = None if entry.deleted else decode(entry.value, self._type)
        except InvalidMessage:
            self.put(name, None)
            self.keys[entry.key] = name
            self._mark(name)
            return
        if shown != self.messages.get(name):
            self.put(name, shown)
            self._mark(name)

    def end(self, sequence: int) -> None:
        """Nothing to do at the end."""
