"""The request that carries a decision out: a pod's bind, a Reservation's status, or the growth of one.

Each is guarded by the version that was judged, and the same request may be sent again until its outcome is known.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.core.growths import growing
from berth.cluster_writer.core.take_over_steps import owners_after
from berth.cluster_writer.hand_offs import HandOffs
from berth.contracts import kube
from berth.contracts.ledger import Decision
from berth.kube import resources
from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.kube.bodies import timestamp
from berth.resources.amounts import format_amounts
from berth.rules.records.binds import written_over
from berth.runtime.clock import Clock

_META: Final = msgspec.json.Decoder(kube.AnyObject)


class BindRequests:
    """Sends them, once each."""

    def __init__(self, cluster: ClusterView, api: KubeApi, clock: Clock, hand_offs: HandOffs) -> None:
        self._cluster = cluster
        self._api = api
        self._clock = clock
        self._hand_offs = hand_offs

    async def send(self, decision: Decision, version: int) -> Answer:
        """The answer to the last part of it, or to the first that was refused. `version`: of the object, as judged."""
        if decision.kind == "pod":
            # The request is guarded by the version that was judged, so notes that came later refuse it.
            seen = self._cluster.book.pods.get((decision.namespace, decision.name))
            carried = seen.template.annotations if seen is not None else {}
            hand_off = self._hand_offs.of(decision)
            if hand_off.labels and seen is not None and not hand_off.labels.items() <= seen.template.labels.items():
                # A bind carries annotations alone.
                guard = {"uid": decision.uid, "resourceVersion": str(version)}
                noted = await self._api.patch(
                    resources.PODS,
                    decision.namespace,
                    decision.name,
                    {"metadata": {**guard, "labels": {**hand_off.labels}}},
                )
                meta = meta_of(noted)
                if meta is None:
                    return noted if not noted.ok else Answer(0, reason="UnreadableAnswer")
                version = int(meta.resource_version)
            return await self._api.bind(
                decision.namespace,
                decision.name,
                uid=decision.uid,
                version=str(version),
                node=decision.node,
                annotations={**written_over(decision.annotations, carried), **hand_off.annotations},
            )
        if decision.grows:
            return await self._send_growth(decision, version)
        return await self._send_reservation(decision, version)

    async def _send_growth(self, decision: Decision, version: int) -> Answer:
        """The amounts go first: once the annotation names the plan, the decision stands for nothing more than those."""
        guard = {"uid": decision.uid, "resourceVersion": str(version)}
        more = growing(decision, self._cluster.book.seen((decision.namespace, decision.name)))
        if more:
            grown = await self._api.patch(
                resources.RESERVATIONS,
                "",
                decision.name,
                {"metadata": guard, "status": {"allocatable": format_amounts(more)}},
                subresource="status",
            )
            meta = meta_of(grown)
            if meta is None:
                return grown if not grown.ok else Answer(0, reason="UnreadableAnswer")
            guard["resourceVersion"] = meta.resource_version
        return await self._api.patch(
            resources.RESERVATIONS, "", decision.name, {"metadata": {**guard, "annotations": decision.annotations}}
        )

    async def _send_reservation(self, decision: Decision, version: int) -> Answer:
        """A Reservation is bound by its status; its annotations go first, since status patches carry none."""
        guard = {"uid": decision.uid, "resourceVersion": str(version)}
        noted = await self._api.patch(
            resources.RESERVATIONS, "", decision.name, {"metadata": {**guard, "annotations": decision.annotations}}
        )
        if not noted.ok:
            return noted
        meta = meta_of(noted)
        if meta is None:
            return Answer(0, reason="UnreadableAnswer")
        guard["resourceVersion"] = meta.resource_version
        status: dict[str, Any] = {
            "phase": "Available",
            "nodeName": decision.node,
            "allocatable": format_amounts(decision.allocation.amounts),
            "conditions": _reservation_conditions(self._clock.now()),
        }
        if taken := owners_after(decision):
            status["currentOwners"] = taken
        return await self._api.patch(
            resources.RESERVATIONS, "", decision.name, {"metadata": guard, "status": status}, subresource="status"
        )


def meta_of(answer: Answer) -> kube.Meta | None:
    """The metadata of the object in an answer; None without a readable one."""
    if not answer.ok:
        return None
    try:
        meta = _META.decode(answer.body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return meta if meta.resource_version.isascii() and meta.resource_version.isdigit() else None


def _reservation_conditions(now: float) -> list[dict[str, str]]:
    """The conditions of a Reservation that has just got its node."""
    at = timestamp(now)
    return [
        {"type": kind, "status": "True", "reason": reason, "lastProbeTime": at, "lastTransitionTime": at}
        for kind, reason in (("Scheduled", "Scheduled"), ("Ready", "Available"))
    ]
