"""The simulated API without HTTP: `KubeApi` as calls of a store, with a script of what goes wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from tests.services.worlds.writer.objects import new_node, new_pod, new_reservation, pod_path, read

from berth.cluster_watcher.core.nodes import node_of
from berth.cluster_watcher.core.reservations import ReservationItem, reservation_of
from berth.contracts import kube, state
from berth.kube.answer import Answer, answer_of
from berth.kube.bodies import Patch, delete_options, eviction
from berth.rules.pod_reading import PodItem
from berth.rules.reading.pods import pod_of
from berth.simcluster import Store
from berth.simcluster.http.discovery import discover
from berth.simcluster.store import ListOptions, Path


class StoreApi:
    """`KubeApi` on a store, with a script: `on(verb, action)` makes the next such call do something else first.

    An action gets the request's arguments; an Answer that it returns is the answer, None lets the call go on.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: Counter[str] = Counter()
        self._script: dict[str, list[Callable[..., Any]]] = {}

    def on(self, verb: str, *actions: Callable[..., Any]) -> None:
        self._script.setdefault(verb, []).extend(actions)

    def _before(self, verb: str, *args: Any) -> Answer | None:
        self.calls[verb] += 1
        actions = self._script.get(verb)
        return actions.pop(0)(*args) if actions else None

    async def _do(self, verb: str, args: Sequence[Any], effect: Callable[[], Any]) -> Answer:
        await asyncio.sleep(0)
        told = self._before(verb, *args)
        if told is not None:
            return told
        reply = effect()
        return answer_of(reply.status, bytes(reply.body), "", None)

    # What the cluster holds, and what STATE would say of it.

    def pod(self, name: str, **spec: Any) -> state.Pod:
        assert self.store.create(Path("", "v1", "pods", "default"), new_pod(name, **spec)).status == 201
        return self.seen(name)

    def node(self, name: str, **amounts: str) -> state.Node:
        reply = self.store.create(Path("", "v1", "nodes"), new_node(name, **amounts))
        assert reply.status == 201
        item = msgspec.json.decode(reply.body, type=kube.Node)
        return node_of(item, int(item.metadata.resource_version))

    def reservation(self, name: str, **amounts: str) -> state.Reservation:
        body = new_reservation(name, **amounts)
        group, version = body["apiVersion"].split("/")
        reply = self.store.create(Path(group, version, "reservations"), body)
        assert reply.status == 201, reply
        return self.seen_reservation(name)

    def seen(self, name: str) -> state.Pod:
        item = msgspec.json.decode(self.store.get(pod_path(name)).body, type=PodItem)
        return pod_of(item, int(item.metadata.resource_version))

    def seen_reservation(self, name: str) -> state.Reservation:
        path = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", name)
        item = msgspec.json.decode(self.store.get(path).body, type=ReservationItem)
        return reservation_of(item, int(item.metadata.resource_version))

    def raw(self, name: str) -> dict[str, Any] | None:
        return read(self.store, pod_path(name))

    def touch(self, name: str) -> None:
        """Somebody changes a label: the version moves on."""
        reply = self.store.patch(pod_path(name), {"metadata": {"labels": {"touched": str(self.store.version)}}})
        assert reply.status == 200

    def remove(self, name: str) -> None:
        """A pod is gone."""
        assert self.store.delete(pod_path(name), grace="0").status == 200

    async def page(self, selection: Any, *, limit: int, token: str = "") -> Answer:
        path = self._path(selection.resource, selection.namespace)
        return await self._do(
            "list", [selection], lambda: self.store.list(path, ListOptions(limit=str(limit), token=token))
        )

    async def get(self, resource: Any, namespace: str, name: str) -> Answer:
        return await self._do("get", [name], lambda: self.store.get(self._path(resource, namespace, name)))

    async def discover(self, path: str) -> Answer:
        found = discover(self.store.state, path)
        return Answer(404) if found is None else Answer(200, found[1])

    async def create(self, resource: Any, namespace: str, body: Any, *, field_manager: str = "") -> Answer:
        return await self._do("create", [body], lambda: self.store.create(self._path(resource, namespace), body))

    async def patch(
        self,
        resource: Any,
        namespace: str,
        name: str,
        body: Any,
        *,
        content_type: Patch = Patch.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> Answer:
        path = self._path(resource, namespace, name, subresource)
        verb = f"patch {subresource}".strip()
        return await self._do(
            verb, [name, body], lambda: self.store.patch(path, body, content_type.value, manager=field_manager)
        )

    async def delete(
        self,
        resource: Any,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        version: str = "",
        grace_s: int | None = None,
        dry_run: bool = False,
    ) -> Answer:
        body = delete_options(uid=uid, version=version, grace_s=grace_s, dry_run=dry_run)
        return await self._do("delete", [name], lambda: self.store.delete(self._path(resource, namespace, name), body))

    async def bind(
        self, namespace: str, name: str, *, uid: str, version: str, node: str, annotations: Mapping[str, str]
    ) -> Answer:
        body = {
            "metadata": {"name": name, "uid": uid, "resourceVersion": version, "annotations": dict(annotations)},
            "target": {"kind": "Node", "name": node},
        }
        return await self._do("bind", [name], lambda: self.store.bind(namespace, name, body))

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
        body = eviction(namespace, name, uid=uid, version=version, grace_s=grace_s, dry_run=dry_run)
        return await self._do("evict", [name], lambda: self.store.evict(namespace, name, body))

    def _path(self, resource: Any, namespace: str, name: str = "", subresource: str = "") -> Path:
        return Path(resource.group, resource.version, resource.plural, namespace, name, subresource)
