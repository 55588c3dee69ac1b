"""What Berth needs of an API server, as a protocol: the real client, a simulated one and a test's fake all fit.

Handlers take a `KubeApi`. Every method answers with a value; nothing raises for what a server or a network may do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple, Protocol

from berth.kube.answer import Answer
from berth.kube.bodies import Patch
from berth.kube.resources import Resource


class Selection(NamedTuple):
    """Which objects to list or watch; an empty namespace means all, empty selectors select everything."""

    resource: Resource
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""


class KubeApi(Protocol):
    """An API server. `body` is what a JSON encoder takes, or bytes of JSON."""

    async def page(self, selection: Selection, *, limit: int, token: str = "") -> Answer:
        """One page of a consistent list: the list object's JSON. `token` is the former page's metadata.continue."""

    def watch(
        self, selection: Selection, *, version: int, stream_s: int, idle_s: float
    ) -> AsyncGenerator[bytes | Answer, None]:
        """One watch stream after `version`, with bookmarks: its lines, then exactly one Answer that says how it ended.

        Status 200 is a regular end, 0 a lost connection or `idle_s` without a byte, else the server's refusal. The
        server is asked to end it after `stream_s` seconds. Close the generator to leave early.
        """

    async def get(self, resource: Resource, namespace: str, name: str) -> Answer:
        """One object, by a consistent read."""

    async def discover(self, path: str) -> Answer:
        """A discovery document: `/apis`, or `/apis/<group>/<version>`."""

    async def create(self, resource: Resource, namespace: str, body: Any, *, field_manager: str = "") -> Answer:
        """POST to the collection."""

    async def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Any,
        *,
        subresource: str = "",
        field_manager: str = "",
    ) -> Answer:
        """PUT the object or its subresource; guard it with metadata.resourceVersion in the body."""

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Any,
        *,
        content_type: Patch = Patch.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> Answer:
        """PATCH the object or its subresource. `Patch.APPLY` requires `field_manager`, and only it heeds `force`."""

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        version: str = "",
        grace_s: int | None = None,
        dry_run: bool = False,
    ) -> Answer:
        """DELETE if uid and resource version, where given, still hold; else 409.

        `dry_run`: say whether it would be done, admission included, and do nothing.
        """

    async def bind(
        self, namespace: str, name: str, *, uid: str, version: str, node: str, annotations: Mapping[str, str]
    ) -> Answer:
        """Bind a pod and merge annotations into it in one atomic write, guarded by uid and resource version."""

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        version: str = "",
        grace_s: int | None = None,
        dry_run: bool = False,
    ) -> Answer:
        """Ask for a pod's eviction, guarded by uid, and by version where given. 429 means that a disruption budget does
        not allow it now. `dry_run`: say whether it would be done, and do nothing."""
