"""Commands of the other services, carried out on the API server. Idempotent, guarded by uid.

What the world has overtaken (another uid, a newer version, an object that is gone) is done: the asker sees it in STATE
and asks again if it still wants to. What may work later is retried by redelivery. What can never work is an
InvalidMessage. Of `ApplyObject` the API server alone says what has overtaken it, never the view, which may be late.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import msgspec

from berth.bus.errors import RetryLater
from berth.bus.port import Message
from berth.cluster_writer import metrics
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.core import addresses
from berth.cluster_writer.core.coalescing import Line
from berth.cluster_writer.core.webhooks import patch_of
from berth.cluster_writer.node_evictions import NodeEvictions
from berth.cluster_writer.outbox import Note, Outbox
from berth.cluster_writer.turns import Turns
from berth.contracts import kube, names
from berth.contracts.codec import decode
from berth.contracts.command import (
    MANAGER,
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
from berth.kube import resources
from berth.kube.answer import NOT_FOUND, Answer
from berth.kube.api import KubeApi
from berth.kube.bodies import ObjectRef, Patch, timestamp
from berth.kube.resources import Resource
from berth.rules.eviction_notes import noted_nomination
from berth.rules.pod_reading import PodItem, whole_pod
from berth.rules.webhooks import MUTATING, VALIDATING
from berth.runtime.clock import Clock

FIELD_MANAGER = "berth-cluster-writer"
WRITABLE = {
    f"{resource.api_version}/{resource.plural}": resource
    for resource in (
        resources.ELASTIC_QUOTAS,
        resources.ELASTIC_QUOTA_PROFILES,
        resources.RESERVATIONS,
        resources.RESERVATION_SCHEDULES,
        resources.POD_GROUPS,
        resources.DEVICES,
        resources.CLUSTER_NETWORK_TOPOLOGIES,
        resources.NODE_METRICS,
        resources.NODE_SLOS,
    )
}
"""Kinds whose objects other services may ask to have patched."""


class Applicable(NamedTuple):
    """A kind whose objects other services may ask to have made, and what it is called.

    `is_shared`: other agents write objects of this kind as well. Those without our label are theirs, and never touched.
    `is_kept`: nobody may ask to have one deleted; it goes with its owner.
    """

    resource: Resource
    kind: str
    is_shared: bool = False
    is_kept: bool = False

    @property
    def is_deletable(self) -> bool:
        """Whether `DeleteObject` may name one."""
        return self.is_shared and not self.is_kept and not self.resource.namespaced


RESERVATIONS_API = "scheduling.koordinator.sh/v1alpha1/reservations"
POD_GROUPS_API = f"{resources.POD_GROUPS.api_version}/{resources.POD_GROUPS.plural}"
APPLICABLE = {
    f"{each.resource.api_version}/{each.resource.plural}": each
    for each in (
        Applicable(resources.NODE_SLOS, "NodeSLO"),
        Applicable(resources.NODE_METRICS, "NodeMetric", is_shared=True, is_kept=True),
        Applicable(resources.ELASTIC_QUOTAS, "ElasticQuota", is_shared=True),
        Applicable(resources.DEVICES, "Device", is_shared=True),
        Applicable(resources.RESERVATIONS, "Reservation", is_shared=True, is_kept=True),
        Applicable(resources.NODE_RESOURCE_TOPOLOGIES, "NodeResourceTopology", is_shared=True),
    )
}
ANNOTATABLE = frozenset(
    {
        names.ANNOTATION_CPU_NORMALIZATION_RATIO,
        names.ANNOTATION_AMPLIFICATION_RATIO,
        names.ANNOTATION_THIRD_PARTY_ALLOCATIONS,
    }
)
"""Annotations of nodes that other services may ask to have written."""
OFFERED = frozenset(names.LENT)
"""Resources of nodes that are lent."""
OFFERED_BESIDE = frozenset({names.ANNOTATION_ORIGIN_ALLOCATABLE})
"""Annotations that are written together with them."""
WEBHOOKS = {MUTATING: resources.MUTATING_WEBHOOKS, VALIDATING: resources.VALIDATING_WEBHOOKS}
NO_VERSION = "1"
"""That no object has: server-side apply makes a missing object in spite of it, and leaves one alone that is there."""
REVISION_DIGITS_MAX = 20
AHEAD_MAX_MS = 3_600_000
"""A revision further ahead of our clock is no reason to drop what comes: it would hold for as long."""

_REPORT_ID = re.compile(r"[0-9a-f]{8,64}")
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,127}")
_OBJECT = msgspec.json.Decoder(kube.AnyObject)
_POD = msgspec.json.Decoder(PodItem)


class RetryLaterError(RetryLater):
    """The API server could not carry it out now; the command comes again."""


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
        self._webhook_url = webhook_url
        self._cluster = cluster
        self._turns = Turns(clock, is_busy, self._phase_of)
        self._api = api
        self._outbox = outbox
        self._clock = clock
        self._handlers: dict[type[Any], Callable[[Any], Awaitable[str]]] = {
            PatchNode: self.patch_node,
            AnnotateNode: self.annotate_node,
            OfferNode: self.offer_node,
            PatchObject: self.patch_object,
            ApplyObject: self.apply_object,
            DeleteObject: self.delete_object,
            ConfigureWebhooks: self.configure_webhooks,
            RefusePod: self.refuse_pod,
            ReportPod: self.report_pod,
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

    async def patch_node(self, command: PatchNode) -> str:
        """Set a node's resources in its status, and labels."""
        node = self._cluster.nodes.get(command.name)
        if node is not None and node.uid != command.uid:
            return "overtaken"
        meta: dict[str, Any] = {"uid": command.uid}
        if command.labels:
            body = {"metadata": {**meta, "labels": command.labels}}
            self._judge(await self._api.patch(resources.NODES, "", command.name, body, field_manager=FIELD_MANAGER))
        if not command.resources:
            return "done"
        body = {"metadata": meta, "status": {"capacity": command.resources, "allocatable": command.resources}}
        answer = await self._api.patch(
            resources.NODES, "", command.name, body, subresource="status", field_manager=FIELD_MANAGER
        )
        return self._judge(answer)

    async def annotate_node(self, command: AnnotateNode) -> str:
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
                return self._judge(found)
            read = _OBJECT.decode(found.body).metadata
            if any((read.annotations or {}).get(name) != text for name, text in command.expects.items()):
                return "overtaken"
            meta["resourceVersion"] = read.resource_version
        answer = await self._api.patch(
            resources.NODES, "", command.name, {"metadata": meta}, field_manager=FIELD_MANAGER
        )
        return self._judge(answer)

    async def offer_node(self, command: OfferNode) -> str:
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
        return self._judge(answer)

    async def patch_object(self, command: PatchObject) -> str:
        """Merge annotations, labels and status into one of the writable kinds."""
        resource = WRITABLE.get(command.api)
        if resource is None:
            raise InvalidMessage("api", f"{command.api!r} is none of {', '.join(sorted(WRITABLE))}")
        meta: dict[str, Any] = {"uid": command.uid}
        if command.version:
            meta["resourceVersion"] = command.version
        notes: dict[str, Any] = {}
        if command.annotations:
            notes["annotations"] = command.annotations
        if command.labels:
            notes["labels"] = command.labels
        status_apart = command.status is not None and command.status_subresource
        body: dict[str, Any] = {"metadata": {**meta, **notes}}
        if command.status is not None and not status_apart:
            body["status"] = command.status
        # The API server compares no uid when the status of a custom resource is written through its own door. Without a
        # version to guard it, an empty first half says whether the object is the one meant, and at which version.
        if notes or not status_apart or not command.version:
            answer = await self._patch(resource, command, body)
            outcome = self._judge(answer)
            if outcome != "done" or not status_apart:
                return outcome
            # Our own first half has moved the version on; anybody else's change still stops the second.
            meta["resourceVersion"] = _OBJECT.decode(answer.body).metadata.resource_version
        answer = await self._patch(
            resource, command, {"metadata": meta, "status": command.status}, subresource="status"
        )
        if answer.conflict and not command.version:
            raise RetryLaterError("the object has changed meanwhile")
        return self._judge(answer)

    async def apply_object(self, command: ApplyObject) -> str:
        """Make an object say this spec: created when it is missing, taken over when others wrote what we decide.

        The object is read, and the request guarded by its version, so that an older one never lands on a newer one,
        whichever replica carried that out. Its owner, a node, is read behind it: a request for a former node of the
        name is overtaken, and what a request for the new one has written since then moves the version on.
        """
        if command.api not in APPLICABLE:
            raise InvalidMessage("api", f"{command.api!r} is none of {', '.join(sorted(APPLICABLE))}")
        owner = command.owner
        resource, kind, is_shared, _ = APPLICABLE[command.api]
        namespace = command.namespace if resource.namespaced else ""
        found = await self._api.get(resource, namespace, command.name)
        if not found.ok and not found.missing:
            return self._judge(found)
        missing = kube.Meta(name=command.name, resource_version=NO_VERSION)
        shown = _OBJECT.decode(found.body).metadata if found.ok else missing
        if is_shared and found.ok and not _is_ours(shown):
            return "another's"
        if command.revision < self._revision(shown, owner):
            return "overtaken"
        if owner is not None and owner.kind == "Node":
            node = await self._api.get(resources.NODES, "", owner.name)
            if not node.ok:
                return self._judge(node)
            if _OBJECT.decode(node.body).metadata.uid != owner.uid:
                return "overtaken"
        meta: dict[str, Any] = {
            "name": command.name,
            "annotations": {**command.annotations, names.ANNOTATION_REVISION: str(command.revision)},
            "ownerReferences": [] if owner is None else [msgspec.to_builtins(owner)],
            # Two requests for one object, or two tries of one, may be on their way at once: the last to begin holds.
            "resourceVersion": shown.resource_version,
        }
        if namespace:
            meta["namespace"] = namespace
        labels = {**command.labels, **({names.LABEL_MANAGED_BY: MANAGER} if is_shared else {})}
        if labels:
            meta["labels"] = labels
        content = command.fields or {"spec": command.spec}
        body = {**content, "apiVersion": resource.api_version, "kind": kind, "metadata": meta}
        answer = await self._api.patch(
            resource, namespace, command.name, body, content_type=Patch.APPLY, field_manager=FIELD_MANAGER, force=True
        )
        if answer.conflict:
            raise RetryLaterError("the object has changed meanwhile")
        outcome = self._judge(answer)
        if outcome != "done" or command.status is None:
            return outcome
        # By the version that the first half has made: what somebody else has written since then is looked at anew.
        version = _OBJECT.decode(answer.body).metadata.resource_version
        half = {"apiVersion": resource.api_version, "kind": kind, "status": command.status}
        half["metadata"] = {"name": command.name, "resourceVersion": version}
        answer = await self._api.patch(
            resource,
            namespace,
            command.name,
            half,
            subresource="status",
            content_type=Patch.APPLY,
            field_manager=FIELD_MANAGER,
            force=True,
        )
        if answer.conflict:
            raise RetryLaterError("the object has changed meanwhile")
        return self._judge(answer)

    async def delete_object(self, command: DeleteObject) -> str:
        """Delete an object that we made, unless it is another one by now, or another writer's; or a Reservation as it
        was judged."""
        if command.api == RESERVATIONS_API:
            if not command.version:
                raise InvalidMessage("version", "is missing: a Reservation is deleted as it was judged")
            return self._judge(
                await self._api.delete(
                    resources.RESERVATIONS, "", command.name, uid=command.uid, version=command.version
                )
            )
        applicable = APPLICABLE.get(command.api)
        if applicable is None or not applicable.is_deletable:
            shared = sorted(api for api, each in APPLICABLE.items() if each.is_deletable)
            raise InvalidMessage("api", f"{command.api!r} is none of {', '.join(shared)}")
        found = await self._api.get(applicable.resource, "", command.name)
        if not found.ok:
            return self._judge(found)
        shown = _OBJECT.decode(found.body).metadata
        if shown.uid != command.uid:
            return "overtaken"
        if not _is_ours(shown):
            return "another's"
        # Between the two another writer may take it over: then its version has moved on.
        return self._judge(
            await self._api.delete(
                applicable.resource, "", command.name, uid=command.uid, version=shown.resource_version
            )
        )

    async def configure_webhooks(self, command: ConfigureWebhooks) -> str:
        """Have Berth's own webhook configuration of a kind hold these entries, and no other configuration."""
        body = patch_of(command, self._webhook_url)
        resource = WEBHOOKS[command.kind]
        return self._judge(await self._api.patch(resource, "", names.WEBHOOKS, body, field_manager=FIELD_MANAGER))

    async def refuse_pod(self, command: RefusePod) -> str:
        """Tell a pod's owner that it cannot be placed: a condition and an Event, only if that is news; and take back a
        nomination that it could not have.

        The view may be late, and a condition that says False must not land on a pod that was bound meanwhile: the pod
        is read, and the patch guarded by its version.
        """
        seen = self._cluster.book.pods.get((command.namespace, command.name))
        if seen is not None and seen.uid == command.uid and seen.node:
            return "overtaken"
        answer = await self._api.get(resources.PODS, command.namespace, command.name)
        outcome = self._judge(answer)
        if outcome != "done":
            return outcome
        pod = whole_pod(_POD.decode(answer.body))
        is_news, lets_go = not _says(pod, command), self._lets_go(pod, command)
        if pod.metadata.uid != command.uid or pod.spec.node_name or not (is_news or lets_go):
            return "overtaken"
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": command.reason,
            "message": command.message,
            "lastTransitionTime": timestamp(self._clock.now()),
        }
        guard = {"uid": command.uid, "resourceVersion": pod.metadata.resource_version}
        status: dict[str, Any] = {"conditions": [condition]} if is_news else {}
        if lets_go:
            status["nominatedNodeName"] = None
        body = {"metadata": guard, "status": status}
        answer = await self._api.patch(
            resources.PODS,
            command.namespace,
            command.name,
            body,
            content_type=Patch.STRATEGIC,
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
        if answer.conflict:
            raise RetryLaterError("the pod has changed meanwhile")
        outcome = self._judge(answer)
        if outcome == "done" and is_news:
            about = ObjectRef("v1", "Pod", command.namespace, command.name, command.uid)
            self._outbox.put(Note(about, "FailedScheduling", command.message, warning=True, action="Scheduling"))
        return outcome

    def _lets_go(self, pod: kube.Pod, command: RefusePod) -> bool:
        """Whether the pod carries the nomination that it is to let go, and nobody carries that out."""
        if not command.lets_go or not pod.status.nominated_node_name:
            return False
        note = noted_nomination(pod.metadata.annotations or {})
        if note is None or note.plan != command.lets_go:
            return False
        decision = self._cluster.book.open_decision((command.namespace, command.name))
        return decision is None or not decision.nominates

    async def report_pod(self, command: ReportPod) -> str:
        """Write an Event for a pod, once; none for a pod that is not there."""
        if _REPORT_ID.fullmatch(command.id) is None:
            raise InvalidMessage("id", f"{command.id[:80]!r} is not 8 to 64 hexadecimal digits")
        if _REASON.fullmatch(command.reason) is None:
            raise InvalidMessage("reason", f"{command.reason[:80]!r} is not one word")
        seen = self._cluster.book.pods.get((command.namespace, command.name))
        if seen is None and not self._cluster.book.complete["pods"].is_known:
            raise RetryLaterError("pods were not read yet")
        if seen is None or seen.uid != command.uid:
            return "overtaken"
        about = ObjectRef("v1", "Pod", command.namespace, command.name, command.uid)
        note = Note(about, command.reason, command.message, warning=command.warning, token=command.id)
        self._outbox.put(note)
        return "done"

    def _revision(self, meta: kube.Meta, owner: kube.OwnerReference | None) -> int:
        """That of the request which the object was last written for; 0 for an object of somebody else.

        One that was written for a former owner of this name goes with it, and says nothing of this one.
        """
        if owner is not None and owner.uid not in {each.uid for each in meta.owner_references or ()}:
            return 0
        text = (meta.annotations or {}).get(names.ANNOTATION_REVISION, "")
        if not (text.isascii() and text.isdigit() and len(text) <= REVISION_DIGITS_MAX):
            return 0
        revision = int(text)
        return revision if revision <= self._clock.now() * 1000 + AHEAD_MAX_MS else 0

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

    async def _patch(self, resource: Resource, command: PatchObject, body: Any, subresource: str = "") -> Answer:
        namespace = command.namespace if resource.namespaced else ""
        return await self._api.patch(
            resource, namespace, command.name, body, subresource=subresource, field_manager=FIELD_MANAGER
        )

    def _judge(self, answer: Answer) -> str:
        if answer.ok:
            return "done"
        if answer.reason == NOT_FOUND or answer.conflict or _is_successor(answer):
            return "overtaken"
        if answer.repeat or answer.missing:  # a 404 that is no API server's own word on the object
            raise RetryLaterError(f"{answer.status} {answer.message}")
        raise InvalidMessage("", f"the API server refuses it: {answer.status} {answer.message}")


def _is_ours(meta: kube.Meta) -> bool:
    return (meta.labels or {}).get(names.LABEL_MANAGED_BY) == MANAGER


def _says(pod: kube.Pod, command: RefusePod) -> bool:
    """Whether the pod carries this refusal already."""
    conditions = pod.status.conditions or []
    return any(
        each.type == "PodScheduled" and each.status == "False" and each.message == command.message
        for each in conditions
    )


def _is_successor(answer: Answer) -> bool:
    """The refusal of a patch because its uid is another object's: some kinds say so as a change of a fixed field."""
    return answer.status == 422 and "metadata.uid" in answer.message
