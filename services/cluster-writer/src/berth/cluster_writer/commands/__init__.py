"""Commands of the other services, carried out on the API server. Idempotent, guarded by uid.

What the world has overtaken (another uid, a newer version, an object that is gone) is done: the asker sees it in STATE
and asks again if it still wants to. What may work later is retried by redelivery. What can never work is an
InvalidMessage. Of `ApplyObject` the API server alone says what has overtaken it, never the view, which may be late.

A file for each thing that commands are about; those that evict for a node's sake are `node_evictions`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from berth.bus.errors import RetryLater
from berth.bus.port import Message
from berth.cluster_writer import metrics
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.commands.nodes import NodeCommands
from berth.cluster_writer.commands.objects import ObjectCommands
from berth.cluster_writer.commands.pods import PodCommands
from berth.cluster_writer.core import addresses
from berth.cluster_writer.core.coalescing import Line
from berth.cluster_writer.core.writable import POD_GROUPS_API, RESERVATIONS_API
from berth.cluster_writer.node_evictions import NodeEvictions
from berth.cluster_writer.outbox import Outbox
from berth.cluster_writer.turns import Turns
from berth.contracts.codec import decode
from berth.contracts.command import (
    AnnotateNode,
    ApplyObject,
    Command,
    ConfigureWebhooks,
    DeleteObject,
    EvictPod,
    OfferNode,
    PatchNode,
    PatchObject,
    RefusePod,
    ReportPod,
)
from berth.contracts.errors import InvalidMessage
from berth.kube.api import KubeApi
from berth.runtime.clock import Clock


class Commands:
    """Carries out one command after the other; used by the durable consumer."""

    def __init__(
        self,
        cluster: ClusterView,
        api: KubeApi,
        outbox: Outbox,
        clock: Clock,
        evictions: NodeEvictions,
        *,
        webhook_url: str = "",
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`webhook_url`: where the API server reaches admission-webhook; empty: by its Service. `is_busy`: binds are
        under way, behind which figures are written."""
        self._cluster = cluster
        self._turns = Turns(clock, is_busy, self._phase_of)
        nodes, objects = NodeCommands(cluster, api), ObjectCommands(api, clock, webhook_url=webhook_url)
        pods = PodCommands(cluster, api, outbox, clock)
        self._handlers: dict[type[Any], Callable[[Any], Awaitable[str]]] = {
            PatchNode: nodes.patch,
            AnnotateNode: nodes.annotate,
            OfferNode: nodes.offer,
            PatchObject: objects.patch,
            ApplyObject: objects.apply,
            DeleteObject: objects.delete,
            ConfigureWebhooks: objects.configure_webhooks,
            RefusePod: pods.refuse,
            ReportPod: pods.report,
            EvictPod: evictions.evict,
        }

    async def handle(self, message: Message) -> None:
        """One message of BERTH_CMD. Raises InvalidMessage for what can never work, RetryLaterError for another try."""
        command = decode(message.data, cast(Any, Command))
        kind = type(command).__name__
        try:
            addresses.check(message.subject, command)
            handler = self._handlers[type(command)]
            outcome = await self._turns.take(
                command, lambda: handler(command), sequence=message.sequence, comes_again=message.deliveries > 1
            )
        except RetryLater:
            metrics.COMMANDS.labels(kind, "later").inc()
            raise
        except InvalidMessage:
            metrics.COMMANDS.labels(kind, "broken").inc()
            raise
        metrics.COMMANDS.labels(kind, outcome).inc()

    def _phase_of(self, at: Line) -> str | None:
        """What an object shows, as far as this service reads objects of its kind."""
        api, namespace, name = at
        if api == RESERVATIONS_API:
            found = self._cluster.book.reservations.get(("", name))
            return found.phase if found is not None else None
        if api == POD_GROUPS_API:
            group = self._cluster.pod_groups.get((namespace, name))
            return group.phase if group is not None else None
        return None
