"""Manifests of files, in YAML or JSON, and where each kind lives on an API server."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from berth import kube
from berth.cli.errors import CliError
from berth.kube import Resource

Json = dict[str, Any]
STDIN = "-"
_KINDS: dict[str, Resource] = {
    "ClusterColocationProfile": kube.COLOCATION_PROFILES,
    "ClusterNetworkTopology": kube.CLUSTER_NETWORK_TOPOLOGIES,
    "ConfigMap": kube.CONFIG_MAPS,
    "Device": kube.DEVICES,
    "ElasticQuota": kube.ELASTIC_QUOTAS,
    "ElasticQuotaProfile": kube.ELASTIC_QUOTA_PROFILES,
    "Namespace": kube.NAMESPACES,
    "Node": kube.NODES,
    "NodeResourceTopology": kube.NODE_RESOURCE_TOPOLOGIES,
    "Pod": kube.PODS,
    "PodDisruptionBudget": kube.POD_DISRUPTION_BUDGETS,
    "PodGroup": kube.POD_GROUPS,
    "PriorityClass": kube.PRIORITY_CLASSES,
    "Reservation": kube.RESERVATIONS,
    "ReservationSchedule": kube.RESERVATION_SCHEDULES,
}
_WORDS = {kind.lower(): kind for kind in _KINDS} | {"gang": "PodGroup", "quota": "ElasticQuota"}


class Item(NamedTuple):
    """One object: its kind, where it lives, its name, and what was written of it."""

    kind: str
    resource: Resource
    namespace: str
    name: str
    manifest: Json

    @property
    def shown(self) -> str:
        """`pod/train-0`, with the namespace where it is not the default one."""
        where = f" in {self.namespace}" if self.namespace not in ("", "default") else ""
        return f"{self.kind.lower()}/{self.name}{where}"


def read(file: Path, namespace: str | None) -> list[Item]:
    """Every object of a file (`-`: standard input), lists opened. Raises CliError naming file and object."""
    return [_item(each, where, namespace) for where, each in documents(file)]


def documents(file: Path) -> list[tuple[str, Any]]:
    """Every document of a file (`-`: standard input), lists opened, with where it stands. Raises CliError."""
    try:
        text = sys.stdin.read() if str(file) == STDIN else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"-f {file}: {error}") from error
    yaml = import_module("yaml")
    try:
        whole = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CliError(f"-f {file}: {error}") from error
    found: list[tuple[str, Any]] = []
    for number, document in enumerate(whole, 1):
        if document is None:
            continue
        is_list = isinstance(document, dict) and isinstance(document.get("items"), list)
        found += [(f"-f {file}: document {number}", each) for each in (document["items"] if is_list else [document])]
    if not found:
        raise CliError(f"-f {file}: there is no manifest in it")
    return found


def named(about: str, namespace: str | None) -> Item:
    """An object by `NAME` (a pod) or `KIND/NAME`. Raises CliError."""
    word, slash, name = about.partition("/")
    kind = _WORDS.get(word.lower()) if slash else "Pod"
    if kind is None or not (name if slash else word) or "/" in name:
        raise CliError(f"{about!r} is not an object: write NAME of a pod, or KIND/NAME ({', '.join(sorted(_WORDS))})")
    resource = _KINDS[kind]
    return Item(kind, resource, (namespace or "default") if resource.namespaced else "", name if slash else word, {})


def _item(manifest: Any, where: str, namespace: str | None) -> Item:
    if not isinstance(manifest, dict):
        raise CliError(f"{where}: is no object")
    kind = str(manifest.get("kind") or "")
    resource = _KINDS.get(kind)
    if resource is None:
        known = ", ".join(sorted(_KINDS))
        raise CliError(f"{where}: kind: {kind!r} is none of {known}; `kubectl apply` takes all kinds")
    meta = manifest.get("metadata")
    name = meta.get("name") or meta.get("generateName") if isinstance(meta, dict) else None
    if not isinstance(name, str):
        raise CliError(f"{where}: metadata.name: is missing")
    own = meta.get("namespace") if isinstance(meta, dict) else None
    if own and namespace not in (None, own):
        raise CliError(f"{where}: metadata.namespace: is {own}, not the {namespace} of -n")
    return Item(kind, resource, (own or namespace or "default") if resource.namespaced else "", name, manifest)
