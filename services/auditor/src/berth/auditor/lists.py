"""All that a look needs of the API: one consistent list a kind, page by page; what is not judged is not kept.

Lists of its own, not STATE: an auditor that reads what cluster-watcher publishes would believe its mistakes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec

from berth.auditor.core.objects import Lists
from berth.contracts import kube, names
from berth.kube import KubeApi, Selection, resources
from berth.kube.answer import Answer
from berth.kube.decoding import Decoded, HasMeta, ObjectDecoder
from berth.kube.discovery import proven
from berth.kube.listing import PageSize, pages
from berth.rules.pod_reading import PodItem, whole_pod

T = TypeVar("T", bound=HasMeta)
RESTARTS_MAX = 3
ENDED = frozenset({"Succeeded", "Failed"})


class IncompleteError(Exception):
    """A kind could not be listed whole, so that nothing can be judged."""


class Lister:
    """Lists kinds one after the other. `rest` is awaited after each page, so that a large list disturbs nobody."""

    def __init__(
        self,
        api: KubeApi,
        *,
        schedulers: frozenset[str],
        page: int,
        objects_max: int,
        rest: Callable[[], Awaitable[None]],
    ) -> None:
        self._api = api
        self._schedulers = schedulers
        self._size = PageSize(page)
        self._objects_max = objects_max
        self._rest = rest
        self._unreadable: list[str] = []

    async def all(self) -> Lists:
        """Every kind. Raises IncompleteError, naming the kind and what the server said."""
        unreadable: list[str] = []
        self._unreadable = unreadable
        found = Lists(
            pods=await self._list(resources.PODS, PodItem, self._slim),
            nodes=await self._list(resources.NODES, kube.Node, _slim_node),
            devices=await self._list(resources.DEVICES, kube.Device),
            topologies=await self._list(resources.NODE_RESOURCE_TOPOLOGIES, kube.NodeResourceTopology),
            quotas=await self._list(resources.ELASTIC_QUOTAS, kube.ElasticQuota),
            pod_groups=await self._list(resources.POD_GROUPS, kube.PodGroup),
            reservations=await self._list(resources.RESERVATIONS, kube.Reservation),
            metrics=await self._list(resources.NODE_METRICS, kube.NodeMetric),
            unreadable=unreadable,
        )
        webhooks = await self._list(
            resources.MUTATING_WEBHOOKS, kube.WebhookConfiguration, field=f"metadata.name={names.WEBHOOKS}"
        )
        if not any(each.webhooks for each in webhooks):
            return found
        return found._replace(
            webhooks=webhooks,
            profiles=await self._list(resources.COLOCATION_PROFILES, kube.ClusterColocationProfile),
            namespaces=await self._list(resources.NAMESPACES, kube.AnyObject),
        )

    def _slim(self, item: PodItem) -> kube.Pod | None:
        """What is judged of a pod; None: nothing."""
        pod = whole_pod(item)
        if pod.status.phase in ENDED or not (pod.spec.node_name or pod.spec.scheduler_name in self._schedulers):
            return None
        spec = pod.spec
        if spec.affinity or spec.tolerations or spec.volumes or spec.topology_spread_constraints:
            spec = msgspec.structs.replace(
                spec, affinity=None, tolerations=None, volumes=None, topology_spread_constraints=None
            )
            return msgspec.structs.replace(pod, spec=spec)
        return pod

    async def _list(
        self,
        resource: resources.Resource,
        kind: type[T],
        slim: Callable[[Any], Any] = lambda item: item,
        *,
        field: str = "",
    ) -> list[Any]:
        answer = Answer(0)
        for _ in range(RESTARTS_MAX):
            found = await self._once(Selection(resource, field_selector=field), kind, slim)
            if not isinstance(found, Answer):
                return found
            answer = await proven(self._api, resource, found)
            if answer.not_installed:
                return []  # a kind that is not installed has no objects
            if not answer.expired:
                break
        raise IncompleteError(f"{resource.label}: {answer.status} {answer.reason}"[:300])

    async def _once(self, selection: Selection, kind: type[T], slim: Callable[[Any], Any]) -> list[Any] | Answer:
        resource = selection.resource
        decoder = ObjectDecoder(kind)
        items: list[Any] = []
        async with aclosing(pages(self._api, selection, self._size)) as read:
            async for page in read:
                if isinstance(page, Answer):
                    return page
                for raw in page.items or ():
                    one = decoder.read(raw)
                    if not isinstance(one, Decoded):
                        self._unreadable.append(f"{resource.label} {one.key or '(no name)'}: {one.field} {one.message}")
                        continue
                    kept = slim(one.item)
                    if kept is not None:
                        items.append(kept)
                if len(items) > self._objects_max:
                    raise IncompleteError(f"{resource.label}: more than BERTH_AUDIT_OBJECTS_MAX={self._objects_max}")
                await self._rest()
        return items


def _slim_node(node: kube.Node) -> kube.Node:
    return msgspec.structs.replace(node, status=kube.NodeStatus(allocatable=node.status.allocatable))
