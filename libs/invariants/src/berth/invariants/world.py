"""What is looked at: API objects, the live keys of ledger and STATE, and what nodes say of their devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec

from berth.contracts import kube, names, state, subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.quota import QuotaRules
from berth.invariants.snapshots import Snapshot, snapshot_of_claims
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Claim, of_pod, of_reservation
from berth.transaction.ledger_view import LedgerView

T = TypeVar("T")
NORMAL = QuotaRules()
Objects = Iterable[Mapping[str, Any] | kube.View]


class NodeHold(NamedTuple):
    """A node's own word: this pod uses this device, function or CPU, and so many percent of it."""

    node: str
    kind: str
    id: str
    pod_uid: str
    percent: int = 100


@dataclass(frozen=True, kw_only=True)
class World:
    """One moment. `is_quiet`: nothing is under way, so everything decided must have come to its end.

    `schedulers` are the scheduler names whose pods are Berth's. `excused_gangs` (`namespace/name`) are those that
    nothing could keep whole: a member was deleted or withdrawn after they had begun, say. `unreadable` says what
    had to be left out. `believed` is the snapshot that STATE gives of the same moment, where it was read. `quota_rules`
    is how quota-manager is set, as QUOTA says.
    """

    pods: list[kube.Pod] = field(default_factory=list)
    nodes: list[kube.Node] = field(default_factory=list)
    devices: list[kube.Device] = field(default_factory=list)
    topologies: list[kube.NodeResourceTopology] = field(default_factory=list)
    quotas: list[kube.ElasticQuota] = field(default_factory=list)
    pod_groups: list[kube.PodGroup] = field(default_factory=list)
    reservations: list[kube.Reservation] = field(default_factory=list)
    ledger: LedgerView = field(default_factory=LedgerView)
    holds: list[NodeHold] = field(default_factory=list)
    schedulers: frozenset[str] = frozenset({names.SCHEDULER_NAME})
    excused_gangs: frozenset[str] = frozenset()
    is_quiet: bool = True
    unreadable: list[str] = field(default_factory=list)
    believed: Snapshot | None = None
    quota_rules: QuotaRules = NORMAL

    @classmethod
    def of(
        cls,
        *,
        pods: Objects = (),
        nodes: Objects = (),
        devices: Objects = (),
        topologies: Objects = (),
        quotas: Objects = (),
        pod_groups: Objects = (),
        reservations: Objects = (),
        ledger: Mapping[str, tuple[int, bytes]] | None = None,
        ledger_view: LedgerView | None = None,
        believed: Mapping[str, tuple[int, bytes]] | None = None,
        holds: Iterable[NodeHold] = (),
        schedulers: Iterable[str] = (names.SCHEDULER_NAME,),
        excused_gangs: Iterable[str] = (),
        is_quiet: bool = True,
        quota_rules: QuotaRules = NORMAL,
    ) -> World:
        """From raw objects (dictionaries or partial views), and the live keys of ledger and STATE with their values.

        A `ledger_view` is taken as it is. Nothing raises: what cannot be read is named in `unreadable`, and an
        invariant of its own fails for it.
        """
        unreadable: list[str] = []
        return cls(
            pods=read_objects(pods, kube.Pod, unreadable),
            nodes=read_objects(nodes, kube.Node, unreadable),
            devices=read_objects(devices, kube.Device, unreadable),
            topologies=read_objects(topologies, kube.NodeResourceTopology, unreadable),
            quotas=read_objects(quotas, kube.ElasticQuota, unreadable),
            pod_groups=read_objects(pod_groups, kube.PodGroup, unreadable),
            reservations=read_objects(reservations, kube.Reservation, unreadable),
            ledger=ledger_view or _fold(ledger or {}, unreadable),
            holds=list(holds),
            schedulers=frozenset(schedulers),
            excused_gangs=frozenset(excused_gangs),
            is_quiet=is_quiet,
            unreadable=unreadable,
            quota_rules=quota_rules,
            believed=None if believed is None else snapshot_of_claims(_believed(believed, unreadable)),
        )


def read_objects(objects: Objects, kind: type[T], unreadable: list[str]) -> list[T]:
    """Objects as partial views; those that cannot be read are left out and named in `unreadable`."""
    found: list[T] = []
    for position, each in enumerate(objects):
        if isinstance(each, kind):
            found.append(each)
            continue
        try:
            found.append(msgspec.convert(each, kind))
        except (msgspec.ValidationError, RecursionError) as error:
            unreadable.append(f"{kind.__name__} number {position}: {error}")
    return found


def _fold(entries: Mapping[str, tuple[int, bytes]], unreadable: list[str]) -> LedgerView:
    view = LedgerView()
    # The epoch says which keys count at all, whenever it was written.
    ordered = sorted(entries.items(), key=lambda entry: (entry[0] != subjects.EPOCH_KEY, entry[1][0]))
    for key, (sequence, value) in ordered:
        try:
            view.apply(key, value, False, sequence)
        except (InvalidMessage, ValueError) as error:
            unreadable.append(f"ledger key {key}: {error}")
    return view


def _believed(entries: Mapping[str, tuple[int, bytes]], unreadable: list[str]) -> Iterable[Claim]:
    for key, (_, value) in entries.items():
        try:
            if key.startswith("pod."):
                pod = decode(value, state.Pod)
                if pod.node and pod.phase not in FINISHED_PHASES:
                    # As it was noted: what STATE repeats is compared with what Kubernetes says, not what it proves.
                    yield of_pod(pod, accepts=lambda _: True)
            elif key.startswith("reservation."):
                reservation = decode(value, state.Reservation)
                if reservation.node and reservation.phase not in FINISHED_PHASES:
                    yield of_reservation(reservation)
        except InvalidMessage as error:
            unreadable.append(f"STATE key {key}: {error}")
