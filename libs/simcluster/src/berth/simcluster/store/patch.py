"""Merge patch (RFC 7386) and JSON patch (RFC 6902). Both return a new object and leave the old one alone."""

from typing import Any

from berth.simcluster.store.objects import Json, decode, encode
from berth.simcluster.store.status import ApiError, bad_request

OPERATIONS_LIMIT = 10_000


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch merged in; null removes a field."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Json, operations: Any) -> Any:
    """The target after all operations. Raises 400 for a malformed patch, 422 for one that does not apply."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > OPERATIONS_LIMIT:
        raise ApiError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {OPERATIONS_LIMIT}, got {len(operations)}",
        )
    result: Any = decode(encode(target))
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("error decoding patch: an operation needs op and path")
        result = _apply(result, operation)
    return result


def _apply(root: Any, operation: Json) -> Any:
    kind, path = operation.get("op"), _pointer(operation["path"])
    if kind in ("move", "copy"):
        if not isinstance(operation.get("from"), str):
            raise bad_request(f"error decoding patch: {kind} needs from")
        source = _pointer(operation["from"])
        value = decode(encode(_get(root, source)))
        if kind == "move":
            root = _remove(root, source)
        return _add(root, path, value)
    if kind == "remove":
        return _remove(root, path)
    if kind not in ("add", "replace", "test"):
        raise bad_request(f"error decoding patch: unknown op {kind!r}")
    if "value" not in operation:
        raise bad_request(f"error decoding patch: {kind} needs value")
    value = operation["value"]
    if kind == "add":
        return _add(root, path, value)
    found = _get(root, path)
    if kind == "test":
        if found != value:
            raise _unfit(f"testing value {operation['path']} failed")
        return root
    return _add(_remove(root, path), path, value) if path else value


def _pointer(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise bad_request(f"error decoding patch: path {path!r} does not start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _unfit(why: str) -> ApiError:
    return ApiError(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def _index(holder: list[Any], token: str, *, end: bool) -> int:
    if token == "-" and end:
        return len(holder)
    if not token.isdigit() or len(token) > 9 or int(token) >= len(holder) + end:
        raise _unfit(f"index {token!r} is out of bounds")
    return int(token)


def _get(root: Any, path: list[str]) -> Any:
    node = root
    for token in path:
        if isinstance(node, list):
            node = node[_index(node, token, end=False)]
        elif isinstance(node, dict) and token in node:
            node = node[token]
        else:
            raise _unfit(f"path /{'/'.join(path)} does not exist")
    return node


def _add(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    holder, last = _get(root, path[:-1]), path[-1]
    if isinstance(holder, list):
        holder.insert(_index(holder, last, end=True), value)
    elif isinstance(holder, dict):
        holder[last] = value
    else:
        raise _unfit(f"path /{'/'.join(path)} does not exist")
    return root


def _remove(root: Any, path: list[str]) -> Any:
    if not path:
        return None
    _get(root, path)
    holder, last = _get(root, path[:-1]), path[-1]
    if isinstance(holder, list):
        del holder[_index(holder, last, end=False)]
    else:
        del holder[last]
    return root
