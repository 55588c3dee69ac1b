"""The real API server: `Kube` speaks the protocol of `KubeApi` over HTTP.

Promises: no exception for anything that server or network do, never a retry of a request whose outcome is unknown
(the caller knows what is idempotent), bounded connections and bodies. Does not validate objects: the server does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Self, TypeVar

import msgspec
from yarl import URL

from berth.kube import bodies
from berth.kube.answer import Answer
from berth.kube.api import Selection
from berth.kube.bodies import Patch
from berth.kube.clock import Clock, SystemClock
from berth.kube.credentials import Endpoint, KubeConfigError, from_url, in_cluster, runs_in_cluster
from berth.kube.decoding import HasMeta
from berth.kube.kubeconfig import default_path, from_kubeconfig
from berth.kube.listing import Listing, list_all
from berth.kube.port import Transport
from berth.kube.resources import PODS, Resource
from berth.kube.settings import KubeSettings
from berth.kube.transport import HttpTransport

T = TypeVar("T", bound=HasMeta)

_ENCODER = msgspec.json.Encoder()


class Kube:
    """A client of one API server. Make it with `connect`, give it back with `close`."""

    def __init__(self, transport: Transport, server: str) -> None:
        """`server` is what messages for people say about where that is."""
        self._transport = transport
        self.server = server

    @classmethod
    async def connect(cls, settings: KubeSettings, *, clock: Clock | None = None) -> Self:
        """Find the server and our credentials; nothing is sent yet. Raises KubeConfigError when that fails."""
        if problems := settings.problems():
            raise KubeConfigError("; ".join(problems))
        endpoint = await find_endpoint(settings, clock or SystemClock())
        try:
            server = URL(endpoint.server)
            usable = server.scheme in ("http", "https") and bool(server.host)
        except ValueError:
            usable = False
        if not usable:
            raise KubeConfigError(f"server: {endpoint.server[:200]!r} is not a URL")
        return cls(HttpTransport(endpoint, settings), endpoint.server)

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- reading ---------------------------------------------------------------------------------------------------

    async def list(
        self,
        resource: Resource,
        item_type: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> Listing[T] | Answer:
        """Every object, by a consistent paged read; the refusal or lost answer instead if there is one."""
        selection = Selection(resource, namespace, label_selector, field_selector)
        return await list_all(self, selection, item_type, limit=limit)

    async def page(self, selection: Selection, *, limit: int, token: str = "") -> Answer:
        """See `KubeApi.page`."""
        params = _selectors(selection) | {"limit": str(limit)}
        if token:
            params["continue"] = token
        return await self._send("list", "GET", selection.resource, selection.namespace, "", params=params)

    async def watch(
        self, selection: Selection, *, version: int, stream_s: int, idle_s: float
    ) -> AsyncGenerator[bytes | Answer, None]:
        """See `KubeApi.watch`."""
        params = _selectors(selection) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(version),
            "timeoutSeconds": str(stream_s),
        }
        path = selection.resource.path(selection.namespace)
        stream = self._transport.stream(selection.resource.label, path, params=params, idle_s=idle_s)
        try:
            async for line in stream:
                yield line
        finally:
            await stream.aclose()

    async def get(self, resource: Resource, namespace: str, name: str) -> Answer:
        """See `KubeApi.get`."""
        return await self._send("get", "GET", resource, namespace, name)

    async def discover(self, path: str) -> Answer:
        """See `KubeApi.discover`."""
        return await self._transport.send("discover", "GET", "discovery", path)

    # --- writing ---------------------------------------------------------------------------------------------------

    async def create(self, resource: Resource, namespace: str, body: Any, *, field_manager: str = "") -> Answer:
        """See `KubeApi.create`."""
        return await self._send("create", "POST", resource, namespace, "", params=_manager(field_manager), body=body)

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
        """See `KubeApi.replace`."""
        params = _manager(field_manager)
        return await self._send("update", "PUT", resource, namespace, name, subresource, params=params, body=body)

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
        """See `KubeApi.patch`."""
        params = _manager(field_manager)
        if content_type is Patch.APPLY and force:
            params["force"] = "true"
        return await self._send(
            "patch", "PATCH", resource, namespace, name, subresource, params=params, body=body, kind=content_type.value
        )

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
        """See `KubeApi.delete`."""
        body = bodies.delete_options(uid=uid, version=version, grace_s=grace_s, dry_run=dry_run)
        return await self._send("delete", "DELETE", resource, namespace, name, body=body)

    async def bind(
        self, namespace: str, name: str, *, uid: str, version: str, node: str, annotations: Mapping[str, str]
    ) -> Answer:
        """See `KubeApi.bind`."""
        body = bodies.binding(namespace, name, uid=uid, version=version, node=node, annotations=annotations)
        return await self._send("bind", "POST", PODS, namespace, name, "binding", body=body)

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
        """See `KubeApi.evict`."""
        body = bodies.eviction(namespace, name, uid=uid, version=version, grace_s=grace_s, dry_run=dry_run)
        return await self._send("evict", "POST", PODS, namespace, name, "eviction", body=body)

    async def _send(
        self,
        verb: str,
        method: str,
        resource: Resource,
        namespace: str,
        name: str,
        subresource: str = "",
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        kind: str = "application/json",
    ) -> Answer:
        if not name and verb not in ("list", "create"):
            return Answer(422, b"", "the name is empty")
        try:
            path = resource.path(namespace, name, subresource)
            data = body if body is None or isinstance(body, bytes) else _ENCODER.encode(body)
        except (ValueError, TypeError, RecursionError) as error:
            return Answer(422, b"", str(error))
        label = f"{resource.label}/{subresource}" if subresource else resource.label
        return await self._transport.send(verb, method, label, path, params=params, body=data, content_type=kind)


async def find_endpoint(settings: KubeSettings, clock: Clock) -> Endpoint:
    """The endpoint that the settings mean, in the order of `KubeSettings`. Raises KubeConfigError."""
    if settings.url:
        return from_url(settings, clock)
    if settings.kubeconfig:
        return await from_kubeconfig(settings.kubeconfig, settings.context, clock)
    if runs_in_cluster():
        return in_cluster(clock)
    return await from_kubeconfig(default_path(), settings.context, clock)


def _selectors(selection: Selection) -> dict[str, str]:
    params = {"labelSelector": selection.label_selector, "fieldSelector": selection.field_selector}
    return {name: value for name, value in params.items() if value}


def _manager(field_manager: str) -> dict[str, str]:
    return {"fieldManager": field_manager} if field_manager else {}
