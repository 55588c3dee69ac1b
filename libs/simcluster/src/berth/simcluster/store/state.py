"""The world: every collection, the one version counter, the clock and the randomness that were passed in.

All changes go through `insert`, `replace` and `remove`; each takes the next version, records one event and tells the
listeners. Nothing here decides whether a change is allowed.
"""

import random as random_module
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from berth.simcluster.store.collection import ADDED, DELETED, MODIFIED, Collection, Event
from berth.simcluster.store.objects import Json, Obj, key_of
from berth.simcluster.store.resource import BUILT_IN, EVENTS, EVENTS_V1_GROUP, ResourceType
from berth.simcluster.store.status import conflict, not_found

Listener = Callable[[Event], None]
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


def timestamp(seconds: float) -> str:
    """RFC 3339 with whole seconds, as `metav1.Time` prints it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class State:
    """Mutable, single-threaded, without I/O."""

    def __init__(
        self,
        clock: Callable[[], float],
        random: random_module.Random,
        *,
        history: int,
        first_version: int,
        events_limit: int,
    ) -> None:
        """`clock`.

        Unix seconds. `history`: events kept per resource. `events_limit`: Event objects kept before the oldest go.
        """
        self.clock = clock
        self.random = random
        self.version = first_version
        self.listeners: list[Listener] = []
        self.collections: dict[tuple[str, str], Collection] = {}
        self._first_version = first_version
        self._history = history
        self._stamp = (0, "")
        self._events: deque[str] = deque()
        self._events_limit = events_limit
        for resource in BUILT_IN:
            self.add_resource(resource)

    # -- resources ----------------------------------------------------------------------------------------------------

    def add_resource(self, resource: ResourceType) -> None:
        """Serve a resource, or replace the description of one."""
        known = self.collections.get(resource.id)
        if known is None:
            self.collections[resource.id] = Collection(resource, self._history, self._first_version)
        else:
            known.resource = resource

    def drop_resource(self, group: str, plural: str) -> None:
        """Stop serving a resource."""
        self.collections.pop((group, plural), None)

    def find(self, group: str, version: str, plural: str) -> Collection | None:
        """The collection behind a path; None if nobody serves it."""
        if group == EVENTS_V1_GROUP:
            return self.collections[EVENTS.id] if (version, plural) == ("v1", "events") else None
        found = self.collections.get((group, plural))
        return found if found is not None and version in found.resource.versions() else None

    def of(self, resource: ResourceType) -> Collection:
        """The collection of a resource that is known to exist."""
        return self.collections[resource.id]

    def need(self, collection: Collection, namespace: str, name: str) -> Obj:
        """The object, or 404."""
        found = collection.items.get(key_of(namespace, name))
        if found is None:
            raise not_found(collection.resource.group, collection.resource.plural, name)
        return found

    # -- time and identity --------------------------------------------------------------------------------------------

    def stamp(self) -> str:
        """The present moment as Kubernetes writes it."""
        now = int(self.clock())
        if self._stamp[0] != now:
            self._stamp = (now, timestamp(now))
        return self._stamp[1]

    def new_uid(self) -> str:
        """A random uid of version 4."""
        text = f"{self.random.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def new_suffix(self) -> str:
        """Five characters for `generateName`."""
        return "".join(self.random.choices(_SUFFIX, k=5))

    # -- changes ------------------------------------------------------------------------------------------------------

    def insert(self, collection: Collection, key: str, data: Json) -> Obj:
        """Add an object whose key is free."""
        self.version += 1
        obj = Obj(key, data, self.version)
        self._record(collection, Event(collection.resource, ADDED, obj, None))
        if collection.resource is EVENTS:
            self._bound_events(collection, key)
        return obj

    def replace(self, collection: Collection, old: Obj, data: Json) -> Obj:
        """Put a new version in the place of `old`, which must be the current one."""
        if collection.items.get(old.key) is not old:
            raise conflict(collection.resource.group, collection.resource.plural, old.key.rpartition("/")[2])
        self.version += 1
        obj = Obj(old.key, data, self.version)
        self._record(collection, Event(collection.resource, MODIFIED, obj, old))
        return obj

    def remove(self, collection: Collection, old: Obj, data: Json | None = None) -> Obj:
        """Remove an object; `data` is its last state if that differs from `old`."""
        self.version += 1
        last = Obj(old.key, data or {**old.data, "metadata": dict(old.meta)}, self.version)
        self._record(collection, Event(collection.resource, DELETED, last, old))
        return last

    def _record(self, collection: Collection, event: Event) -> None:
        collection.record(event)
        for listener in self.listeners:
            listener(event)

    def _bound_events(self, collection: Collection, key: str) -> None:
        self._events.append(key)
        while len(self._events) > self._events_limit:
            oldest = collection.items.get(self._events.popleft())
            if oldest is not None:
                self.remove(collection, oldest)
