"""From manifests and options to what is supposed: pods as cluster-watcher would read them, quotas with other limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from berth.cli.admitted import as_admitted
from berth.cli.errors import CliError
from berth.cli.manifests import documents
from berth.contracts import state
from berth.contracts.kube import PodGroup
from berth.contracts.what_if import SupposedPods, SupposedQuota
from berth.resources.amounts import parse_amounts
from berth.rules.admission.views import Views
from berth.rules.pod_reading import PodItem
from berth.rules.reading.pod_groups import pod_group_of
from berth.rules.reading.pods import pod_of

Json = dict[str, Any]

NAME_LENGTH_MAX: Final = 253
COUNT_MAX: Final = 1000
SHOWN: Final = 60
_COUNTS: Final = {
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "ReplicationController": "replicas",
    "Job": "parallelism",
}
"""Kinds that make pods of a template, and the field of `spec` that says how many at once."""
KINDS: Final = ("Pod", "PodGroup", *sorted(_COUNTS))


class Manifests(NamedTuple):
    """What the files say would come."""

    pods: list[SupposedPods]
    gangs: list[state.PodGroup]


def supposed(files: Sequence[Path], namespace: str | None, views: Views, *, asks_webhook: bool = False) -> Manifests:
    """Pods and PodGroups of the files, as they would be created (see `as_admitted`). Raises CliError."""
    pods: list[SupposedPods] = []
    gangs: list[state.PodGroup] = []
    for where, document in (each for file in files for each in documents(file)):
        kind, meta, spec = _parts(document, where)
        place = _namespace(meta, where, namespace)
        if kind == "PodGroup":
            gangs.append(_gang({**document, "metadata": {**meta, "namespace": place}}, where))
            continue
        count, path = 1, ""
        if kind != "Pod":
            count, path = _count(spec, _COUNTS[kind], where), "spec.template."
            template = spec.get("template")
            if not isinstance(template, dict):
                raise CliError(f"{where}: spec.template: is no object")
            own = template.get("metadata") or {}
            if not isinstance(own, dict):
                raise CliError(f"{where}: spec.template.metadata: is no object")
            inner = template.get("spec")
            if not isinstance(inner, dict):
                raise CliError(f"{where}: spec.template.spec: is no object")
            meta, spec = {**own, "name": meta["name"]}, inner
        if count:
            manifest = {"metadata": {**meta, "namespace": place}, "spec": spec}
            _json(manifest, where)
            admitted = as_admitted(manifest, views, f"{where}: {path}", asks_webhook=asks_webhook)
            pods.append(SupposedPods(pod=_pod(admitted, where, path), count=count))
    return Manifests(pods, gangs)


def _parts(document: Any, where: str) -> tuple[str, Json, Json]:
    if not isinstance(document, dict):
        raise CliError(f"{where}: is no object")
    kind = str(document.get("kind") or "")
    if kind not in KINDS:
        raise CliError(f"{where}: kind: {_shown(kind)} is none of {', '.join(KINDS)}")
    meta, spec = document.get("metadata"), document.get("spec") or {}
    if not isinstance(meta, dict):
        raise CliError(f"{where}: metadata: is missing")
    if not isinstance(spec, dict):
        raise CliError(f"{where}: spec: is no object")
    name = meta.get("name") or meta.get("generateName")
    if not isinstance(name, str):
        raise CliError(f"{where}: metadata.name: is missing")
    name = name.rstrip("-")
    if not name or len(name) > NAME_LENGTH_MAX:
        raise CliError(f"{where}: metadata.name: has {len(name)} characters, 1 to {NAME_LENGTH_MAX} are accepted")
    return kind, {**meta, "name": name}, spec


def _namespace(meta: Json, where: str, namespace: str | None) -> str:
    own = meta.get("namespace") or ""
    if not isinstance(own, str) or len(own) > NAME_LENGTH_MAX:
        raise CliError(f"{where}: metadata.namespace: {_shown(str(own))} is no name")
    if own and namespace not in (None, own):
        raise CliError(f"{where}: metadata.namespace: is {own}, not the {namespace} of -n")
    return own or namespace or "default"


def _count(spec: Json, field: str, where: str) -> int:
    count = spec.get(field, 1)
    if type(count) is not int or not 0 <= count <= COUNT_MAX:
        raise CliError(f"{where}: spec.{field}: {_shown(str(count))} is no number from 0 to {COUNT_MAX}")
    return count


def _pod(manifest: Json, where: str, path: str) -> state.Pod:
    """As cluster-watcher reads it: what cannot be used of it is among its problems, and the solver refuses it."""
    try:
        item = msgspec.json.decode(_json(manifest, where), type=PodItem)
    except msgspec.ValidationError as error:
        raise CliError(f"{where}: {path}{_field(error)}") from error
    return pod_of(item, 0)


def _gang(manifest: Json, where: str) -> state.PodGroup:
    try:
        return pod_group_of(msgspec.json.decode(_json(manifest, where), type=PodGroup), 0)
    except msgspec.ValidationError as error:
        raise CliError(f"{where}: {_field(error)}") from error


def _json(manifest: Json, where: str) -> bytes:
    try:
        return msgspec.json.encode(manifest)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise CliError(f"{where}: is no JSON: {error}") from error


def _field(error: msgspec.ValidationError) -> str:
    problem, _, place = str(error).partition(" - at `")
    return f"{place.removesuffix('`').removeprefix('$').lstrip('.') or 'metadata'}: {problem}"


def quotas_of(texts: Sequence[str]) -> list[SupposedQuota]:
    """From `GROUP=max.RESOURCE=QUANTITY,min.RESOURCE=QUANTITY`; of a group that is named twice all of it counts.
    Raises CliError."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for text in texts:
        group, changes = _group_of(text)
        limits = found.setdefault(group, {"min": {}, "max": {}})
        for limit, resource, amount in changes:
            limits[limit][resource] = amount
    return [SupposedQuota(name=name, min=each["min"], max=each["max"]) for name, each in found.items()]


def _group_of(text: str) -> tuple[str, list[tuple[str, str, int]]]:
    group, equals, rest = text.partition("=")
    if not group or not equals or len(group) > NAME_LENGTH_MAX:
        raise CliError(f"--quota: {_shown(text)} is not of the form GROUP=max.RESOURCE=QUANTITY")
    return group, list(_changes(group, rest))


def _changes(group: str, text: str) -> Iterator[tuple[str, str, int]]:
    for part in text.split(","):
        place, equals, quantity = part.rpartition("=")
        limit, dot, resource = place.partition(".")
        if limit not in ("min", "max") or not (dot and resource and equals) or len(resource) > NAME_LENGTH_MAX:
            raise CliError(f"--quota {group}: {_shown(part)} is not of the form max.RESOURCE=QUANTITY")
        amounts, problems = parse_amounts({resource: quantity}, "")
        if problems or resource not in amounts:
            why = problems[0][1] if problems else "is no quantity"
            raise CliError(f"--quota {group}: {limit}.{resource}: {_shown(why)}")
        yield limit, resource, amounts[resource]


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
