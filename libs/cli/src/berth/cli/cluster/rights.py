"""What the services may do to a cluster, as the API server judges it for the login that they will use.

The same rules stand in `k8s/base` for service accounts; a test keeps the two equal.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from berth.contracts import names
from berth.kube import Kube, Resource

HOME = "berth-system"
"""Namespace of the Lease."""
SELF = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", False)
REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", False)


class Need(NamedTuple):
    """One verb on one kind. A namespace or a name narrows it."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    @property
    def kind(self) -> str:
        """The kind as `kubectl auth can-i` takes it, with the namespace where it is narrowed."""
        plural, slash, subresource = self.resource.partition("/")
        group = f".{self.group}" if self.group else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{plural}{group}{slash}{subresource}{where}"


def _needs(group: str, resources: str, verbs: str, namespace: str = "", name: str = "") -> list[Need]:
    return [Need(group, resource, verb, namespace, name) for resource in resources.split() for verb in verbs.split()]


WATCHER = (
    *_needs("", "pods nodes namespaces persistentvolumeclaims persistentvolumes", "list watch"),
    *_needs("", "configmaps", "list watch", name="slo-controller-config"),
    *_needs("", "configmaps", "list watch", name="scheduler-config"),
    *_needs("", "configmaps", "list watch", name="gpu-shared-resource-templates"),
    *_needs("scheduling.k8s.io", "priorityclasses", "list watch"),
    *_needs("", "services replicationcontrollers", "list watch"),
    *_needs("apps", "replicasets statefulsets", "list watch"),
    *_needs("policy", "poddisruptionbudgets", "list watch"),
    *_needs("storage.k8s.io", "storageclasses csinodes csidrivers", "list watch"),
    *_needs("storage.k8s.io", "csistoragecapacities volumeattachments", "list watch"),
    *_needs("scheduling.sigs.k8s.io", "podgroups elasticquotas", "list watch"),
    *_needs("quota.koordinator.sh", "elasticquotaprofiles", "list watch"),
    *_needs("scheduling.koordinator.sh", "clusternetworktopologies devices reservations", "list watch"),
    *_needs("scheduling.berth.sh", "reservationschedules", "list watch"),
    *_needs("slo.koordinator.sh", "nodemetrics nodeslos", "list watch"),
    *_needs("topology.node.k8s.io", "noderesourcetopologies", "list watch"),
    *_needs("config.koordinator.sh", "clustercolocationprofiles", "list watch"),
    *_needs(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
        "list watch",
        name=names.WEBHOOKS,
    ),
)
WRITER = (
    *_needs("", "pods", "get list patch delete"),
    *_needs("", "pods/binding pods/eviction", "create"),
    *_needs("", "pods/status", "patch"),
    *_needs("", "nodes", "get patch"),
    *_needs("", "nodes/status", "patch"),
    *_needs("", "events", "create"),
    *_needs("", "persistentvolumes persistentvolumeclaims", "patch"),
    *_needs("scheduling.koordinator.sh", "reservations", "get list patch create delete"),
    *_needs("scheduling.koordinator.sh", "reservations/status", "patch"),
    *_needs("scheduling.berth.sh", "reservationschedules/status", "patch"),
    *_needs("scheduling.koordinator.sh", "devices", "get create patch delete"),
    *_needs("scheduling.koordinator.sh", "devices/status", "patch"),
    *_needs("scheduling.koordinator.sh", "clusternetworktopologies clusternetworktopologies/status", "patch"),
    *_needs("topology.node.k8s.io", "noderesourcetopologies", "get create patch delete"),
    *_needs("scheduling.sigs.k8s.io", "podgroups podgroups/status elasticquotas elasticquotas/status", "patch"),
    *_needs("scheduling.sigs.k8s.io", "elasticquotas", "get create"),
    *_needs("quota.koordinator.sh", "elasticquotaprofiles", "patch"),
    *_needs("slo.koordinator.sh", "nodemetrics nodemetrics/status nodeslos nodeslos/status", "patch"),
    *_needs("slo.koordinator.sh", "nodeslos nodemetrics", "get create"),
    *_needs(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
        "patch",
        name=names.WEBHOOKS,
    ),
    *_needs("coordination.k8s.io", "leases", "create", HOME),
    *_needs("coordination.k8s.io", "leases", "get patch", HOME, "cluster-writer"),
)


class _UserInfo(msgspec.Struct):
    username: str = ""


class _SelfStatus(msgspec.Struct, rename={"user_info": "userInfo"}):
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _Self(msgspec.Struct):
    status: _SelfStatus = msgspec.field(default_factory=_SelfStatus)


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


async def user_of(kube: Kube) -> str:
    """The name of this login; empty where the server does not tell it."""
    answer = await kube.create(SELF, "", {"apiVersion": SELF.api_version, "kind": "SelfSubjectReview"})
    try:
        return msgspec.json.decode(answer.body, type=_Self).status.user_info.username if answer.ok else ""
    except msgspec.MsgspecError:
        return ""


def granting(user: str, resource: Resource, namespace: str, verbs: str) -> list[str]:
    """The commands by which an administrator lets a login do this, in this namespace if the kind has one."""
    login = user or "USER"
    plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    name = f"{resource.plural}-of-{re.sub(r'[^a-z0-9]+', '-', login.lower()).strip('-')}"
    role, where = ("role", ["-n", namespace]) if namespace else ("clusterrole", [])
    return [
        shlex.join(["kubectl", "create", role, name, *where, f"--verb={verbs}", f"--resource={plural}"]),
        shlex.join(["kubectl", "create", f"{role}binding", name, *where, f"--{role}={name}", f"--user={login}"]),
    ]


async def refused(kube: Kube, needs: Iterable[Need]) -> list[Need]:
    """Those needs that the server says no to; nothing when it judges no rights at all (RBAC is off, no such API)."""
    every = list(dict.fromkeys(needs))
    allowed = await asyncio.gather(*(_is_allowed(kube, need) for need in every))
    return [need for need, yes in zip(every, allowed, strict=True) if not yes]


async def _is_allowed(kube: Kube, need: Need) -> bool:
    plural, _, subresource = need.resource.partition("/")
    attributes = {
        "group": need.group,
        "resource": plural,
        "subresource": subresource,
        "verb": need.verb,
        "namespace": need.namespace,
        "name": need.name,
    }
    body = {
        "apiVersion": REVIEWS.api_version,
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    answer = await kube.create(REVIEWS, "", body)
    if not answer.ok:
        return True  # nobody judges here; a refusal later says so
    try:
        return msgspec.json.decode(answer.body, type=_Review).status.allowed
    except msgspec.MsgspecError:
        return True
