"""Facts about claims and volumes that several controllers ask for."""

from __future__ import annotations

from berth.resources.quantity import QuantityError, parse_units
from berth.simcluster.store.objects import Json, Obj, section
from berth.simcluster.store.resource import STORAGE_CLASSES
from berth.simcluster.store.selectors import matches_label_selector
from berth.simcluster.store.state import State

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def class_of(state: State, claim: Obj) -> Obj | None:
    """The StorageClass that a claim names, if there is one."""
    name = section(claim.data, "spec").get("storageClassName")
    return state.of(STORAGE_CLASSES).items.get(name) if name else None


def waits_for_consumer(state: State, claim: Obj) -> bool:
    """The claim is not to be bound before a scheduler has chosen a node for it."""
    found = class_of(state, claim)
    mode = found.data.get("volumeBindingMode") if found is not None else ""
    return mode == "WaitForFirstConsumer" and SELECTED_NODE not in section(claim.meta, "annotations")


def storage_of(amounts: Json) -> int:
    """The amount of `storage` in bytes; 0 where it says none."""
    try:
        return parse_units(amounts.get("storage", 0))
    except QuantityError:
        return 0


def is_kept_for(volume: Obj, claim: Obj) -> bool:
    """The volume's claimRef names this claim, and no other one of its name."""
    ref = section(section(volume.data, "spec"), "claimRef")
    return f"{ref.get('namespace')}/{ref.get('name')}" == claim.key and ref.get("uid") in (None, "", claim.uid)


def is_free(volume: Obj) -> bool:
    """Nobody's, and not going away."""
    spec = section(volume.data, "spec")
    return not spec.get("claimRef") and "deletionTimestamp" not in volume.meta


def suits(volume: Obj, claim: Obj) -> bool:
    """The volume offers what the claim asks for: class, modes, labels, size."""
    offered, wanted = section(volume.data, "spec"), section(claim.data, "spec")
    selector = wanted.get("selector")
    return (
        (offered.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
        and (offered.get("volumeMode") or "Filesystem") == (wanted.get("volumeMode") or "Filesystem")
        and set(wanted.get("accessModes") or ()) <= set(offered.get("accessModes") or ())
        and (selector is None or matches_label_selector(selector, section(volume.meta, "labels")))
        and storage_of(section(section(wanted, "resources"), "requests")) <= storage_of(section(offered, "capacity"))
    )


def claim_reference(claim: Obj) -> Json:
    """spec.claimRef of a volume."""
    meta = claim.meta
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": claim.uid,
    }
