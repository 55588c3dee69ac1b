"""When an object that Berth makes of a report is to be written or deleted, whatever its kind.

An object of another agent is never asked to be changed. One of ours goes with its node, and when the agent says that
there is nothing to say, or that it reports no longer; that nothing is reported now says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from berth.contracts import names
from berth.contracts.command import ApplyObject, DeleteObject
from berth.contracts.kube import OwnerReference
from berth.contracts.state import Node
from berth.device_inventory.core.asking import Asked, asked
from berth.rules.numbers import parse_integer


class Shown(NamedTuple):
    """The object that is there. `is_right`: it says what it is to say."""

    uid: str
    is_ours: bool
    is_right: bool
    deleting: bool
    annotations: Mapping[str, str]


class Wish(NamedTuple):
    """What the object is to say; `about` changes when that does."""

    about: object
    spec: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class Objects:
    """The requests for the objects of one kind, by node."""

    def __init__(self, api: str, *, retry_s: float) -> None:
        self._api = api
        self._retry_s = retry_s
        self._asked: dict[str, Asked] = {}

    def due(self, now_s: float) -> set[str]:
        """Nodes whose object was asked for a while ago and does not show it."""
        return {name for name, each in self._asked.items() if now_s >= each.again_at_s}

    def begin(self) -> None:
        """What was asked for is unknown."""
        self._asked.clear()

    def request(
        self,
        name: str,
        node: Node | None,
        shown: Shown | None,
        wish: Wish | None,
        *,
        is_over: bool,
        now: tuple[int, float],
    ) -> ApplyObject | DeleteObject | None:
        """What to ask for now. `is_over`: an object of ours has nothing to say any more. `now`: unix milliseconds, and
        monotonic seconds."""
        now_ms, now_s = now
        about, request = self._wanted(name, node, shown, wish, is_over=is_over, now_ms=now_ms)
        if request is None:
            self._asked.pop(name, None)
            return None
        asking = asked(self._asked.get(name), about, now_s=now_s, pause_s=self._retry_s)
        if asking is None:
            return None
        self._asked[name] = asking
        return request

    def _wanted(
        self, name: str, node: Node | None, shown: Shown | None, wish: Wish | None, *, is_over: bool, now_ms: int
    ) -> tuple[object, ApplyObject | DeleteObject | None]:
        if shown is not None and (shown.deleting or not shown.is_ours):
            return None, None
        if shown is not None and is_over:
            return ("delete", shown.uid), DeleteObject(api=self._api, name=name, uid=shown.uid)
        if node is None or node.deleting or is_over or wish is None or (shown is not None and shown.is_right):
            return None, None
        # Above the object's number, so that no clock that went back keeps the request from being carried out.
        text = shown.annotations.get(names.ANNOTATION_REVISION, "") if shown is not None else ""
        request = ApplyObject(
            api=self._api,
            name=name,
            spec=wish.spec,
            fields=wish.fields,
            owner=OwnerReference(api_version="v1", kind="Node", name=name, uid=node.uid, controller=True),
            revision=max(now_ms, (parse_integer(text) or 0) + 1),
            labels=dict(wish.labels),
            annotations=dict(wish.annotations),
        )
        return ("apply", wish.about, node.uid), request
