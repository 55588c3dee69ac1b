"""The store: a Kubernetes API without HTTP.

Every call is a plain function that returns what the API server would answer (`Reply`: status and body) and never
raises for a bad request. There is no I/O, no waiting and no clock or randomness but those passed in, so the same
object serves real clients through `berth.simcluster.http` and simulations on virtual time.
"""

import random as random_module
from collections.abc import Callable
from typing import Any

from berth.simcluster.store import deleting, updating, writing
from berth.simcluster.store.applying import Applied
from berth.simcluster.store.binding import bind, legacy_name
from berth.simcluster.store.bodies import (
    Path,
    incoming,
    list_body,
    list_text,
    parse,
    parse_object,
    shown,
)
from berth.simcluster.store.collection import Collection, Event
from berth.simcluster.store.crds import follow_crds
from berth.simcluster.store.eviction import evict
from berth.simcluster.store.listing import ListOptions, list_objects
from berth.simcluster.store.objects import Json, decode, encode, key_of
from berth.simcluster.store.resource import NAMESPACES, PRIORITY_CLASSES
from berth.simcluster.store.selectors import compile_selectors
from berth.simcluster.store.state import State
from berth.simcluster.store.status import ApiError, Reply, bad_request, no_such_path, success

HISTORY = 20_000
EVENTS_LIMIT = 10_000

