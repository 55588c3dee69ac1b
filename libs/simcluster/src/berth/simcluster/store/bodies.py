"""Bodies in and out: JSON to fresh data, objects and lists to bytes in the version that was asked for."""

from typing import Any, NamedTuple

import msgspec

from berth.simcluster.store.events_v1 import to_core, to_new
from berth.simcluster.store.listing import Listing
from berth.simcluster.store.objects import Json, Obj, decode, encode
from berth.simcluster.store.resource import EVENTS, EVENTS_V1_GROUP, ResourceType
from berth.simcluster.store.status import ApiError, bad_request

BODY_LIMIT_BYTES = 3 * 1024 * 1024


class Path(NamedTuple):
    """What a request is about. `namespace` is empty for cluster-scoped resources and for lists over all namespaces."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse(body: Any) -> Any:
    """A body as fresh Python data. Raises 400 or 413."""
    if not isinstance(body, bytes | bytearray | memoryview):
        body = encode(body)
    if len(body) > BODY_LIMIT_BYTES:
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT_BYTES}")
    try:
        return decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from error


def parse_object(body: Any) -> Json:
    """A body that must be a JSON object."""
    data = parse(body)
    if not isinstance(data, dict):
        raise bad_request("the object provided is unrecognized: it must be a JSON object")
    return data


def incoming(path: Path, data: Json) -> Json:
    """A body in the version that is stored."""
    return to_core(data) if path.group == EVENTS_V1_GROUP else data


def shown(path: Path, resource: ResourceType, obj: Obj) -> bytes:
    """The bytes of an object in the version that was asked for; the stored version costs nothing."""
    if path.group == EVENTS_V1_GROUP and resource is EVENTS:
        return encode(to_new(obj.data))
    if path.version != resource.version:
        return encode({**obj.data, "apiVersion": f"{path.group}/{path.version}"})
    return obj.raw


def list_body(path: Path, resource: ResourceType, listing: Listing) -> bytes:
    """A `<Kind>List`."""
    head: Json = {"resourceVersion": str(listing.version)}
    if listing.token:
        head["continue"] = listing.token
        if listing.page.remaining is not None:
            head["remainingItemCount"] = listing.page.remaining
    return list_text(path, resource, head, listing.page.items)


def list_text(path: Path, resource: ResourceType, head: Json, items: list[Obj]) -> bytes:
    """A list from the bytes of its items."""
    group_version = f"{path.group}/{path.version}" if path.group else path.version
    if path.version == resource.version and path.group == resource.group:
        raws = [obj.raw for obj in items]
    else:
        raws = [shown(path, resource, obj) for obj in items]
    front = encode({"kind": f"{resource.kind}List", "apiVersion": group_version, "metadata": head})
    return front[:-1] + b',"items":[' + b",".join(raws) + b"]}"
