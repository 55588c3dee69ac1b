"""What can happen to a kind of objects that somebody follows, as values."""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeVar

from berth.contracts.kube import AnyObject
from berth.kube.answer import Answer
from berth.kube.decoding import HasMeta, Malformed

T = TypeVar("T", bound=HasMeta)
ChangeKind = Literal["ADDED", "MODIFIED"]


class Began(NamedTuple):
    """A list begins. One that began before and did not finish is void."""


class Seen(NamedTuple, Generic[T]):
    """An object of the list that is under way."""

    raw: bytes
    item: T
    version: int


class Finished(NamedTuple):
    """The list is complete: it shows the moment `version`, and `keys` are all that exists, readable or not."""

    version: int
    keys: frozenset[str]


class Changed(NamedTuple, Generic[T]):
    """An object came or changed after the list."""

    kind: ChangeKind
    item: T
    version: int


class Deleted(NamedTuple, Generic[T]):
    """An object is gone; `version` is that of the deletion. Only metadata of an object that could not be read."""

    item: T | AnyObject
    version: int


class Bookmark(NamedTuple):
    """Everything up to `version` has been delivered."""

    version: int


class Refused(NamedTuple):
    """A list or watch came to nothing; it is tried again after `wait_s`, or before when an outage ends."""

    answer: Answer
    wait_s: float


class Ended(NamedTuple):
    """The last item of `stream`: how it ended."""

    answer: Answer


WatchEvent = Began | Seen[T] | Finished | Changed[T] | Deleted[T] | Bookmark | Malformed | Refused
