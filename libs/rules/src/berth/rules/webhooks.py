"""What Berth's webhooks are called for, and how an entry of a webhook configuration says so.

Every entry is `Ignore`, has no side effects and two seconds: whatever becomes of the webhook, objects are written. None
ever concerns kube-system or the namespaces of Berth, but for the one ConfigMap that lies there to be checked. Entries
are written with each field that the API server would fill in, so that what was asked for can be compared with what is
there.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final, NamedTuple

from berth.contracts import names
from berth.contracts.command import WebhookEntry

MUTATING: Final = "mutating"
VALIDATING: Final = "validating"
KINDS: Final = (MUTATING, VALIDATING)
TIMEOUT_S: Final = 2
SYSTEM: Final = ("kube-system",)
SPARED: Final = (*SYSTEM, *names.NAMESPACES_OF_BERTH)
"""Namespaces of which no object is looked at, unless its door is for objects with a label of Berth's."""
SERVICE: Final = "admission-webhook"
NAMESPACE: Final = names.NAMESPACES_OF_BERTH[0]
PORT: Final = 443
HOST: Final = f"{SERVICE}.{NAMESPACE}.svc"
"""What the API server calls the Service, and checks the certificate for."""
SUFFIX: Final = "admission.berth.sh"
"""What names of entries end with."""
_NAME_LENGTH_MAX: Final = 180
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


class Door(NamedTuple):
    """A path, and the requests that come to it."""

    path: str
    kind: str
    operations: tuple[str, ...]
    group: str
    version: str
    resource: str
    is_namespaced: bool = True
    label: tuple[str, str] | None = None
    """What objects have that come to it, whatever an entry asks for. They may lie in Berth's namespaces."""

    @property
    def rule(self) -> dict[str, Any]:
        """As a rule of an entry."""
        return {
            "apiGroups": [self.group],
            "apiVersions": [self.version],
            "operations": list(self.operations),
            "resources": [self.resource],
            "scope": "Namespaced" if self.is_namespaced else "Cluster",
        }


_QUOTAS: Final = ("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas")
_QUOTA_PATH: Final = "scheduling-sigs-k8s-io-v1alpha1-elasticquota"
DOORS: Final = {
    "mutate-pod": Door("/mutate-pod", MUTATING, ("CREATE",), "", "v1", "pods"),
    "mutate-pod-update": Door("/mutate-pod", MUTATING, ("UPDATE",), "", "v1", "pods"),
    "mutate-node-status": Door("/mutate-node-status", MUTATING, ("CREATE", "UPDATE"), "", "v1", "nodes/status", False),
    "mutate-reservation": Door(
        "/mutate-reservation", MUTATING, ("CREATE",), "scheduling.koordinator.sh", "v1alpha1", "reservations", False
    ),
    "mutate-elasticquota": Door(f"/mutate-{_QUOTA_PATH}", MUTATING, ("CREATE",), *_QUOTAS),
    "validate-pod": Door("/validate-pod", VALIDATING, ("CREATE", "UPDATE"), "", "v1", "pods"),
    "validate-node": Door("/validate-node", VALIDATING, ("CREATE", "UPDATE"), "", "v1", "nodes", False),
    "validate-configmap": Door(
        "/validate-configmap",
        VALIDATING,
        ("CREATE", "UPDATE", "DELETE"),
        "",
        "v1",
        "configmaps",
        label=(names.LABEL_CONFIG_MAP_TYPE, names.SLO_CONFIG_MAP_TYPE),
    ),
    "validate-elasticquota": Door(f"/validate-{_QUOTA_PATH}", VALIDATING, ("CREATE", "UPDATE", "DELETE"), *_QUOTAS),
}
"""Every door by its name."""
PATHS: Final = frozenset(door.path for door in DOORS.values())


def entry_of_profile(name: str) -> str:
    """The name of a profile's entry; a profile's name may be longer than one of an entry."""
    if len(name) > _NAME_LENGTH_MAX:
        name = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{name}.profiles.{SUFFIX}"


def rendered(entry: WebhookEntry, url: str = "") -> dict[str, Any]:
    """An entry as the API server keeps it, without its `caBundle`.

    `url`: where the webhook is reached, `https://host:port`; empty: by its Service. Raises ValueError for a door that
    there is not.
    """
    door = DOORS.get(entry.door)
    if door is None:
        raise ValueError(f"{entry.door[:80]!r} is none of {', '.join(DOORS)}")
    written: dict[str, Any] = {
        "name": entry.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client(door, url),
        "rules": [door.rule],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
        "namespaceSelector": _sparing(entry.namespace_selector, door) if door.is_namespaced else {},
        "objectSelector": _labelled(entry.object_selector, door),
    }
    if entry.conditions:
        written["matchConditions"] = [
            {"name": name, "expression": expression} for name, expression in entry.conditions.items()
        ]
    if door.kind == MUTATING:
        written["reinvocationPolicy"] = "IfNeeded"
    return written


def with_bundle(written: dict[str, Any], ca_bundle: str) -> dict[str, Any]:
    """A rendered entry with what the webhook is checked by."""
    bundle = base64.b64encode(ca_bundle.encode()).decode()
    return {**written, "clientConfig": {**written["clientConfig"], "caBundle": bundle}}


def _client(door: Door, url: str) -> dict[str, Any]:
    if url:
        return {"url": f"{url.rstrip('/')}{door.path}"}
    return {"service": {"namespace": NAMESPACE, "name": SERVICE, "path": door.path, "port": PORT}}


def _labelled(selector: dict[str, Any], door: Door) -> dict[str, Any]:
    """An object selector that asks for the door's label as well."""
    if door.label is None:
        return selector
    return {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **dict([door.label])}}


def _sparing(selector: dict[str, Any], door: Door) -> dict[str, Any]:
    """A namespace selector that leaves some out as well."""
    spared = {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": list(SPARED if door.label is None else SYSTEM)}
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), spared]}
