"""The kinds of objects that Berth touches, and the URL paths under which an API server serves them."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote


class Resource(NamedTuple):
    """A kind of object as the API server's paths name it; the core group is the empty text."""

    group: str
    version: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """`apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """How metrics and logs call it: `pods`, `devices.scheduling.koordinator.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The escaped URL path of the collection, of one object, or of its subresource.

        An empty namespace of a namespaced kind means all namespaces, and only the collection can be asked so. Raises
        ValueError for what no path can express, so that a name from outside never reaches another object.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", _segment("namespace", namespace)]
        elif self.namespaced and name:
            raise ValueError(f"{self.label} {name!r} needs a namespace")
        elif namespace and not self.namespaced:
            raise ValueError(f"{self.label} have no namespace, got {namespace!r}")
        parts.append(self.plural)
        if name:
            parts.append(_segment("name", name))
        if subresource:
            parts.append(_segment("subresource", subresource))
        return "/" + "/".join(parts)


SEGMENT_LENGTH_MAX = 253
"""Longest name of an object (a DNS subdomain)."""


def _segment(what: str, text: str) -> str:
    if text in (".", "..") or "/" in text or "%" in text or len(text) > SEGMENT_LENGTH_MAX:
        raise ValueError(f"{what} {text[:SEGMENT_LENGTH_MAX]!r} cannot be part of a path")
    return quote(text, safe="")


def key_of(namespace: str, name: str) -> str:
    """`namespace/name`, or the name alone for cluster-wide objects."""
    return f"{namespace}/{name}" if namespace else name


PODS = Resource("", "v1", "pods", True)
NODES = Resource("", "v1", "nodes", False)
NAMESPACES = Resource("", "v1", "namespaces", False)
CONFIG_MAPS = Resource("", "v1", "configmaps", True)
EVENTS = Resource("", "v1", "events", True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", True)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False)
SERVICES = Resource("", "v1", "services", True)
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", True)
REPLICA_SETS = Resource("apps", "v1", "replicasets", True)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", True)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", True)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", True)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", False)
CSI_STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", True)
VOLUME_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", False)
CUSTOM_RESOURCE_DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False)
MUTATING_WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", False)
VALIDATING_WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", False)
COLOCATION_PROFILES = Resource("config.koordinator.sh", "v1alpha1", "clustercolocationprofiles", False)
POD_GROUPS = Resource("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", True)
ELASTIC_QUOTAS = Resource("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", True)
ELASTIC_QUOTA_PROFILES = Resource("quota.koordinator.sh", "v1alpha1", "elasticquotaprofiles", True)
RESERVATIONS = Resource("scheduling.koordinator.sh", "v1alpha1", "reservations", False)
RESERVATION_SCHEDULES = Resource("scheduling.berth.sh", "v1alpha1", "reservationschedules", False)
DEVICES = Resource("scheduling.koordinator.sh", "v1alpha1", "devices", False)
NODE_METRICS = Resource("slo.koordinator.sh", "v1alpha1", "nodemetrics", False)
NODE_SLOS = Resource("slo.koordinator.sh", "v1alpha1", "nodeslos", False)
CLUSTER_NETWORK_TOPOLOGIES = Resource("scheduling.koordinator.sh", "v1alpha1", "clusternetworktopologies", False)
NODE_RESOURCE_TOPOLOGIES = Resource("topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", False)
