"""Delete: preconditions, grace of pods, finalizers, and what a namespace takes with it."""

from typing import NamedTuple

from berth.simcluster.store.collection import Collection, Match
from berth.simcluster.store.objects import Json, Obj, section
from berth.simcluster.store.resource import NAMESPACES, PODS
from berth.simcluster.store.shapes import DeleteOptions, check
from berth.simcluster.store.state import State, timestamp
from berth.simcluster.store.status import bad_value, forbidden, invalid, not_that_one

GRACE_LIMIT_S = 10 * 365 * 86_400
_PERMANENT = frozenset({"default", "kube-system", "kube-public"})


class Deleted(NamedTuple):
    """The object as it is now, and whether it is gone (else it waits for a kubelet or a finalizer)."""

    obj: Obj
    gone: bool


class Options(NamedTuple):
    """What of `DeleteOptions` has a meaning here."""

    grace_s: int | None = None
    uid: str = ""
    version: str = ""
    dry_run: bool = False


def options_from(body: Json | None, query_grace: str = "", query_dry_run: bool = False) -> Options:
    """`DeleteOptions` from a request body and the query; the query counts where the body is silent."""
    body = body or {}
    check(body, DeleteOptions, "DeleteOptions")
    grace = body.get("gracePeriodSeconds")
    if grace is None and query_grace:
        grace = int(query_grace) if query_grace.lstrip("-").isdigit() and len(query_grace) < 18 else query_grace
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool) or abs(grace) > GRACE_LIMIT_S):
        cause = bad_value("gracePeriodSeconds", grace, "must be an integer")
        raise invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    conditions = section(body, "preconditions")
    return Options(
        grace,
        str(conditions.get("uid") or ""),
        str(conditions.get("resourceVersion") or ""),
        query_dry_run or bool(body.get("dryRun")),
    )


def delete(state: State, collection: Collection, obj: Obj, options: Options) -> Deleted:
    """Remove an object, or mark it as being deleted."""
    resource = collection.resource
    if options.uid and options.uid != obj.uid:
        raise not_that_one(resource.group, resource.kind, obj.meta["name"], "UID", options.uid, obj.uid)
    if options.version and options.version != str(obj.version):
        version = str(obj.version)
        raise not_that_one(resource.group, resource.kind, obj.meta["name"], "ResourceVersion", options.version, version)
    if resource is NAMESPACES:
        if obj.key in _PERMANENT:
            raise forbidden("", resource.plural, obj.key, "this namespace may not be deleted")
        if not options.dry_run:
            _empty(state, obj.key)
    if options.dry_run:
        return Deleted(obj, gone=True)
    grace = _grace_s(obj, options.grace_s) if resource is PODS else 0
    if grace == 0 and not obj.meta.get("finalizers"):
        return Deleted(state.remove(collection, obj), gone=True)
    return Deleted(_mark(state, collection, obj, grace), gone=False)


def _grace_s(pod: Obj, wanted: int | None) -> int:
    """Only a pod on a node and not yet ended has anything to end gracefully."""
    spec = pod.data["spec"]
    if not spec.get("nodeName") or section(pod.data, "status").get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = wanted if wanted is not None else spec.get("terminationGracePeriodSeconds", 30)
    return int(grace) if grace >= 0 else 1  # a negative one means at once, but not without a word


def _mark(state: State, collection: Collection, obj: Obj, grace_s: int) -> Obj:
    """Set the deletion timestamp; a second delete may only shorten the grace."""
    old = obj.meta.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in obj.meta and (old is None or grace_s >= old):
        return obj
    meta = {
        **obj.meta,
        "deletionTimestamp": timestamp(state.clock() + grace_s),
        "deletionGracePeriodSeconds": grace_s,
    }
    return state.replace(collection, obj, {**obj.data, "metadata": meta})


def forget_if_released(state: State, collection: Collection, old: Obj, new: Json) -> Obj | None:
    """Remove an object under deletion whose last finalizer has just gone; None if it has to stay."""
    meta = new["metadata"]
    if meta.get("finalizers") or not old.meta.get("finalizers") or meta.get("deletionGracePeriodSeconds", 0) != 0:
        return None
    return state.remove(collection, old, new)


def delete_matching(
    state: State, collection: Collection, namespace: str, match: Match | None, options: Options
) -> list[Obj]:
    """`deletecollection`: every object of the namespace that matches, one by one."""
    chosen = collection.page(namespace, {}, "", 0, match).items
    return [delete(state, collection, obj, options).obj for obj in chosen]


def _empty(state: State, namespace: str) -> None:
    """What the namespace controller does, at once and without grace."""
    for collection in list(state.collections.values()):
        if collection.resource.namespaced:
            for obj in list(collection.scan(namespace, {})):
                state.remove(collection, obj)
