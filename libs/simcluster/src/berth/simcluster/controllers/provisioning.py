"""Volumes on demand, as CSI provisioners make them: at once, or for the node that a scheduler has selected.

An attempt takes a while and may fail. A failure for a selected node takes the selection back, so that the scheduler
chooses anew, as the external-provisioner does; any other attempt is repeated.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Iterable

from berth.simcluster.controllers.controller import changed, with_annotations
from berth.simcluster.controllers.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    claim_reference,
    class_of,
    is_free,
    is_kept_for,
    suits,
    waits_for_consumer,
)
from berth.simcluster.store.collection import Event
from berth.simcluster.store.objects import Json, Obj, section
from berth.simcluster.store.resource import CLAIMS, CSI_NODES, NODES, STORAGE_CLASSES, VOLUMES
from berth.simcluster.store.state import State
from berth.simcluster.store.writing import create

Requirements = dict[str, list[str]]


class Provisioning:
    """See the module."""

    def __init__(self, delay_s: tuple[float, float], failures: float) -> None:
        """`delay_s`: how long an attempt takes. `failures`: the share of attempts that fail."""
        self.delay_s = delay_s
        self._failures = failures

    def every(self, state: State) -> Iterable[str]:
        """Every claim that wants a volume."""
        return [claim.key for claim in state.of(CLAIMS).items.values() if _class_for(state, claim)]

    def keys(self, state: State, event: Event) -> Iterable[str]:
        """The claim itself; of a class every claim that wants a volume."""
        if event.resource is CLAIMS:
            return (event.obj.key,) if _class_for(state, event.obj) else ()
        return self.every(state) if event.resource is STORAGE_CLASSES else ()

    def reconcile(self, state: State, key: str, random: random_module.Random) -> float | None:
        """One attempt."""
        claim = state.of(CLAIMS).items.get(key)
        kind = _class_for(state, claim) if claim is not None else None
        if claim is None or kind is None or _has_volume(state, claim):
            return None
        selected = section(claim.meta, "annotations").get(SELECTED_NODE, "")
        where = _topology(state, kind, selected, random)
        if where is None or random.random() < self._failures:
            if not selected:
                return random.uniform(*self.delay_s)
            changed(state, CLAIMS, claim, metadata=with_annotations(claim.meta, {SELECTED_NODE: None}))
            return None
        create(state, state.of(VOLUMES), "", _volume(claim, kind, where))
        return None


def _class_for(state: State, claim: Obj) -> Obj | None:
    """The class that a volume is to be made by now; None if none is to be made."""
    kind = class_of(state, claim)
    if kind is None or kind.data.get("provisioner") in (None, "", NO_PROVISIONER):
        return None
    has_volume = bool(section(claim.data, "spec").get("volumeName"))
    is_late = "deletionTimestamp" in claim.meta or has_volume or waits_for_consumer(state, claim)
    return None if is_late else kind


def _has_volume(state: State, claim: Obj) -> bool:
    """One is there that will be bound."""
    return any(
        is_kept_for(volume, claim) or (is_free(volume) and suits(volume, claim))
        for volume in state.of(VOLUMES).items.values()
    )


def _topology(state: State, kind: Obj, selected: str, random: random_module.Random) -> Requirements | None:
    """By which labels nodes reach the new volume; None: it can be made nowhere."""
    nodes = [selected] if selected else sorted(state.of(NODES).items)
    driver = str(kind.data["provisioner"])
    reached: list[Requirements] = []
    for name in nodes:
        node = state.of(NODES).items.get(name)
        if node is None or not _is_allowed(kind, section(node.meta, "labels")):
            continue
        labels = section(node.meta, "labels")
        keys = _topology_keys(state, name, driver)
        if all(key in labels for key in keys):
            reached.append({key: [labels[key]] for key in keys})
    if not reached and not selected and not kind.data.get("allowedTopologies"):
        return {}
    return random.choice(reached) if reached else None


def _topology_keys(state: State, node: str, driver: str) -> list[str]:
    found = state.of(CSI_NODES).items.get(node)
    for each in section(found.data, "spec").get("drivers") or () if found is not None else ():
        if each.get("name") == driver:
            return list(each.get("topologyKeys") or ())
    return []


def _is_allowed(kind: Obj, labels: Json) -> bool:
    terms = kind.data.get("allowedTopologies")
    if not terms:
        return True
    return any(
        expressions and all(labels.get(each.get("key")) in (each.get("values") or ()) for each in expressions)
        for expressions in (term.get("matchLabelExpressions") for term in terms)
    )


def _volume(claim: Obj, kind: Obj, where: Requirements) -> Json:
    wanted, name = section(claim.data, "spec"), f"pvc-{claim.uid}"
    spec: Json = {
        "capacity": {"storage": section(section(wanted, "resources"), "requests").get("storage", "0")},
        "accessModes": wanted.get("accessModes") or [],
        "volumeMode": wanted.get("volumeMode") or "Filesystem",
        "storageClassName": kind.meta["name"],
        "persistentVolumeReclaimPolicy": kind.data.get("reclaimPolicy") or "Delete",
        "claimRef": claim_reference(claim),
        "csi": {"driver": kind.data["provisioner"], "volumeHandle": name},
    }
    if where:
        expressions = [{"key": key, "operator": "In", "values": values} for key, values in where.items()]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    return {"metadata": {"name": name}, "spec": spec}