_SYSTEM_CLASSES = (("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000))
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

Lines = list[bytes]
Operations = list[Any]


class Store:
    """See the module. Objects are handed out as bytes; a reader of `state` must not change what it finds."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        random: random_module.Random | None = None,
        history: int = HISTORY,
        first_version: int = 1,
        events_limit: int = EVENTS_LIMIT,
    ) -> None:
        """`clock`: unix seconds. `history`: changes kept per resource, for watches and paged lists. `first_version`:
        where the resource versions begin; a server that starts anew should begin above its predecessor's last one.
        """
        self.state = State(
            clock,
            random or random_module.Random(0),
            history=max(1, history),
            first_version=max(1, first_version),
            events_limit=events_limit,
        )
        self._applied = Applied()
        follow_crds(self.state)
        for name in _NAMESPACES:
            writing.create(self.state, self.state.of(NAMESPACES), "", {"metadata": {"name": name}})
        for name, value in _SYSTEM_CLASSES:
            body = {"metadata": {"name": name}, "value": value}
            writing.create(self.state, self.state.of(PRIORITY_CLASSES), "", body)

    @property
    def version(self) -> int:
        """The newest resource version."""
        return self.state.version

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every change from now on, inside the change.

        It must be fast and must not write to the store.
        """
        self.state.listeners.append(listener)

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, path: Path) -> Reply:
        """GET of one object."""
        return self._answer(self._get, path)

    def list(self, path: Path, options: ListOptions | None = None) -> Reply:
        """GET of a collection."""
        return self._answer(self._list, path, options or ListOptions())

    def changes(self, path: Path, since: int, *, labels: str = "", fields: str = "") -> Lines | Reply:
        """The watch log after a version as lines, or the error (410 when it is forgotten)."""
        try:
            collection = self.collection(path)
            match = compile_selectors(collection.resource, labels, fields)
        except ApiError as error:
            return error.reply()
        events = collection.since(since)
        if events is None:
            return ApiError(410, "Expired", f"too old resource version: {since} ({collection.floor})").reply()
        prefix = f"{path.namespace}/" if path.namespace else ""
        lines = (event.line_for(match) for event in events if event.obj.key.startswith(prefix))
        return [line for line in lines if line is not None]

    # -- writing ------------------------------------------------------------------------------------------------------

    def create(self, path: Path, body: bytes | Json, *, dry_run: bool = False) -> Reply:
        """POST of an object."""
        return self._answer(self._create, path, body, dry_run)

    def update(self, path: Path, body: bytes | Json, *, dry_run: bool = False) -> Reply:
        """PUT of an object or its status."""
        return self._answer(self._update, path, body, dry_run)

    def patch(
        self,
        path: Path,
        body: bytes | Json | Operations,
        content_type: str = updating.MERGE,
        *,
        manager: str = "",
        dry_run: bool = False,
    ) -> Reply:
        """PATCH of an object or its status. An apply patch needs `manager` (the query's fieldManager)."""
        return self._answer(self._patch, path, body, content_type, manager, dry_run)

    def delete(self, path: Path, body: bytes | Json | None = None, *, grace: str = "", dry_run: bool = False) -> Reply:
        """DELETE of one object; `body` is a `DeleteOptions`, `grace` the query's gracePeriodSeconds."""
        return self._answer(self._delete, path, body, grace, dry_run)

    def delete_collection(
        self, path: Path, body: bytes | Json | None = None, options: ListOptions | None = None, *, dry_run: bool = False
    ) -> Reply:
        """DELETE of all objects that match."""
        return self._answer(self._delete_collection, path, body, options or ListOptions(), dry_run)

    def bind(self, namespace: str, name: str, body: bytes | Json, *, dry_run: bool = False) -> Reply:
        """POST of a Binding; an empty name means that the Binding names the pod."""
        return self._answer(self._bind, namespace, name, body, dry_run)

    def evict(self, namespace: str, name: str, body: bytes | Json) -> Reply:
        """POST of an Eviction."""
        return self._answer(self._evict, namespace, name, body)

    # -- inside -------------------------------------------------------------------------------------------------------

    def collection(self, path: Path) -> Collection:
        """The collection a path is about. Raises `ApiError` 404."""
        found = self.state.find(path.group, path.version, path.plural)
        if (
            found is None
            or path.subresource not in ("", "status")
            or (path.subresource == "status" and not found.resource.has_status)
        ):
            raise no_such_path()
        if path.name and found.resource.namespaced and not path.namespace:
            raise no_such_path()
        return found

    def _answer(self, verb: Callable[..., Reply], *arguments: Any) -> Reply:
        try:
            return verb(*arguments)
        except ApiError as error:
            return error.reply()
        except RecursionError:
            return bad_request("the object is nested too deeply").reply()

    def _get(self, path: Path) -> Reply:
        collection = self.collection(path)
        return Reply(200, shown(path, collection.resource, self.state.need(collection, path.namespace, path.name)))

    def _list(self, path: Path, options: ListOptions) -> Reply:
        collection = self.collection(path)
        listing = list_objects(self.state, collection, path.namespace, options)
        return Reply(200, list_body(path, collection.resource, listing))

    def _create(self, path: Path, body: bytes | Json, dry_run: bool) -> Reply:
        collection = self.collection(path)
        if path.name or (collection.resource.namespaced and not path.namespace):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        data = incoming(path, parse_object(body))
        obj = writing.create(self.state, collection, path.namespace, data, dry_run=dry_run)
        return Reply(201, shown(path, collection.resource, obj))

    def _update(self, path: Path, body: bytes | Json, dry_run: bool) -> Reply:
        collection = self.collection(path)
        data = incoming(path, parse_object(body))
        obj, created = updating.update(
            self.state, collection, path.namespace, path.name, data, path.subresource, dry_run=dry_run
        )
        return Reply(201 if created else 200, shown(path, collection.resource, obj))

    def _patch(self, path: Path, body: Any, content_type: str, manager: str, dry_run: bool) -> Reply:
        collection = self.collection(path)
        if content_type == updating.APPLY:
            updating.need_manager(manager)
        parsed = parse(body)
        if isinstance(parsed, dict):
            parsed = incoming(path, parsed)
        applied, old = None, collection.items.get(key_of(path.namespace, path.name))
        if content_type == updating.APPLY and isinstance(parsed, dict):
            applied = decode(encode(parsed))
            parsed = parsed if old is None else self._applied.patch(old.uid, manager, parsed)
        obj, created = updating.patch(
            self.state,
            collection,
            path.namespace,
            path.name,
            parsed,
            content_type,
            path.subresource,
            dry_run=dry_run,
        )
        if applied is not None and not dry_run:
            self._applied.remember(obj.uid, manager, applied)
        return Reply(201 if created else 200, shown(path, collection.resource, obj))

    def _delete(self, path: Path, body: bytes | Json | None, grace: str, dry_run: bool) -> Reply:
        collection = self.collection(path)
        options = deleting.options_from(parse_object(body) if body else None, grace, dry_run)
        obj = self.state.need(collection, path.namespace, path.name)
        done = deleting.delete(self.state, collection, obj, options)
        resource = collection.resource
        if done.gone and not resource.shows_deleted:
            details = {"name": path.name, "group": resource.group, "kind": resource.plural, "uid": obj.uid}
            return success(200, {key: value for key, value in details.items() if value})
        return Reply(200, shown(path, resource, done.obj))

    def _delete_collection(self, path: Path, body: bytes | Json | None, options: ListOptions, dry_run: bool) -> Reply:
        collection = self.collection(path)
        if collection.resource.namespaced and not path.namespace:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        match = compile_selectors(collection.resource, options.labels, options.fields)
        wanted = deleting.options_from(parse_object(body) if body else None, "", dry_run)
        gone = deleting.delete_matching(self.state, collection, path.namespace, match, wanted)
        head = {"resourceVersion": str(self.state.version)}
        return Reply(200, list_text(path, collection.resource, head, gone))

    def _bind(self, namespace: str, name: str, body: bytes | Json, dry_run: bool) -> Reply:
        binding = parse_object(body)
        bind(self.state, namespace, name or legacy_name(binding), binding, dry_run=dry_run)
        return success(201)

    def _evict(self, namespace: str, name: str, body: bytes | Json) -> Reply:
        evict(self.state, namespace, name, parse_object(body))
        return success(201)
