"""All objects of one resource, in key order, with the recent past.

The past is a list of events, each with the object before and after. It serves two things: watches from a version, and
lists at a version (a page of a paged list shows the cluster as the first page saw it). Both end where the kept past
ends; then the answer is None, which the API reports as 410.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import NamedTuple

from berth.simcluster.store.objects import Json, Obj
from berth.simcluster.store.resource import ResourceType

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

Match = Callable[[Json], bool]
_AFTER_ALL = "￿"


def event_line(kind: str, raw: bytes) -> bytes:
    """One line of a watch stream."""
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"


class Event:
    """One change.

    The version it made, and the object before (`None` for ADDED) and after (for DELETED: its last state).
    """

    __slots__ = ("_gone", "_line", "kind", "obj", "prev", "resource", "version")

    def __init__(self, resource: ResourceType, kind: str, obj: Obj, prev: Obj | None) -> None:
        """Keep references; nothing is encoded before somebody watches."""
        self.resource = resource
        self.kind = kind
        self.obj = obj
        self.prev = prev
        self.version = obj.version
        self._line: bytes | None = None
        self._gone: bytes | None = None

    def line(self) -> bytes:
        """The event as a line for a watch without selectors; made once."""
        if self._line is None:
            self._line = event_line(self.kind, self.obj.raw)
        return self._line

    def line_for(self, match: Match | None) -> bytes | None:
        """The event as a watch with selectors sees it.

        An object that begins to match is ADDED, one that ceases to match is DELETED (with its last matching state),
        as in the API server. None: not to be seen.
        """
        if match is None:
            return self.line()
        was = self.prev is not None and match(self.prev.data)
        if self.kind == DELETED:
            return self.line() if was else None
        if match(self.obj.data):
            return self.line() if was == (self.kind == MODIFIED) else event_line(ADDED, self.obj.raw)
        if not was or self.prev is None:
            return None
        if self._gone is None:
            data = {**self.prev.data, "metadata": dict(self.prev.meta)}
            self._gone = event_line(DELETED, Obj(self.obj.key, data, self.version).raw)
        return self._gone


class Page(NamedTuple):
    """A part of a list.

    Objects in key order, the key after which to go on (None: complete), how many follow if known.
    """

    items: list[Obj]
    after: str | None
    remaining: int | None


class Collection:
    """The objects of one resource.

    `history` is the least number of events kept; `floor` the version before the oldest of them.
    """

    def __init__(self, resource: ResourceType, history: int, floor: int) -> None:
        """Start empty at version `floor`."""
        self.resource = resource
        self.items: dict[str, Obj] = {}
        self.keys: list[str] = []
        self.log: list[Event] = []
        self.floor = floor
        self._history = history
        self._slack = history + history // 4 + 1

    def record(self, event: Event) -> None:
        """Apply an event that the caller has built from the present state."""
        key = event.obj.key
        if event.kind == DELETED:
            del self.items[key]
            del self.keys[bisect_left(self.keys, key)]
        else:
            if event.kind == ADDED:
                insort(self.keys, key)
            self.items[key] = event.obj
        self.log.append(event)
        if len(self.log) > self._slack:
            self._forget(len(self.log) - self._history)

    def _forget(self, count: int) -> None:
        if count > 0:
            self.floor = self.log[count - 1].version
            del self.log[:count]

    def compact(self, keep: int = 0) -> None:
        """Forget all but the newest `keep` events: older versions answer 410 from now on."""
        self._forget(len(self.log) - keep)

    def since(self, version: int) -> list[Event] | None:
        """Events after a version in order; None if some of them are forgotten."""
        if version < self.floor:
            return None
        return self.log[bisect_right(self.log, version, key=lambda event: event.version) :]

    def reverted(self, version: int) -> dict[str, Obj | None] | None:
        """What differs between now and then.

        Key to the object at `version` (None: it did not exist). None: forgotten.
        """
        events = self.since(version)
        if events is None:
            return None
        return {event.obj.key: event.prev for event in reversed(events)}

    def scan(self, namespace: str, then: dict[str, Obj | None], after: str = "") -> Iterator[Obj]:
        """Objects of a namespace (`""`.

        All) in key order behind the key `after`, at the moment that `then` describes.
        """
        prefix = f"{namespace}/" if namespace else ""
        first = bisect_right(self.keys, after) if after else bisect_left(self.keys, prefix)
        last = bisect_left(self.keys, prefix + _AFTER_ALL, lo=first) if prefix else len(self.keys)
        keys: Iterable[str] = self.keys[first:last]
        if not then:
            items = self.items
            for key in keys:
                yield items[key]
            return
        lost = sorted(k for k in then if k not in self.items and k.startswith(prefix) and k > after)
        for key in merge(keys, lost):
            obj = then[key] if key in then else self.items[key]
            if obj is not None:
                yield obj

    def page(self, namespace: str, then: dict[str, Obj | None], after: str, limit: int, match: Match | None) -> Page:
        """Up to `limit` objects (0: all) that match."""
        items: list[Obj] = []
        scan = self.scan(namespace, then, after)
        for obj in scan:
            if match is not None and not match(obj.data):
                continue
            if limit and len(items) == limit:
                remaining = 1 + sum(1 for _ in scan) if match is None else None
                return Page(items, items[-1].key, remaining)
            items.append(obj)
        return Page(items, None, None)
