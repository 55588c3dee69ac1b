"""Volumes: what a plan does with claims, volumes and disks, judged from the objects of storage and the pods themselves.

The laws of VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from berth.contracts.ledger import Step
from berth.contracts.state import Node, PersistentVolumeClaim, Pod
from berth.placement_solver.core.verify.view import View
from berth.rules import volume_binding, volume_limits, volume_zones
from berth.rules.storage import Mounter, Storage, StorageRejection, claims_used, is_for_one_pod, uses_claims
from berth.rules.volume_conflicts import exclude_each_other
from berth.transaction.claims import Claim

BIND = "bind-volume"
PROVISION = "provision-volume"


class Arriving(NamedTuple):
    """A pod that a plan places, or the pods of a Reservation. `rules` are the plugins of its profile."""

    claim: Claim
    pod: Mounter
    rules: Container[str]


def volume_problems(claims: Sequence[Claim], view: View, gone: Collection[Claim] = ()) -> Iterator[str]:
    """What is wrong with the volumes of a plan that makes these claims once those of `gone` have left."""
    arriving = [each for claim in claims if (each := _arriving(claim, view)) is not None]
    if not arriving:
        if any(_steps_of(claim) for claim in claims):
            yield "a step is named for a pod without volumes"
        return
    for each in arriving:
        yield from (f"{'/'.join(each.claim.name)}: {text}" for text in _of_pod(each, view))
    pods = [each for each in arriving if each.claim.name[0]]  # a Reservation mounts nothing
    yield from _claims_shared([each for each in pods if "VolumeRestrictions" in each.rules], view, gone)
    yield from _steps_at_odds(claims, view)
    for name in sorted({each.claim.node for each in pods}):
        here = [each for each in pods if each.claim.node == name]
        held = (claim for claim in view.book.claims_on(name) if claim not in gone)
        there = [pod for claim in held if (pod := _mounter(claim, view)) is not None]
        yield from (f"node {name}: {text}" for text in _on_node(name, here, there, view.storage))


def _of_pod(each: Arriving, view: View) -> Iterator[str]:
    """The pod by itself: its claims, its steps, and where its volumes are."""
    claim, pod, rules = each
    if not uses_claims(pod.volumes) or "VolumeBinding" not in rules:
        if _steps_of(claim):
            yield "a step is named for a pod whose claims nobody binds"
        if not uses_claims(pod.volumes):
            return
    if not view.storage_is_complete:
        yield "the claims and volumes of the cluster are not all known"
        return
    node = _node(claim.node, view)
    if node is None:
        return
    terms = volume_zones.zone_terms(pod, view.storage) if "VolumeZone" in rules else ()
    if isinstance(terms, StorageRejection):
        yield terms.reasons[0]
    elif not volume_zones.is_in_zone(terms, node.labels):
        yield f"a volume is in another zone than node {node.name}"
    if not claim.name[0] and (name := _waiting(pod, view.storage)):
        yield f"is a Reservation, which binds no volumes: claim {name} is not bound"
    elif "VolumeBinding" in rules:
        yield from _bindings(claim, pod, node, view.storage)


def _waiting(pod: Mounter, storage: Storage) -> str:
    """The first claim that is not bound yet, empty when all are."""
    found = ((used.name, storage.claim((pod.namespace, used.name))) for used in claims_used(pod))
    return next((name for name, claim in found if claim is None or not volume_binding.is_bound(claim)), "")


def _bindings(claim: Claim, pod: Mounter, node: Node, storage: Storage) -> Iterator[str]:
    """Every claim that the pod uses, with the steps that are named for it."""
    steps: dict[str, list[Step]] = {}
    for step in _steps_of(claim):
        steps.setdefault(step.claim, []).append(step)
    for used in {used.name: used for used in claims_used(pod)}.values():
        named = storage.claim((pod.namespace, used.name))
        mine = steps.pop(used.name, [])
        if named is None:
            yield f"there is no claim {used.name}"
        elif problem := volume_binding.unusable(named):
            yield problem
        elif used.is_ephemeral and named.owner_uid != pod.uid:
            yield f"claim {used.name} was made for another pod"
        else:
            yield from _of_claim(named, mine, node, storage)
    for name in steps:
        yield f"a step is named for claim {name}, which the pod does not use"


def _of_claim(claim: PersistentVolumeClaim, steps: Sequence[Step], node: Node, storage: Storage) -> Iterator[str]:
    """A claim is bound to a volume that the node reaches, or one step binds it to one, or has one made."""
    if volume_binding.is_bound(claim):
        volume = storage.volume(claim.volume)
        if steps:
            yield f"claim {claim.name} is bound already, a step is named for it"
        if volume is None or not volume_binding.is_reached(volume, node.labels):
            yield f"node {node.name} does not reach volume {claim.volume} of claim {claim.name}"
        return
    if claim.volume or not volume_binding.waits_for_node(claim, storage):
        yield f"claim {claim.name} has to be bound before its pod is placed"
        return
    if len(steps) != 1:
        yield f"claim {claim.name} waits for its volume, {len(steps)} steps are named for it"
        return
    (step,) = steps
    if step.claim_uid != claim.uid:
        yield f"a step is named for a claim {claim.name} with another uid"
    if claim.selected_node and (claim.selected_node != node.name or step.action != PROVISION):
        yield f"a volume is made for claim {claim.name} on node {claim.selected_node}"
    if step.action == PROVISION:
        reason = volume_binding.not_provisioned(claim, node.labels, storage)
        if reason:
            yield f"no volume can be made for claim {claim.name} on node {node.name}: {reason}"
        return
    volume = storage.volume(step.volume)
    if step.action != BIND or volume is None or volume.uid != step.volume_uid:
        yield f"step {step.action} of claim {claim.name} names no volume that is there"
    elif not volume_binding.fits(volume, claim, node.labels):
        yield f"volume {volume.name} cannot be bound to claim {claim.name} on node {node.name}"


def _claims_shared(arriving: Sequence[Arriving], view: View, gone: Collection[Claim]) -> Iterator[str]:
    """A claim of mode ReadWriteOncePod has one user."""
    single: dict[tuple[str, str], list[str]] = {}
    for each in arriving:
        for name in _named(each.pod):
            found = view.storage.claim(name)
            if found is not None and is_for_one_pod(found):
                single.setdefault(name, []).append("/".join(each.claim.name))
    if not single:
        return
    holders = ((claim, _mounter(claim, view)) for claim in view.book.claims() if claim not in gone)
    taken = {name for _, pod in holders if pod is not None for name in _named(pod) if name in single}
    for name, users in single.items():
        if name in taken or len(users) > 1:
            yield f"claim {'/'.join(name)} may be used by one pod only, wanted by {', '.join(users)}"


def _steps_at_odds(claims: Sequence[Claim], view: View) -> Iterator[str]:
    """One volume for one claim, and one way for each claim, in this plan and in all open decisions but those that it
    replaces: a pod that is nominated to one node may be decided to another."""
    replaced = {claim.name for claim in claims}
    decided = (
        held.decision
        for name, held in view.book.ledger.decisions.items()
        if held.decision.before and name not in replaced
    )
    steps = [
        (decision.namespace, decision.node, step)
        for decision in decided
        if not view.book.is_settled(decision)
        for step in decision.before
        if not step.pod
    ]
    steps += [(claim.name[0], claim.node, step) for claim in claims for step in _steps_of(claim)]
    claim_of: dict[str, tuple[str, str]] = {}
    way_of: dict[tuple[str, str], tuple[str, str]] = {}
    for namespace, node, step in steps:
        claim = (namespace, step.claim_uid)
        if step.volume and claim_of.setdefault(step.volume, claim) != claim:
            yield f"volume {step.volume} is kept for two claims"
        way = (step.action, step.volume or node)
        if way_of.setdefault(claim, way) != way:
            yield f"claim {step.claim} gets its volume in two ways"


def _on_node(name: str, here: Sequence[Arriving], there: Sequence[Mounter], storage: Storage) -> Iterator[str]:
    """Disks and places for volumes."""
    mounted = [volume for pod in there for volume in pod.volumes]
    for each in here:
        wanted = each.pod.volumes if "VolumeRestrictions" in each.rules else ()
        if any(exclude_each_other(volume, other) for volume in wanted for other in mounted):
            yield f"a disk is in use there, wanted by {each.pod.name}"
        mounted += each.pod.volumes
    csi_node = storage.csi_node(name)
    limits = volume_limits.limits_of(csi_node)
    if not limits:
        return
    plugins = volume_limits.migrated(csi_node)
    before = volume_limits.counted(volume_limits.attached_volumes(storage.attachments_on(name), storage), plugins)
    before |= _counted(there, storage, plugins)
    counting = [each.pod for each in here if "NodeVolumeLimits" in each.rules]
    before |= _counted((each.pod for each in here if each.pod not in counting), storage, plugins)
    added = {each: driver for each, driver in _counted(counting, storage, plugins).items() if each not in before}
    for driver, limit in limits.items():
        more = sum(1 for each in added.values() if each == driver)
        total = more + sum(1 for each in before.values() if each == driver)
        if more and total > limit:
            yield f"{total} volumes of {driver}, at most {limit} are taken"


def _counted(pods: Iterable[Mounter], storage: Storage, plugins: frozenset[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pod in pods:
        found |= volume_limits.counted(volume_limits.held_volumes(pod, storage), plugins)
    return found


def _named(pod: Mounter) -> set[tuple[str, str]]:
    return {(pod.namespace, used.name) for used in claims_used(pod) if not used.is_ephemeral}


def _arriving(claim: Claim, view: View) -> Arriving | None:
    """What a claim brings; None where that is no volume."""
    seen = view.book.seen(claim.name)
    if seen is None or seen.uid != claim.uid or not seen.template.volumes:
        return None
    pod = Mounter(seen.namespace, seen.name, seen.uid, seen.template.volumes)
    return Arriving(claim, pod, view.profile_of(seen.template.scheduler).constraints)


def _mounter(claim: Claim, view: View) -> Mounter | None:
    """The pod behind a claim; None for a Reservation, and for one that the view does not show."""
    seen = view.book.seen(claim.name)
    if not isinstance(seen, Pod) or seen.uid != claim.uid:
        return None
    return Mounter(seen.namespace, seen.name, seen.uid, seen.template.volumes)


def _node(name: str, view: View) -> Node | None:
    row = view.nodes.rows.get(name)
    return view.nodes.states[row] if row is not None else None


def _steps_of(claim: Claim) -> list[Step]:
    """Those about claims and volumes: a claim may have others, of pods that are taken over."""
    return [step for step in claim.before if not step.pod]
