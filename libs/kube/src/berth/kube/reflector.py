"""Keeps a handler informed of every object of a kind, for ever.

The handler is synchronous and must be fast: it records and marks what changed; decisions belong elsewhere. Between two
calls the reflector waits while it is full, so that a handler whose own output is slow slows the reading down.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import Generic, TypeVar, assert_never

from berth.contracts.kube import AnyObject
from berth.kube.answer import Answer
from berth.kube.api import KubeApi, Selection
from berth.kube.clock import Clock
from berth.kube.decoding import HasMeta, Malformed
from berth.kube.outages import Outages
from berth.kube.watch_events import (
    Began,
    Bookmark,
    Changed,
    ChangeKind,
    Deleted,
    Finished,
    Refused,
    Seen,
    WatchEvent,
)
from berth.kube.watching import Watching, WatchSettings

T = TypeVar("T", bound=HasMeta)
T_contra = TypeVar("T_contra", bound=HasMeta, contravariant=True)


class Handler(Generic[T_contra]):
    """What a reflector calls, in the server's order. Derive from it; a call that is not overridden does nothing."""

    def began(self) -> None:
        """A list begins. Another that began before and was not finished is void."""

    def seen(self, raw: bytes, item: T_contra, version: int) -> None:
        """An object of the list under way; `version` is its resource version."""

    def finished(self, version: int, keys: frozenset[str]) -> None:
        """The list is complete and shows the moment `version`; what is not in `keys` (namespace/name) is not there."""

    def changed(self, kind: ChangeKind, item: T_contra) -> None:
        """An object came or changed."""

    def deleted(self, item: T_contra | AnyObject, version: int) -> None:
        """An object is gone. `version` is that of its deletion; of an unreadable object only the metadata are known."""

    def bookmark(self, version: int) -> None:
        """Everything up to `version` has been delivered."""

    def malformed(self, key: str, uid: str, version: int, field: str, message: str) -> None:
        """An object, in a list or changed, that does not fit; `field` is the path of what is wrong.

        With an empty key not even its name is known; a new list follows.
        """

    def refused(self, answer: Answer, wait_s: float) -> None:
        """A list or a watch came to nothing and is tried again after `wait_s`, or before when an outage ends.

        `answer.not_installed`: the kind does not exist.
        """

    async def wait_while_full(self) -> None:
        """Return when the next call may come."""


class Reflector(Generic[T]):
    """List and watch of one selection, delivered to one handler."""

    def __init__(
        self,
        api: KubeApi,
        selection: Selection,
        item_type: type[T],
        handler: Handler[T],
        *,
        clock: Clock,
        rng: random.Random,
        settings: WatchSettings | None = None,
        outages: Outages | None = None,
    ) -> None:
        """`outages` is shared by reflectors that come back together after an outage of their API server."""
        self._watching = Watching(api, selection, item_type, clock=clock, rng=rng, settings=settings, outages=outages)
        self._handler = handler
        self.version = 0
        """Resource version through which the handler knows everything."""
        self.listed = asyncio.Event()
        """Set once the first list is complete."""
        self.last_refusal: Answer | None = None
        """Why the last list or watch came to nothing; None while things go well."""

    async def run(self) -> None:
        """Never returns. An exception of the handler is a mistake in the program and comes out here."""
        async with aclosing(self._watching.forever()) as watch_events:
            async for watch_event in watch_events:
                self._tell(watch_event)
                await self._handler.wait_while_full()

    def _tell(self, watch_event: WatchEvent[T]) -> None:
        handler = self._handler
        match watch_event:
            case Changed(kind, item, version):
                handler.changed(kind, item)
                self._reached(version)
            case Deleted(item, version):
                handler.deleted(item, version)
                self._reached(version)
            case Bookmark(version):
                handler.bookmark(version)
                self._reached(version)
            case Seen(raw, item, version):
                handler.seen(raw, item, version)
            case Began():
                handler.began()
            case Finished(version, keys):
                handler.finished(version, keys)
                self._reached(version)
                self.listed.set()
            case Malformed(key, uid, version, field, message):
                handler.malformed(key, uid, version, field, message)
            case Refused(answer, wait_s):
                self.last_refusal = answer
                handler.refused(answer, wait_s)
            case _:
                assert_never(watch_event)

    def _reached(self, version: int) -> None:
        self.version = version
        self.last_refusal = None
