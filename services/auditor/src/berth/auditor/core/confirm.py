"""What two looks have in common.

Ledger and API are read one after the other, so that one look can show a holder that has just left beside its successor.
A pod that holds something in both looks held it all the time between them. So a world that shows only what both show,
and limits at their most generous, breaks a promise only if there was a moment at which it was broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec

from berth.contracts import kube, names
from berth.invariants import World
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.records.binds import names_of_records
from berth.transaction.ledger_view import LedgerView

T = TypeVar("T", kube.Node, kube.Device, kube.NodeResourceTopology, kube.ElasticQuota, kube.PodGroup)
Quantities = dict[str, kube.Quantity] | None
NOTES = (names.ANNOTATION_ATTEMPT, *names_of_records())


def confirmed(first: World, second: World) -> World:
    """The second look, less what the first did not show in the same way."""
    pods = {pod.metadata.uid: pod for pod in first.pods}
    reservations = {each.metadata.uid: each for each in first.reservations}
    holds = set(first.holds)
    unreadable = set(first.unreadable)
    return replace(
        second,
        pods=[pod for pod in second.pods if _is_the_same_pod(pods.get(pod.metadata.uid), pod)],
        nodes=[_with_more(old, new) for old, new in _pairs(first.nodes, second.nodes)],
        devices=[new for old, new in _pairs(first.devices, second.devices) if old.spec == new.spec],
        topologies=[new for old, new in _pairs(first.topologies, second.topologies) if _says_the_same(old, new)],
        quotas=[_wider(old, new) for old, new in _pairs(first.quotas, second.quotas)],
        pod_groups=[new for old, new in _pairs(first.pod_groups, second.pod_groups) if old.spec == new.spec],
        reservations=[new for new in second.reservations if _holds_the_same(reservations.get(new.metadata.uid), new)],
        ledger=_in_both(first.ledger, second.ledger),
        holds=[hold for hold in second.holds if hold in holds],
        unreadable=[text for text in second.unreadable if text in unreadable],
    )


def _is_the_same_pod(old: kube.Pod | None, new: kube.Pod) -> bool:
    return (
        old is not None
        and old.spec.node_name == new.spec.node_name
        and old.metadata.name == new.metadata.name
        and all(_note(old.metadata, name) == _note(new.metadata, name) for name in NOTES)
    )


def _holds_the_same(old: kube.Reservation | None, new: kube.Reservation) -> bool:
    return (
        old is not None
        and (old.status.node_name, old.status.phase, old.status.allocatable, old.spec.owners)
        == (new.status.node_name, new.status.phase, new.status.allocatable, new.spec.owners)
        and _note(old.metadata, names.ANNOTATION_ATTEMPT) == _note(new.metadata, names.ANNOTATION_ATTEMPT)
    )


def _note(meta: kube.Meta, name: str) -> str:
    return (meta.annotations or {}).get(name, "")


def _says_the_same(old: kube.NodeResourceTopology, new: kube.NodeResourceTopology) -> bool:
    return (old.zones, old.metadata.annotations) == (new.zones, new.metadata.annotations)


def _pairs(first: Sequence[T], second: Sequence[T]) -> Iterator[tuple[T, T]]:
    known = {(each.metadata.namespace, each.metadata.name): each for each in first}
    for new in second:
        old = known.get((new.metadata.namespace, new.metadata.name))
        if old is not None:
            yield old, new


def _with_more(old: kube.Node, new: kube.Node) -> kube.Node:
    offered = _larger(old.status.allocatable, new.status.allocatable)
    return new if offered is None else msgspec.structs.replace(new, status=kube.NodeStatus(allocatable=offered))


def _wider(old: kube.ElasticQuota, new: kube.ElasticQuota) -> kube.ElasticQuota:
    """A group with the larger of its limits. A resource that one of the two does not limit is free, so it stays out."""
    if old.spec == new.spec:
        return new
    most = _larger(old.spec.max, new.spec.max, only_common=True)
    least = _larger(old.spec.min, new.spec.min, only_common=True)
    spec = kube.ElasticQuotaSpec(max=most if most is not None else new.spec.max, min=new.spec.min)
    if least is not None:
        spec = msgspec.structs.replace(spec, min=least)
    return msgspec.structs.replace(new, spec=spec)


def _larger(old: Quantities, new: Quantities, *, only_common: bool = False) -> Quantities:
    """The larger of each amount; None when they are equal anyway. Amounts that cannot be read are left out."""
    if old == new:
        return None
    one, other = _read(old), _read(new)
    named = one.keys() & other.keys() if only_common else one.keys() | other.keys()
    return {name: _written(name, max(one.get(name, 0), other.get(name, 0))) for name in named}


def _read(quantities: Quantities) -> Amounts:
    return parse_amounts(quantities, "")[0]


def _written(name: str, amount: int) -> str:
    return f"{amount}m" if name == names.CPU else str(amount)


def _in_both(first: LedgerView, second: LedgerView) -> LedgerView:
    view = LedgerView()
    view.epoch, view.sequence, view.plans = second.epoch, second.sequence, second.plans
    for name, held in second.decisions.items():
        old = first.decisions.get(name)
        if old is not None and old.decision == held.decision:
            view.decisions[name] = held
            view.members.setdefault(held.decision.plan, set()).add(name)
    return view
