"""Pods and Reservations as an observer keeps them: read once, compared cheaply with the next version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth.contracts import kube, names
from berth.contracts.ledger import Grant
from berth.invariants.facts import ENDED, cores_held, read_cores, read_devices
from berth.invariants.members import said_by_json
from berth.resources.amounts import Amounts, parse_amounts
from berth.resources.pod_request import request_of
from berth.rules.gang_config import GangConfig, gang_name_of_pod, gang_of_pod
from berth.rules.records.explained_devices import devices_held

NO_TEXTS: Mapping[str, str] = {}
KNOWN_MAX = 4096


class Watched:
    """What of a pod, or of a Reservation (with an empty namespace), matters to the promises."""

    __slots__ = (
        "amounts",
        "annotations",
        "are_cores_unknown",
        "attempt",
        "attempt_text",
        "bound_s",
        "core_text",
        "cores",
        "device_text",
        "gang",
        "gang_config",
        "has_ended",
        "is_deleting",
        "is_ours",
        "labels",
        "name",
        "node",
        "overhead",
        "owners",
        "plan",
        "uid",
        "version",
        "was_bound",
    )

    def __init__(self, name: tuple[str, str], uid: str, node: str, annotations: Mapping[str, str]) -> None:
        self.name = name
        self.uid = uid
        self.node = node
        self.annotations = annotations
        self.labels: Mapping[str, str] = NO_TEXTS
        self.attempt_text = annotations.get(names.ANNOTATION_ATTEMPT, "0")
        self.attempt = _number(self.attempt_text)
        self.plan = annotations.get(names.ANNOTATION_PLAN, "")
        self.device_text = annotations.get(names.ANNOTATION_DEVICE_ALLOCATED, "")
        self.core_text = annotations.get(names.ANNOTATION_RESOURCE_STATUS, "")
        self.cores: tuple[Grant, ...] = ()
        """The CPUs and shares of NUMA nodes that it holds."""
        self.are_cores_unknown = False
        """It holds some, and nobody can say which."""
        self.has_ended = False
        self.is_deleting = False
        """Its deletion was asked for."""
        self.is_ours = False
        self.amounts: Amounts = {}
        self.overhead: Amounts = {}
        """What of them is the runtime class's."""
        self.gang = ""
        self.gang_config: GangConfig | None = None
        self.bound_s = 0.0
        self.was_bound = False
        self.version = 0
        """The first in which all of this was so."""
        self.owners: tuple[kube.OwnerReference, ...] = ()

    @property
    def text(self) -> str:
        """How evidence names it."""
        return "/".join(self.name) if self.name[0] else f"reservation {self.name[1]}"

    @property
    def is_live(self) -> bool:
        """Whether it holds capacity once it has a node."""
        return not self.has_ended

    @property
    def devices(self) -> list[Grant]:
        """The devices, CPUs and shares of NUMA nodes it was given, as noted."""
        return [*read_devices(self.annotations), *read_cores(self.annotations)]

    @property
    def held_devices(self) -> list[Grant]:
        """What it holds of them. What is noted on a pod of ours is compared with its decision; on those of others
        anybody may have written the note, so that it counts as far as the request explains it."""
        if self.is_ours:
            return self.devices
        devices = devices_held(tuple(read_devices(self.annotations)), self.amounts, self.annotations)
        return [*devices, *self.cores]


