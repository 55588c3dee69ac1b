"""Answers turned into tables, for clients that prefer them."""

from typing import Any

from berth.simcluster.store import Path, Reply
from berth.simcluster.store.events_v1 import to_core
from berth.simcluster.store.objects import Json, decode, encode
from berth.simcluster.store.resource import EVENTS_V1_GROUP, ResourceType
from berth.simcluster.store.state import State
from berth.simcluster.tables.columns import Column, columns_of

_TABLE = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}
_PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


def wants_table(accept: str) -> bool:
    """Whether the first type that is accepted and served is a table."""
    for choice in accept.split(","):
        kind, *parameters = (part.strip() for part in choice.split(";"))
        if kind not in ("application/json", "*/*", "application/*"):
            continue
        given = dict(part.partition("=")[::2] for part in parameters)
        if "as" not in given:
            return False
        if (given["as"], given.get("g"), given.get("v")) == ("Table", "meta.k8s.io", "v1"):
            return True
    return False


class Tables:
    """Turns answers about one resource into tables."""

    def __init__(self, state: State, path: Path, resource: ResourceType, query: dict[str, str]) -> None:
        """`query`: of the request; `includeObject` says what of an object comes with its row."""
        self._state = state
        self._columns: tuple[Column, ...] = columns_of(state, resource, path.version)
        self._include = query.get("includeObject", "") or "Metadata"
        self._new_events = path.group == EVENTS_V1_GROUP
        self._named = False

    def reply(self, reply: Reply) -> Reply:
        """An object or a list as a table; whatever else it is stays."""
        if reply.status != 200:
            return reply
        data = decode(reply.body)
        if "items" in data:
            kind, version = str(data["kind"]).removesuffix("List"), data["apiVersion"]
            items = [{"kind": kind, "apiVersion": version, **each} for each in data["items"]]
            return Reply(200, encode(self._table(data["metadata"], items)))
        meta = {"resourceVersion": data["metadata"].get("resourceVersion", "")}
        return Reply(200, encode(self._table(meta, [data])))

    def line(self, line: bytes) -> bytes:
        """A line of a watch; bookmarks and errors stay. Only the first table names its columns."""
        event = decode(line)
        data = event["object"]
        if event["type"] in ("BOOKMARK", "ERROR"):
            return line
        table = self._table({"resourceVersion": data["metadata"].get("resourceVersion", "")}, [data])
        if self._named:
            table["columnDefinitions"] = None
        self._named = True
        return encode({"type": event["type"], "object": table}) + b"\n"

    def _table(self, meta: Json, items: list[Json]) -> Json:
        now = self._state.clock()
        heads = [column.definition() for column in self._columns]
        return {
            **_TABLE,
            "metadata": meta,
            "columnDefinitions": heads,
            "rows": [self._row(each, now) for each in items],
        }

    def _row(self, data: Json, now: float) -> Json:
        plain = to_core(data) if self._new_events else data
        row: Json = {"cells": [column.value(plain, now) for column in self._columns]}
        kept: dict[str, Any] = {"None": None, "Object": data}
        row["object"] = kept.get(self._include, {**_PARTIAL, "metadata": data["metadata"]})
        return row
