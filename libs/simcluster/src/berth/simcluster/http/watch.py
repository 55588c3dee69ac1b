"""Watches: every change is turned into one line, and the same bytes go to all who see it.

A watcher is a list of lines, and a task that writes them or a callback that gets them (`on_lines`). Lines that
arrive meanwhile go together.
A watcher that does not keep up is closed (the API server does that too); its client lists again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from berth.simcluster.store import Event
from berth.simcluster.store.collection import Match, event_line
from berth.simcluster.store.objects import encode
from berth.simcluster.store.resource import ResourceType

BACKLOG_LIMIT_BYTES = 64 * 1024 * 1024

Translate = Callable[[Event], Event]


class Watcher:
    """One open watch."""

    def __init__(
        self,
        resource: ResourceType,
        api_version: str,
        prefix: str,
        match: Match | None,
        translate: Translate | None,
        *,
        bookmarks: bool,
    ) -> None:
        """`prefix`: of the keys to be seen. `translate`: for versions other than the stored one."""
        self.resource = resource
        self.bookmarks = bookmarks
        self.closed = False
        self.on_lines: Callable[[], None] | None = None
        """Called when there are lines to take, or the watch was closed."""
        self._api_version = api_version
        self._prefix = prefix
        self._match = match
        self._translate = translate
        self._lines: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None

    def offer(self, event: Event) -> None:
        """See a change, if it is one to be seen."""
        if self._prefix and not event.obj.key.startswith(self._prefix):
            return
        line = (self._translate(event) if self._translate else event).line_for(self._match)
        if line is not None:
            self.push(line)

    def push(self, line: bytes) -> None:
        """Queue a line."""
        if self.closed:
            return
        self._lines.append(line)
        self._size += len(line)
        if self._size > BACKLOG_LIMIT_BYTES:
            self._lines.clear()
            self.closed = True
        self._wake()

    def bookmark(self, version: int, *, initial_end: bool = False) -> None:
        """Tell the client how far it has seen everything."""
        meta: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        body = {"kind": self.resource.kind, "apiVersion": self._api_version, "metadata": meta}
        self.push(event_line("BOOKMARK", encode(body)))

    def close(self) -> None:
        """End the watch after what is queued."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        if self.on_lines is not None:
            self.on_lines()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def take(self) -> list[bytes]:
        """All lines queued since they were last taken, each with its newline."""
        lines, self._lines = self._lines, []
        self._size = 0
        return lines

    async def chunks(self) -> AsyncIterator[bytes]:
        """All lines queued since the last chunk, until the watch is closed."""
        while True:
            if self._lines:
                lines = self.take()
                yield lines[0] if len(lines) == 1 else b"".join(lines)
            elif self.closed:
                return
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter


class Hub:
    """Who watches what."""

    def __init__(self) -> None:
        """Nobody yet."""
        self._watchers: dict[tuple[str, str], list[Watcher]] = {}

    def __len__(self) -> int:
        """How many watches are open."""
        return sum(len(each) for each in self._watchers.values())

    def publish(self, event: Event) -> None:
        """Hand a change to every watcher of its resource."""
        for watcher in self._watchers.get(event.resource.id, ()):
            watcher.offer(event)

    def add(self, watcher: Watcher) -> None:
        """Begin to receive."""
        self._watchers.setdefault(watcher.resource.id, []).append(watcher)

    def remove(self, watcher: Watcher) -> None:
        """Receive no more."""
        self._watchers[watcher.resource.id].remove(watcher)

    def bookmark(self, version: int) -> None:
        """Bookmark every watcher that asked for it."""
        for watchers in self._watchers.values():
            for watcher in watchers:
                if watcher.bookmarks:
                    watcher.bookmark(version)

    def close(self, plural: str = "") -> int:
        """End the watches of a resource, or all; returns how many."""
        chosen = [w for each in self._watchers.values() for w in each if plural in ("", w.resource.plural)]
        for watcher in chosen:
            watcher.close()
        return len(chosen)
