"""Lists: pages of one consistent moment, with continue tokens that expire with the history."""

import base64
import binascii
from typing import NamedTuple

import msgspec

from berth.simcluster.store.collection import Collection, Page
from berth.simcluster.store.objects import encode
from berth.simcluster.store.selectors import compile_selectors
from berth.simcluster.store.state import State
from berth.simcluster.store.status import ApiError, Cause, bad_request, expired, invalid, unsupported

LIMIT_MAX = 100_000
_MATCHES = ("Exact", "NotOlderThan", "")
_TOKEN_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter."
)


class ListOptions(NamedTuple):
    """The query of a list, as strings of the URL."""

    labels: str = ""
    fields: str = ""
    limit: str = ""
    token: str = ""
    version: str = ""
    match: str = ""  # resourceVersionMatch


class _Token(msgspec.Struct, frozen=True):
    v: int
    k: str


class Listing(NamedTuple):
    """One page and the version it shows; `token` continues it."""

    page: Page
    version: int
    token: str


def list_objects(state: State, collection: Collection, namespace: str, options: ListOptions) -> Listing:
    """A page.

    Raises 400 for malformed options, 410 for a moment that is forgotten, 504 for a version not reached yet.
    """
    match = compile_selectors(collection.resource, options.labels, options.fields)
    limit = 0 if options.limit[1:].isdigit() and options.limit[0] == "-" else parse_int(options.limit, "limit")
    limit = min(limit, LIMIT_MAX)
    version, after = _moment(state, options)
    then = collection.reverted(version) if version != state.version else {}
    if then is None:
        text = _TOKEN_EXPIRED if options.token else f"too old resource version: {version} ({collection.floor})"
        raise expired(text)
    page = collection.page(namespace, then, after, limit, match)
    token = ""
    if page.after is not None:
        token = base64.urlsafe_b64encode(encode(_Token(version, page.after))).decode().rstrip("=")
    return Listing(page, version, token)


def _moment(state: State, options: ListOptions) -> tuple[int, str]:
    """The version to show, and the key behind which the page begins."""
    if options.token:
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        try:
            padded = options.token + "=" * (-len(options.token) % 4)
            token = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
        except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
            raise bad_request(f"continue key is not valid: {error}") from error
        return min(token.v, state.version), token.k
    _check_match(options)
    version = parse_int(options.version, "resourceVersion")
    if version > state.version:
        raise too_large(version, state.version)
    return (version if options.match == "Exact" else state.version), ""


def _check_match(options: ListOptions) -> None:
    field, causes = "resourceVersionMatch", []
    if options.match and not options.version:
        text = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(Cause("FieldValueForbidden", text, field))
    elif options.match not in _MATCHES:
        causes.append(unsupported(field, options.match, _MATCHES))
    elif options.match == "Exact" and options.version == "0":
        text = 'Forbidden: resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'
        causes.append(Cause("FieldValueForbidden", text, field))
    if causes:
        raise invalid("meta.k8s.io", "ListOptions", "", causes)


def parse_int(text: str, field: str) -> int:
    """A non-negative integer of a query; empty means 0."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise bad_request(f"invalid {field}: {text[:40]!r} is not a non-negative integer")
    return int(text)


def too_large(wanted: int, current: int) -> ApiError:
    """504: a version that has not been reached."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504,
        "Timeout",
        f"Too large resource version: {wanted}, current: {current}",
        {"causes": [cause], "retryAfterSeconds": 1},
        retry_after_s=1,
    )
