"""Reservations: what is reserved is there for its owners, and for nobody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from berth.contracts import kube, names
from berth.invariants.amounts import SHRINKING
from berth.invariants.facts import BY_MINOR, Facts, Holder, amounts_of, read_cores, read_devices
from berth.invariants.report import Finding
from berth.invariants.things import WHOLE
from berth.resources.amounts import Amounts
from berth.rules.reservation_borrowers import ignores_reservations
from berth.rules.reservation_inner import inner_part_of, kept_of
from berth.rules.reservation_owners import PodIdentity, compile_owners

AVAILABLE = "Available"
Shares: TypeAlias = dict[tuple[str, str, str], int]


def wrong_users(facts: Facts) -> Iterator[Finding]:
    """Pods that use a reservation which is not for them, is elsewhere, or serves one pod only."""
    by_uid = {reservation.metadata.uid: reservation for reservation in facts.world.reservations}
    users: dict[str, list[Holder]] = {}
    for holder in facts.holders:
        if holder.reservation and holder.is_ours:
            users.setdefault(holder.reservation, []).append(holder)
    for uid, holders in sorted(users.items()):
        reservation = by_uid.get(uid)
        if reservation is None:
            continue  # it may end before its users do
        name = reservation.metadata.name
        node = reservation.status.node_name
        if not node:
            # About to be taken over, or left over of a try to: nobody draws on it before it is there.
            holders = [each for each in holders if not _is_only_noted(each, reservation, facts)]
        owners = compile_owners(reservation.spec.owners or [])
        for holder in holders:
            if holder.node != node:
                text = f"{holder.text} on {holder.node} uses reservation {name} on {node or 'no node'}"
                yield Finding(f"reservation {name}, {holder.text}", text)
            pod = facts.pods[holder.key].pod
            identity = PodIdentity(
                holder.key[0], holder.key[1], holder.uid, holder.labels, pod.metadata.owner_references or ()
            )
            is_taken = (uid, holder.uid) in facts.taken_over or _is_taken_over(reservation, identity)
            if not owners.accept(identity) and not is_taken:
                text = f"{holder.text} uses reservation {name} and is no owner of it"
                yield Finding(f"reservation {name}, {holder.text}", text)
        if reservation.spec.allocate_once is not False and len(holders) > 1:
            listed = ", ".join(holder.text for holder in holders)
            yield Finding(f"reservation {name}", f"reservation {name} serves one pod and has {len(holders)}: {listed}")


def _is_only_noted(holder: Holder, reservation: kube.Reservation, facts: Facts) -> bool:
    """Its own decision names no Reservation, as it is with whom one takes over."""
    held = facts.world.ledger.decisions.get(holder.key)
    if held is None or held.decision.uid != holder.uid:
        return reservation.spec.pre_allocation
    return not held.decision.reservation_uid


def may_be_taken(spec: Mapping[str, Any], pod: PodIdentity) -> bool:
    """Whether a Reservation that takes over pods may take this one, by whose it is."""
    read = msgspec.convert(spec, kube.ReservationSpec)
    mode = read.pre_allocation_policy.mode if read.pre_allocation_policy is not None else ""
    return _is_taken_by_label(read, pod) if mode == "Cluster" else compile_owners(read.owners or []).accept(pod)


def _is_taken_over(reservation: kube.Reservation, pod: PodIdentity) -> bool:
    """Whether a pod that is no owner was taken over, where no decision says so any more. Another label than the usual
    one may say who may be, which a profile names; whoever the status lists was, for cluster-writer alone writes it."""
    listed = reservation.status.current_owners or ()
    return _is_taken_by_label(reservation.spec, pod) or (
        _is_cluster_wide(reservation.spec) and any(each.uid == pod.uid for each in listed)
    )


def _is_taken_by_label(spec: kube.ReservationSpec, pod: PodIdentity) -> bool:
    return _is_cluster_wide(spec) and pod.labels.get(names.LABEL_PRE_ALLOCATABLE) == "true"


def _is_cluster_wide(spec: kube.ReservationSpec) -> bool:
    # Not whether it takes over pods now: that may be edited once it has its node.
    return spec.pre_allocation_policy is not None and spec.pre_allocation_policy.mode == "Cluster"


def given_away(facts: Facts) -> Iterator[Finding]:
    """Nodes on which pods, and what available reservations have left, do not fit together."""
    offers = {node.metadata.name: amounts_of(node.status.allocatable) for node in facts.world.nodes}
    by_node: dict[str, list[kube.Reservation]] = {}
    for reservation in facts.world.reservations:
        if reservation.status.phase == AVAILABLE and reservation.status.node_name:
            by_node.setdefault(reservation.status.node_name, []).append(reservation)
    for node, reservations in sorted(by_node.items()):
        holders = facts.on_node.get(node, [])
        uids = {reservation.metadata.uid for reservation in reservations}
        if any(holder.is_ours and holder.reservation not in uids for holder in holders):
            if node in offers:  # pods and reservations outlive their node object for a while
                yield from _amounts_given_away(node, offers[node], reservations, holders)
            yield from _devices_given_away(node, reservations, holders)


def _amounts_given_away(
    node: str, offered: Amounts, reservations: list[kube.Reservation], holders: list[Holder]
) -> Iterator[Finding]:
    uids = {reservation.metadata.uid for reservation in reservations}
    strangers = {
        name
        for holder in holders
        if holder.is_ours and holder.reservation not in uids
        for name, amount in holder.amounts.items()
        if amount > 0
    }
    for name in sorted(strangers - BY_MINOR - SHRINKING - {names.PODS}):
        held = sum(holder.amounts.get(name, 0) for holder in holders)
        left = 0
        for reservation in reservations:
            used = sum(h.amounts.get(name, 0) for h in holders if h.reservation == reservation.metadata.uid)
            inner = inner_part_of(reservation.metadata.annotations or {})[0]
            left += kept_of(amounts_of(reservation.status.allocatable).get(name, 0), used, inner.get(name, 0))
        # Of these the ledger says what they have borrowed: at most what they take.
        borrowed = sum(h.amounts.get(name, 0) for h in holders if ignores_reservations(h.labels))
        left = max(0, left - borrowed)
        if left and held + left > offered.get(name, 0):
            text = f"node {node}: {held} held and {left} still reserved of {offered.get(name, 0)} {name}"
            yield Finding(f"node {node}, {name}", text)


def _devices_given_away(node: str, reservations: list[kube.Reservation], holders: list[Holder]) -> Iterator[Finding]:
    uids = {reservation.metadata.uid for reservation in reservations}
    held = _shares(holders)
    strange = _shares([holder for holder in holders if holder.is_ours and holder.reservation not in uids])
    left: Shares = {}
    for reservation in reservations:
        used = _shares([holder for holder in holders if holder.reservation == reservation.metadata.uid])
        noted = reservation.metadata.annotations or {}
        for grant in (*read_devices(noted), *read_cores(noted)):
            for name, amount in grant.amounts.items():
                key = (grant.kind, grant.id, name)
                left[key] = left.get(key, 0) + max(0, amount - used.get(key, 0))
    borrowed = _shares([holder for holder in holders if ignores_reservations(holder.labels)])
    for key in sorted(left):
        kind, which, name = key
        left[key] = max(0, left[key] - borrowed.get(key, 0))
        most = WHOLE.get(name)
        if most and left[key] and key in strange and held[key] + left[key] > most:
            subject = f"node {node}, {kind} {which}"
            yield Finding(subject, f"{subject}: {held[key]} held and {left[key]} still reserved of {most} {name}")


def _shares(holders: list[Holder]) -> Shares:
    shares: Shares = {}
    for holder in holders:
        for grant in holder.devices:
            for name, amount in grant.amounts.items():
                key = (grant.kind, grant.id, name)
                shares[key] = shares.get(key, 0) + amount
    return shares
