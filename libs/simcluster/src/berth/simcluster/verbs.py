"""From a request to a call of the store: what HTTP and a simulated network have in common.

Method and target say the verb, the verb says the call; what is refused comes back as the API server would say it.
Watches are opened by `berth.simcluster.http.watching`.
"""

import logging
from collections.abc import Callable

from berth.simcluster.http.target import Target
from berth.simcluster.openapi.fields import check_fields
from berth.simcluster.store import ListOptions, Reply, Store
from berth.simcluster.store.status import ApiError, bad_request

_log = logging.getLogger(__name__)
_NO_METHOD = ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_NO_PROTOBUF = ApiError(
    415,
    "UnsupportedMediaType",
    "the simulated API server reads JSON, not protobuf: write a manifest and use `kubectl apply -f FILE`",
)
_NO_CONTAINERS = ApiError(
    400, "BadRequest", "no container runs in a simulated cluster: its kubelets only report that pods are running"
)
_CONTAINER_CALLS = ("log", "exec", "attach", "portforward", "proxy")
_CHECKED = ("create", "update", "patch")
_POD_CALLS = ("binding", "eviction")


def verb_of(method: str, target: Target) -> str:
    """The verb as the API server's audit log names it, `bind` and `evict` aside; empty for a method without one."""
    path = target.path
    if method == "GET":
        if target.watch:
            return "watch"
        return "get" if path.name else "list"
    if method == "POST":
        if path.plural == "pods" and not path.group and path.subresource in _POD_CALLS:
            return "bind" if path.subresource == "binding" else "evict"
        if path.plural == "bindings" and not path.group:
            return "bind"
        return "create"
    if method == "DELETE":
        return "delete" if path.name else "deletecollection"
    return {"PUT": "update", "PATCH": "patch"}.get(method, "")


def call(store: Store, verb: str, target: Target, body: bytes, content_type: str) -> Reply:
    """Every verb but `watch`. Raises ApiError for fields that are unknown, where the query asks for that."""
    path, query = target.path, target.query
    if (path.group, path.plural) == ("", "pods") and path.subresource in _CONTAINER_CALLS:
        raise _NO_CONTAINERS
    if body and content_type.startswith(_PROTOBUF):
        raise _NO_PROTOBUF
    if query.get("fieldValidation") == "Strict" and verb in _CHECKED and body:
        check_fields(store.state, path, body, verb)
    match verb:
        case "bind":
            return store.bind(path.namespace, path.name, body, dry_run=target.dry_run)
        case "create":
            return store.create(path, body, dry_run=target.dry_run)
        case "get":
            return store.get(path)
        case "patch":
            kind = content_type.partition(";")[0].strip()
            return store.patch(path, body, kind, manager=query.get("fieldManager", ""), dry_run=target.dry_run)
        case "update":
            return store.update(path, body, dry_run=target.dry_run)
        case "list":
            return store.list(path, list_options(query))
        case "delete":
            grace = query.get("gracePeriodSeconds", "")
            return store.delete(path, body or None, grace=grace, dry_run=target.dry_run)
        case "deletecollection":
            return store.delete_collection(path, body or None, list_options(query), dry_run=target.dry_run)
        case "evict":
            return store.evict(path.namespace, path.name, body)
        case _:
            return _NO_METHOD.reply()


def refusal_of(error: Exception, what: str) -> Reply:
    """What becomes of an exception on the way; a defect of ours is an answer too, and is logged with `what`."""
    if isinstance(error, ApiError):
        return error.reply()
    if isinstance(error, ValueError):
        return bad_request(str(error)).reply()
    _log.error("%s", what, exc_info=error)
    return ApiError(500, "InternalError", f"Internal error occurred: {error!r}").reply()


def answered(work: Callable[[], Reply], what: str) -> Reply:
    """What `work` replies, or its failure as a reply."""
    try:
        return work()
    except Exception as error:
        return refusal_of(error, what)


def list_options(query: dict[str, str]) -> ListOptions:
    """The list options of a query."""
    if not query:
        return ListOptions()
    return ListOptions(
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        query.get("limit", ""),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )


def timeout_s(target: Target) -> float:
    """`timeoutSeconds` of a watch; 0 when it is not given."""
    text = target.query.get("timeoutSeconds", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0.0
