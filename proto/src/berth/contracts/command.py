"""Commands to cluster-writer, the only service that changes Kubernetes. All idempotent, all guarded by uid."""

from __future__ import annotations

from typing import Any, Final

from berth.contracts.base import Integer, Message, Part
from berth.contracts.kube import OwnerReference

MANAGER: Final = "berth"
"""What the label `app.kubernetes.io/managed-by` says of an object that is Berth's."""


class PatchNode(Message, frozen=True, kw_only=True, tag="node.patch.v1"):
    """Set resources in a node's status (capacity and allocatable alike) and labels; a value of None removes."""

    name: str
    uid: str
    resources: dict[str, str | None] = {}
    labels: dict[str, str | None] = {}


class AnnotateNode(Message, frozen=True, kw_only=True, tag="node.annotate.v1"):
    """Set annotations of a node; a value of None removes. Only those that cluster-writer lists for this are written.

    Apart from `PatchNode`, so that who may send it changes neither what a node offers nor its labels. `expects` guards:
    where the node says something else of one of these (None: it has no such annotation), nothing is written, since the
    asker sees the newer node and asks again.
    """

    name: str
    uid: str
    annotations: dict[str, str | None] = {}
    expects: dict[str, str | None] = {}


class OfferNode(Message, frozen=True, kw_only=True, tag="node.offer.v1"):
    """Have a node show what it lends: `resources` in its status (capacity and allocatable alike) together with
    `annotations`, in one write; a value of None removes. Only the resources that are lent, and the annotation beside
    them, are written."""

    name: str
    uid: str
    resources: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}


class PatchObject(Message, frozen=True, kw_only=True, tag="object.patch.v1"):
    """Merge annotations and status into an object, by its API path `group/version/plural`.

    `version` guards by resource version when not empty: refused writes are dropped, since the asker sees the newer
    object and asks again. `status_subresource` says whether the kind's status is a subresource.
    """

    api: str
    name: str
    uid: str
    namespace: str = ""
    version: str = ""
    annotations: dict[str, str | None] = {}
    labels: dict[str, str | None] = {}
    status: dict[str, Any] | None = None
    status_subresource: bool = True


class ApplyObject(Message, frozen=True, kw_only=True, tag="object.apply.v1"):
    """Make an object say this spec, whether it exists or not, by its API path `group/version/plural`.

    `fields` are those beside metadata and spec, of kinds that have any; such a kind has no spec.
    The object belongs to `owner`, with which it goes; without one it stays. `revision` grows from one request for an
    object to the next, and the object shows it: a request that arrives after a newer one for the same owner is dropped.
    `status`: what its status says, by its own door; None: it is not written.
    `labels` and `annotations` are those that the asker decides about; others stay. Of kinds that others write as well
    an object without the label `app.kubernetes.io/managed-by: berth` is another writer's, and left alone.
    """

    api: str
    name: str
    spec: dict[str, Any] = {}
    owner: OwnerReference | None = None
    revision: Integer = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    fields: dict[str, Any] = {}
    namespace: str = ""
    status: dict[str, Any] | None = None


class DeleteObject(Message, frozen=True, kw_only=True, tag="object.delete.v1"):
    """Delete a cluster-scoped object that `ApplyObject` made, of a kind that others write as well; or a Reservation
    that has finished, as it was at `version`.

    One that is not Berth's, or has another uid, is left alone; so is a Reservation that has changed.
    """

    api: str
    name: str
    uid: str
    version: str = ""


class WebhookEntry(Part, frozen=True, kw_only=True):
    """What of the API server's requests one webhook is called for.

    `door` names path and kind of request (`berth.rules.webhooks`). The selectors are label selectors as Kubernetes
    writes them, `conditions` CEL expressions by name, all of which have to hold.
    """

    name: str
    door: str
    namespace_selector: dict[str, Any] = {}
    object_selector: dict[str, Any] = {}
    conditions: dict[str, str] = {}


class ConfigureWebhooks(Message, frozen=True, kw_only=True, tag="webhooks.configure.v1"):
    """Have Berth's configuration of this kind (`mutating` or `validating`) hold these entries and no others.

    cluster-writer alone says where they lead, that they may fail, and which namespaces are left out. `ca_bundle`: what
    the replicas are checked by (PEM). `uid` and `version` are those of the object that the asker saw: one that has
    changed since then is left alone, and asked for again.
    """

    kind: str
    uid: str
    version: str
    entries: list[WebhookEntry] = []
    ca_bundle: str = ""


class RefusePod(Message, frozen=True, kw_only=True, tag="pod.refuse.v1"):
    """Write condition PodScheduled=False, reason Unschedulable, and one FailedScheduling Event with this message.

    `lets_go` is a plan whose nomination the pod carries and could not have: `status.nominatedNodeName` is taken back,
    where the note is still that plan's and LEDGER does not hold the nomination.
    """

    namespace: str
    name: str
    uid: str
    message: str
    reason: str = "Unschedulable"
    lets_go: str = ""


class ReportPod(Message, frozen=True, kw_only=True, tag="pod.report.v1"):
    """Make one Event about a pod; none where there is one of this `id` about it already.

    `reason` is one word, as kubectl shows it; `id` 8 to 64 hexadecimal digits. An Event is best effort.
    """

    namespace: str
    name: str
    uid: str
    id: str
    reason: str
    message: str
    warning: bool = True


class EvictionNote(Part, frozen=True, kw_only=True):
    """Why a pod leaves its node for the node's sake; fields are those of `slo.PodEviction`."""

    need: str
    feature: str
    accumulator: str
    release: dict[str, Integer] = {}
    counts: dict[str, Integer] = {}
    message: str = ""


class EvictPod(Message, frozen=True, kw_only=True, tag="pod.evict.v1"):
    """Evict a pod from its node through the eviction API, so that disruption budgets hold.

    The pod carries `note` before it is asked to leave, and the refusal with it where it may stay; `revision` grows from
    one request for a pod to the next, and the note shows it. After `until`, unix seconds, nobody needs it any more.
    """

    namespace: str
    name: str
    uid: str
    reason: str
    node: str = ""
    revision: Integer = 0
    until: float = 0.0
    note: EvictionNote | None = None


Command = (
    PatchNode
    | AnnotateNode
    | OfferNode
    | PatchObject
    | ApplyObject
    | DeleteObject
    | ConfigureWebhooks
    | RefusePod
    | ReportPod
    | EvictPod
)
