"""What is written on nodes: resources, labels, annotations, and what they lend."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.commands.outcomes import FIELD_MANAGER, outcome_of
from berth.cluster_writer.core.writable import ANNOTATABLE, OFFERED, OFFERED_BESIDE
from berth.contracts import kube
from berth.contracts.command import AnnotateNode, OfferNode, PatchNode
from berth.contracts.errors import InvalidMessage
from berth.kube import resources
from berth.kube.api import KubeApi

_OBJECT: Final = msgspec.json.Decoder(kube.AnyObject)


class NodeCommands:
    """Carries out commands about nodes. What came of each, as a word."""

    def __init__(self, cluster: ClusterView, api: KubeApi) -> None:
        self._cluster = cluster
        self._api = api

    async def patch(self, command: PatchNode) -> str:
        """Set a node's resources in its status, and labels."""
        node = self._cluster.nodes.get(command.name)
        if node is not None and node.uid != command.uid:
            return "overtaken"
        meta: dict[str, Any] = {"uid": command.uid}
        if command.labels:
            body = {"metadata": {**meta, "labels": command.labels}}
            outcome_of(await self._api.patch(resources.NODES, "", command.name, body, field_manager=FIELD_MANAGER))
        if not command.resources:
            return "done"
        body = {"metadata": meta, "status": {"capacity": command.resources, "allocatable": command.resources}}
        answer = await self._api.patch(
            resources.NODES, "", command.name, body, subresource="status", field_manager=FIELD_MANAGER
        )
        return outcome_of(answer)

    async def annotate(self, command: AnnotateNode) -> str:
        """Set annotations of a node."""
        others = sorted(command.annotations.keys() - ANNOTATABLE)
        if others:
            raise InvalidMessage("annotations", f"{others[0]!r} is none of {', '.join(sorted(ANNOTATABLE))}")
        node = self._cluster.nodes.get(command.name)
        if node is not None and node.uid != command.uid:
            return "overtaken"
        if not command.annotations:
            return "done"
        meta: dict[str, Any] = {"uid": command.uid, "annotations": command.annotations}
        if command.expects:
            found = await self._api.get(resources.NODES, "", command.name)
            if not found.ok:
                return outcome_of(found)
            read = _OBJECT.decode(found.body).metadata
            if any((read.annotations or {}).get(name) != text for name, text in command.expects.items()):
                return "overtaken"
            meta["resourceVersion"] = read.resource_version
        answer = await self._api.patch(
            resources.NODES, "", command.name, {"metadata": meta}, field_manager=FIELD_MANAGER
        )
        return outcome_of(answer)

    async def offer(self, command: OfferNode) -> str:
        """Have a node show what it lends. Resources and annotations are one write, through the door of the status."""
        for field, given, known in (
            ("resources", command.resources, OFFERED),
            ("annotations", command.annotations, OFFERED_BESIDE),
        ):
            others = sorted(given.keys() - known)
            if others:
                raise InvalidMessage(field, f"{others[0]!r} is none of {', '.join(sorted(known))}")
        node = self._cluster.nodes.get(command.name)
        if node is not None and node.uid != command.uid:
            return "overtaken"
        body: dict[str, Any] = {"metadata": {"uid": command.uid, "annotations": command.annotations}}
        if command.resources:
            body["status"] = {"capacity": command.resources, "allocatable": command.resources}
        answer = await self._api.patch(
            resources.NODES, "", command.name, body, subresource="status", field_manager=FIELD_MANAGER
        )
        return outcome_of(answer)
