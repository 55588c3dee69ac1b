"""Opening a watch: where it begins and what it sees first."""

from berth.simcluster.http.target import Target
from berth.simcluster.http.watch import Hub, Watcher
from berth.simcluster.store import Event, Path, Store
from berth.simcluster.store.bodies import shown
from berth.simcluster.store.collection import ADDED, Collection, event_line
from berth.simcluster.store.events_v1 import to_new
from berth.simcluster.store.listing import parse_int, too_large
from berth.simcluster.store.objects import Obj, encode
from berth.simcluster.store.resource import EVENTS_V1_GROUP
from berth.simcluster.store.selectors import Match, compile_selectors
from berth.simcluster.store.status import bad_request, failure


def open_watch(store: Store, hub: Hub, target: Target) -> Watcher:
    """A watcher that has queued what lies between the version asked for and now, and is registered for all that
    follows.

    Without a version (or with 0) it begins with an ADDED for every object. A version that is forgotten, or that was
    never reached, makes one ERROR line with 410 and ends the watch. Raises `ApiError` for what is refused before a
    watch begins.
    """
    path, query = target.path, target.query
    collection = store.collection(path)
    fields = query.get("fieldSelector", "")
    if path.name:
        fields = f"{fields},metadata.name={path.name}".lstrip(",")
    match = compile_selectors(collection.resource, query.get("labelSelector", ""), fields)
    version = parse_int(query.get("resourceVersion", ""), "resourceVersion")
    bookmarks = query.get("allowWatchBookmarks", "") in ("1", "true", "True")
    initial = _wants_initial(query, bookmarks=bookmarks)
    if initial and version > store.version:
        raise too_large(version, store.version)
    watcher = _watcher(path, collection, match, bookmarks=bookmarks)
    if initial or (initial is None and not version):
        _replay_state(watcher, path, collection, match)
        if initial:
            watcher.bookmark(store.version, initial_end=True)
    elif version:
        _replay_log(watcher, collection, version, store.version)
    hub.add(watcher)
    return watcher


def _wants_initial(query: dict[str, str], *, bookmarks: bool) -> bool | None:
    """`sendInitialEvents`; None when it is not given."""
    text = query.get("sendInitialEvents")
    if text is None:
        return None
    if query.get("resourceVersionMatch") != "NotOlderThan":
        raise bad_request(
            "resourceVersionMatch: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    wanted = text in ("1", "true", "True")
    if wanted and not bookmarks:
        raise bad_request("sendInitialEvents requires allowWatchBookmarks")
    return wanted


def _watcher(path: Path, collection: Collection, match: Match | None, *, bookmarks: bool) -> Watcher:
    resource = collection.resource
    api_version = f"{path.group}/{path.version}" if path.group else path.version
    prefix = f"{path.namespace}/" if path.namespace else ""

    def translate(event: Event) -> Event:
        return Event(
            event.resource, event.kind, _translated(path, event.obj), event.prev and _translated(path, event.prev)
        )

    other = api_version != resource.api_version
    return Watcher(resource, api_version, prefix, match, translate if other else None, bookmarks=bookmarks)


def _translated(path: Path, obj: Obj) -> Obj:
    data = (
        to_new(obj.data)
        if path.group == EVENTS_V1_GROUP
        else {**obj.data, "apiVersion": f"{path.group}/{path.version}"}
    )
    return Obj(obj.key, {**data, "metadata": dict(obj.meta)}, obj.version)


def _replay_state(watcher: Watcher, path: Path, collection: Collection, match: Match | None) -> None:
    for obj in collection.scan(path.namespace, {}):
        if match is None or match(obj.data):
            watcher.push(event_line(ADDED, shown(path, collection.resource, obj)))


def _replay_log(watcher: Watcher, collection: Collection, version: int, newest: int) -> None:
    events = collection.since(version) if version <= newest else None
    if events is None:
        text = f"too old resource version: {version} ({collection.floor})"
        if version > newest:
            text = f"resource version {version} was never reached here (newest: {newest})"
        watcher.push(event_line("ERROR", encode(failure(410, "Expired", text))))
        watcher.close()
        return
    for event in events:
        watcher.offer(event)
