"""Which volume a claim gets on which node: kube-scheduler's VolumeBinding.

A claim is *bound*, or *waiting*: its class binds when a pod that uses it has a node. A waiting claim gets the smallest
volume that fits and that the node reaches, or one that its class provisions there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.kube import NodeSelector
from berth.contracts.state import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass
from berth.rules.node_affinity import compile_terms
from berth.rules.selectors import Labels, compile_selector
from berth.rules.storage import (
    WAIT_FOR_CONSUMER,
    ClaimName,
    Mounter,
    Storage,
    StorageRejection,
    claim_not_found,
    claims_used,
    is_bound_to,
    not_of_the_pod,
)

REASON_NODE: Final = "node(s) didn't match PersistentVolume's node affinity"
REASON_NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
REASON_SPACE: Final = "node(s) did not have enough free storage"
REASON_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASON_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of classes that provision nothing."""
_FILESYSTEM: Final = "Filesystem"
_LOST: Final = "Lost"
_AVAILABLE: Final = "Available"


class PodClaims(NamedTuple):
    """The claims of a pod that can be placed: those that are bound, and those that wait for its node."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    waiting: tuple[PersistentVolumeClaim, ...] = ()


class Promises(NamedTuple):
    """What decisions have promised and the objects do not show yet.

    `kept`: the claim (name and uid) that a volume will be bound to. `selected`: the node that a claim is provisioned
    for.
    """

    kept: Mapping[str, tuple[ClaimName, str]] = {}
    selected: Mapping[ClaimName, str] = {}


NOTHING_PROMISED: Final = Promises()


class Choice(NamedTuple):
    """What is done for a waiting claim: it gets this volume, or (None) one that is provisioned."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None


class Choices(NamedTuple):
    """What is done for the waiting claims of a pod on one node, or the reasons why the node does not do."""

    choices: tuple[Choice, ...] = ()
    reasons: tuple[str, ...] = ()


def claims_of(pod: Mounter, storage: Storage) -> PodClaims | StorageRejection:
    """The claims of a pod; a Rejection when one of them is not there, lost, ending, or has to be bound first."""
    bound: dict[str, PersistentVolumeClaim] = {}
    waiting: dict[str, PersistentVolumeClaim] = {}
    is_immediate = False
    for used in claims_used(pod):
        claim = storage.claim((pod.namespace, used.name))
        if claim is None:
            if used.is_ephemeral:
                text = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{used.name}"'
            else:
                text = claim_not_found(used.name)
            return StorageRejection((text,))
        problem = unusable(claim) or (not_of_the_pod(claim, pod) if used.is_ephemeral else "")
        if problem:
            return StorageRejection((problem,))
        if is_bound(claim):
            bound[used.name] = claim
        elif not claim.volume and waits_for_node(claim, storage):
            waiting[used.name] = claim
        else:
            is_immediate = True
    if is_immediate:
        return StorageRejection((REASON_IMMEDIATE,))
    return PodClaims(tuple(bound.values()), tuple(waiting.values()))


def unusable(claim: PersistentVolumeClaim) -> str:
    """Why no pod can use this claim as it is; empty when one can."""
    if claim.phase == _LOST:
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    problem = next(iter(claim.problems or compile_selector(claim.selector, "spec.selector").problems), None)
    if problem is not None and not is_bound(claim):
        return f'persistentvolumeclaim "{claim.name}": {problem.field}: {problem.message}'
    return ""


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has its volume, and says that this is settled."""
    return bool(claim.volume) and claim.is_bound


def waits_for_node(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """Whether the claim is bound only when a pod that uses it has a node."""
    storage_class = storage.storage_class(claim.storage_class) if claim.storage_class else None
    return storage_class is not None and storage_class.binding_mode == WAIT_FOR_CONSUMER


Smallest = Callable[[PersistentVolumeClaim, set[str]], PersistentVolume | None]
"""The volume that a claim gets, of those that are not in the set."""


def choose(
    claims: PodClaims,
    node: str,
    labels: Labels,
    storage: Storage,
    promises: Promises = NOTHING_PROMISED,
    *,
    smallest: Smallest | None = None,
) -> Choices:
    """What is done for the claims of a pod on this node.

    As kube-scheduler does it: claims that a node was selected for are provisioned there, the others take the smallest
    volume that fits, the smallest claim first, and are provisioned where there is none. `smallest` finds what
    `smallest_fit` does, for whoever has an index.
    """
    find = smallest or (lambda claim, taken: smallest_fit(claim, labels, storage, taken, promises))
    reasons: list[str] = []
    gone = False
    for claim in claims.bound:
        volume = storage.volume(claim.volume)
        if volume is None:
            gone = True
            break
        if not is_reached(volume, labels):
            reasons.append(REASON_NODE)
            break
    choices, reason = _choose_waiting(claims.waiting, node, labels, storage, promises, find)
    if reason:
        reasons.append(reason)
    if gone:
        reasons.append(REASON_GONE)
    return Choices((), tuple(reasons)) if reasons else Choices(choices)


def _choose_waiting(
    waiting: Iterable[PersistentVolumeClaim],
    node: str,
    labels: Labels,
    storage: Storage,
    promises: Promises,
    find: Smallest,
) -> tuple[tuple[Choice, ...], str]:
    to_match: list[PersistentVolumeClaim] = []
    to_provision: list[PersistentVolumeClaim] = []
    for claim in waiting:
        selected = selected_node(claim, promises)
        if selected and selected != node:
            return (), REASON_NO_VOLUME
        (to_provision if selected else to_match).append(claim)
    choices: list[Choice] = []
    chosen: set[str] = set()
    for claim in sorted(to_match, key=lambda claim: claim.requested):
        volume = find(claim, chosen)
        if volume is None:
            to_provision.append(claim)
        else:
            chosen.add(volume.name)
            choices.append(Choice(claim, volume))
    for claim in to_provision:
        reason = not_provisioned(claim, labels, storage)
        if reason:
            return (), reason
        choices.append(Choice(claim, None))
    return tuple(choices), ""


def selected_node(claim: PersistentVolumeClaim, promises: Promises) -> str:
    """The node that the claim is provisioned for, by what it says itself or by a decision; empty: none yet."""
    return claim.selected_node or promises.selected.get((claim.namespace, claim.name), "")


def smallest_fit(
    claim: PersistentVolumeClaim,
    labels: Labels,
    storage: Storage,
    excluded: Collection[str] = (),
    promises: Promises = NOTHING_PROMISED,
) -> PersistentVolume | None:
    """The volume that a claim gets on a node with these labels: the one kept for it, else the smallest that fits.

    None: there is none; also where the one that is kept for it is not reached from there.
    """
    kept: list[PersistentVolume] = []
    best: PersistentVolume | None = None
    for volume in storage.volumes_of_class(claim.storage_class or ""):
        if volume.name in excluded:
            continue
        keeper = kept_for(volume, claim, promises)
        if keeper and is_large_enough(volume, claim):
            kept.append(volume)
        if keeper is None or keeper or not suits(volume, claim) or not is_reached(volume, labels):
            continue
        if best is None or size_order(volume) < size_order(best):
            best = volume
    if kept:
        first = min(kept, key=lambda volume: volume.name)
        return first if is_reached(first, labels) else None
    return best


def size_order(volume: PersistentVolume) -> tuple[int, str]:
    """By what the volumes that fit are ordered: the first is chosen."""
    return (volume.capacity, volume.name)


def suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume that is kept for nobody may be bound to the claim, wherever its pod is."""
    return (
        volume.phase == _AVAILABLE
        and not volume.claim
        and volume.storage_class == (claim.storage_class or "")
        and is_large_enough(volume, claim)
        and set(claim.access_modes) <= set(volume.access_modes)
        and (claim.selector is None or compile_selector(claim.selector).matches(volume.labels))
    )


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim, labels: Labels) -> bool:
    """Whether this volume may be bound to this claim for a pod on a node with these labels."""
    if volume.claim:
        can_have = is_bound_to(volume, claim) and is_large_enough(volume, claim)
    else:
        can_have = suits(volume, claim)
    return can_have and is_reached(volume, labels)


def kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim, promises: Promises) -> bool | None:
    """True: the volume is kept for this claim; False: for nobody; None: for another one."""
    if volume.claim:
        return True if is_bound_to(volume, claim) else None
    kept = promises.kept.get(volume.name)
    if kept is None:
        return False
    return True if kept == ((claim.namespace, claim.name), claim.uid) else None


def is_large_enough(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """What holds even of a volume that is kept for the claim: size and mode fit, and it is not being deleted."""
    return (
        volume.capacity >= claim.requested
        and (volume.volume_mode or _FILESYSTEM) == (claim.volume_mode or _FILESYSTEM)
        and not volume.deleting
    )


def is_reached(volume: PersistentVolume, labels: Labels) -> bool:
    """Whether a node with these labels reaches the volume."""
    affinity = volume.node_affinity
    return affinity is None or reach_test(affinity)(labels)


def reach_test(affinity: NodeSelector) -> Callable[[Labels], bool]:
    """The node affinity of a volume as a test on labels. A node's name counts for nothing in it."""
    matches = compile_terms(affinity.node_selector_terms, "spec.nodeAffinity.required.nodeSelectorTerms").matches
    return lambda labels: matches(labels, "")


# --- provisioning ----------------------------------------------------------------------------------------------------


def not_provisioned(claim: PersistentVolumeClaim, labels: Labels, storage: Storage) -> str:
    """Why no volume can be provisioned for the claim on a node with these labels; empty when one can."""
    storage_class = storage.storage_class(claim.storage_class) if claim.storage_class else None
    if storage_class is None or not provisions(storage_class) or not allows(storage_class, labels):
        return REASON_NO_VOLUME
    return "" if has_space(claim, storage_class, labels, storage) else REASON_SPACE


def provisions(storage_class: StorageClass) -> bool:
    """Whether the class makes volumes at all."""
    return storage_class.provisioner not in ("", NO_PROVISIONER)


def allows(storage_class: StorageClass, labels: Labels) -> bool:
    """Whether the class provisions for nodes with these labels. A term without labels allows none."""
    if not storage_class.allowed:
        return True
    return any(
        term.values and all(labels.get(key) in values for key, values in term.values.items())
        for term in storage_class.allowed
    )


def has_space(claim: PersistentVolumeClaim, storage_class: StorageClass, labels: Labels, storage: Storage) -> bool:
    """Whether one volume as large as asked for can be made there, as far as the driver says how much can be."""
    if not counts_space(claim, storage_class, storage):
        return True
    return any(
        is_enough(capacity, claim.requested) and compile_selector(capacity.topology).matches(labels)
        for capacity in storage.capacities_of(storage_class.name)
    )


def counts_space(claim: PersistentVolumeClaim, storage_class: StorageClass, storage: Storage) -> bool:
    """Whether the driver says how much it can provision where, and the claim says how much it wants."""
    driver = storage.csi_driver(storage_class.provisioner)
    return claim.requested > 0 and driver is not None and driver.storage_capacity


def is_enough(capacity: CSIStorageCapacity, size: int) -> bool:
    """Whether one volume of this size can be made there."""
    limit = capacity.volume_max if capacity.volume_max is not None else capacity.capacity
    return limit is not None and limit >= size