def name_of(data: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace and name. Raises KeyError or TypeError for what is no object."""
    meta = data["metadata"]
    return (meta.get("namespace") or "", meta["name"])


def version_of(data: Mapping[str, Any]) -> int:
    """The resource version of an object; 0 where there is none."""
    return _number(data["metadata"].get("resourceVersion", ""))


PAYING: Final = (names.LABEL_QUOTA_NAME, names.LABEL_QUOTA_PREEMPTIBLE)
"""Labels that say from what a pod is paid."""


def is_same(known: Watched, data: Mapping[str, Any]) -> bool:
    """Nothing has changed that matters: what most updates of a pod are."""
    meta = data["metadata"]
    notes = meta.get("annotations") or NO_TEXTS
    return (
        known.uid == meta.get("uid")
        and known.node == ((data.get("spec") or {}).get("nodeName") or "")
        and known.has_ended == ((data.get("status") or {}).get("phase") in ENDED)
        and known.is_deleting == (meta.get("deletionTimestamp") is not None)
        and known.attempt_text == notes.get(names.ANNOTATION_ATTEMPT, "0")
        and known.plan == notes.get(names.ANNOTATION_PLAN, "")
        and known.core_text == notes.get(names.ANNOTATION_RESOURCE_STATUS, "")
        and known.device_text == notes.get(names.ANNOTATION_DEVICE_ALLOCATED, "")
        and known.annotations.get(names.ANNOTATION_RESERVATION_ALLOCATED, "")
        == notes.get(names.ANNOTATION_RESERVATION_ALLOCATED, "")
        and all(known.labels.get(name) == (meta.get("labels") or NO_TEXTS).get(name) for name in PAYING)
    )


def read_pod(data: Mapping[str, Any], schedulers: frozenset[str], known: Watched | None) -> Watched:
    """A pod from its object; its amounts stay those that are `known`. Raises msgspec.ValidationError."""
    meta = data["metadata"]
    spec = data.get("spec") or {}
    pod = Watched(name_of(data), meta["uid"], spec.get("nodeName") or "", meta.get("annotations") or NO_TEXTS)
    pod.labels = meta.get("labels") or NO_TEXTS
    pod.version = version_of(data)
    pod.has_ended = (data.get("status") or {}).get("phase") in ENDED
    pod.is_deleting = meta.get("deletionTimestamp") is not None
    pod.is_ours = spec.get("schedulerName") in schedulers
    if known is not None and known.uid == pod.uid:
        pod.amounts, pod.overhead = known.amounts, known.overhead
    else:
        pod.amounts, pod.overhead = _amounts(spec), parse_amounts(spec.get("overhead"), "")[0]
    if pod.core_text and not pod.is_ours:
        pod.cores, pod.are_cores_unknown = cores_held(msgspec.convert(data, kube.Pod), pod.amounts)
    owners = meta.get("ownerReferences")
    pod.owners = tuple(msgspec.convert(owners, list[kube.OwnerReference])) if owners else ()
    pod.gang = gang_name_of_pod(pod.labels, pod.annotations) if pod.is_ours else ""
    if pod.gang:
        pod.gang = f"{pod.name[0]}/{pod.gang}"
        pod.gang_config = gang_of_pod(pod.name[0], pod.labels, pod.annotations)
    return pod


_encode = msgspec.json.Encoder().encode
_known_amounts: dict[bytes, Amounts] = {}


def _amounts(spec: Mapping[str, Any]) -> Amounts:
    """The request; most pods are replicas of each other, so that what their containers say has been read before."""
    if spec.get("initContainers") or spec.get("overhead") or spec.get("resources"):
        return request_of(msgspec.convert(spec, kube.PodSpec))[0]
    key = _encode([each.get("resources") for each in spec.get("containers") or ()])
    found = _known_amounts.get(key)
    if found is None:
        if len(_known_amounts) >= KNOWN_MAX:
            _known_amounts.clear()
        found = _known_amounts[key] = request_of(msgspec.convert(spec, kube.PodSpec))[0]
    return found


def read_reservation(data: Mapping[str, Any], schedulers: frozenset[str]) -> Watched:
    """A Reservation as a holder of capacity; it is ours where its template names one of these schedulers, or none."""
    meta = data["metadata"]
    status = data.get("status") or {}
    found = Watched(("", meta["name"]), meta["uid"], status.get("nodeName") or "", meta.get("annotations") or NO_TEXTS)
    found.has_ended = status.get("phase") in ENDED
    template = (data.get("spec") or {}).get("template") or {}
    scheduler = (template.get("spec") or {}).get("schedulerName")
    found.is_ours = not scheduler or scheduler in schedulers
    if found.is_ours and not found.has_ended:
        said = said_by_json(data)
        found.gang, found.gang_config = said.gang, said.config
    found.amounts = parse_amounts(status.get("allocatable"), "")[0]
    return found


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0
