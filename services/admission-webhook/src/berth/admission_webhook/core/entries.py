"""What the API server is to call the webhook for.

Pods that a profile selects, by the profile's own selectors, and pods of our schedulers: nobody else's pod waits for the
webhook.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from berth.contracts import names
from berth.contracts.command import WebhookEntry
from berth.contracts.state import ClusterColocationProfile
from berth.rules.admission.gates import Gates
from berth.rules.admission.registry import DOORS as REGISTRY
from berth.rules.webhooks import DOORS, SUFFIX, entry_of_profile

PROFILES_MAX: Final = 100
"""Profiles with an entry of their own: every entry that concerns a pod is a call before the pod is there."""
_OURS: Final = "of-our-schedulers"
_LABELS_CHANGE: Final = (
    'request.operation == "UPDATE" && has(object.metadata.labels) && '
    "(!has(oldObject.metadata.labels) || object.metadata.labels != oldObject.metadata.labels)"
)
"""Whoever writes something else of a node, such as a taint, waits for nobody."""
_AMPLIFIED: Final = (names.ANNOTATION_AMPLIFICATION_RATIO, names.ANNOTATION_RAW_ALLOCATABLE)


class Wanted(NamedTuple):
    """Entries of a configuration, and names of profiles that there is no place for."""

    entries: tuple[WebhookEntry, ...]
    beyond: tuple[str, ...]


def open_doors(gates: Gates) -> frozenset[str]:
    """The doors whose rules are asked for anything."""
    return frozenset(
        name for name, door in DOORS.items() if door.path in REGISTRY and REGISTRY[door.path].gate in gates
    )


def entries_of(
    kind: str,
    profiles: Iterable[ClusterColocationProfile],
    unusable: Collection[str],
    *,
    schedulers: tuple[str, ...],
    doors: frozenset[str],
) -> Wanted:
    """The entries of the configuration of a kind (`berth.rules.webhooks`).

    Args:
        kind: which configuration.
        profiles: all there are.
        unusable: names of those that cannot be used: they select nothing, and have no entry.
        schedulers: whose pods are ours.
        doors: which doors are open.
    """
    entries = [
        entry
        for name, door in DOORS.items()
        if name in doors and door.kind == kind
        for entry in _of_door(name, schedulers)
    ]
    beyond: list[str] = []
    if "mutate-pod" in doors and DOORS["mutate-pod"].kind == kind:
        usable = sorted((each for each in profiles if each.name not in unusable), key=lambda each: each.name)
        entries += map(_of_profile, usable[:PROFILES_MAX])
        beyond = [each.name for each in usable[PROFILES_MAX:]]
    return Wanted(tuple(entries), tuple(beyond))


def _of_door(door: str, schedulers: tuple[str, ...]) -> list[WebhookEntry]:
    """The entry of a door that does not depend on profiles."""
    name = f"{door}.{SUFFIX}"
    match door:
        case "mutate-pod" | "validate-pod":
            return [WebhookEntry(name=name, door=door, conditions={_OURS: _of_schedulers(schedulers)})]
        case "mutate-pod-update":
            selector = {"matchLabels": {names.LABEL_MUTATING_UPDATE: "true"}}
            return [WebhookEntry(name=name, door=door, object_selector=selector)]
        case "mutate-node-status":
            return [WebhookEntry(name=name, door=door, conditions={"amplified": _has_annotation(_AMPLIFIED)})]
        case "validate-node":
            return [WebhookEntry(name=name, door=door, conditions={"labels-change": _LABELS_CHANGE})]
    return [WebhookEntry(name=name, door=door)]


def _of_schedulers(schedulers: tuple[str, ...]) -> str:
    return f"has(object.spec.schedulerName) && object.spec.schedulerName in {json.dumps(list(schedulers))}"


def _has_annotation(wanted: Iterable[str]) -> str:
    """Nodes that are not amplified report without waiting for anybody."""
    either = " || ".join(f"{json.dumps(name)} in object.metadata.annotations" for name in wanted)
    return f"has(object.metadata.annotations) && ({either})"


def _of_profile(profile: ClusterColocationProfile) -> WebhookEntry:
    return WebhookEntry(
        name=entry_of_profile(profile.name),
        door="mutate-pod",
        namespace_selector=_selector(profile.spec, "namespaceSelector"),
        object_selector=_selector(profile.spec, "selector"),
    )


def _selector(spec: Mapping[str, Any], field: str) -> dict[str, Any]:
    """A selector as it stands; an absent one selects all."""
    return dict(spec.get(field) or {})
