"""The look before a deletion (E4): is this writer still the one, does the nomination stand, does its pod still wait?"""

from __future__ import annotations

import asyncio

import msgspec

from berth.bus.port import LedgerPort
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.core import evictions
from berth.contracts import kube, names, subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Decision, Epoch, Plan, PlanStatus
from berth.kube import resources
from berth.kube.api import KubeApi
from berth.kube.lease import KubeLease
from berth.rules.eviction_notes import noted_nomination
from berth.rules.pod_reading import PodItem, whole_pod
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.revocations import is_revocation

_POD = msgspec.json.Decoder(PodItem)
ATTEMPT_DIGITS_MAX = 10
AT_ONCE = 16
"""So many members of a gang are asked about at once."""


class Look:
    """Asks the Lease, the leader of LEDGER and the API server."""

    def __init__(self, cluster: ClusterView, api: KubeApi, ledger: LedgerPort, lease: KubeLease) -> None:
        self._cluster = cluster
        self._api = api
        self._ledger = ledger
        self._lease = lease

    async def is_right(self, plan: str) -> bool:
        """The Lease is ours; at the leader the epoch is the Lease's, the plan committed, its nominations as read; at
        the API server the beneficiaries still wait, and carry them. Raises BusError."""
        record, book = self._lease.record, self._cluster.book
        epoch = book.ledger.epoch.epoch
        if record is None or not self._lease.active or record.epoch != epoch:
            return False
        members = evictions.members_of(plan, book)
        keys = [subjects.decision_key(epoch, each.namespace, each.name) for each in members]
        stored = await asyncio.gather(
            *(self._ledger.read(key) for key in (subjects.EPOCH_KEY, subjects.plan_key(epoch, plan), *keys))
        )
        try:
            entries = [each.value for each in stored if each is not None and not each.deleted]
            if not members or len(entries) < len(stored):
                return False
            is_same = decode(entries[0], Epoch).epoch == epoch
            is_committed = decode(entries[1], Plan).status is PlanStatus.COMMITTED
            if not (is_same and is_committed):
                return False
            if [decode(entry, Decision) for entry in entries[2:]] != members:
                return False
        except InvalidMessage:
            return False
        # Whether a gang goes on without members that are lost has been judged.
        current = [member for member in members if evictions.is_current(book, member)]
        waiting = [member for member in current if not is_revocation(member)]
        for at in range(0, len(waiting), AT_ONCE):
            if not all(await asyncio.gather(*map(self._still_waits, waiting[at : at + AT_ONCE]))):
                return False
        return bool(current) and self._lease.active

    async def _still_waits(self, decision: Decision) -> bool:
        resource = resources.PODS if decision.kind == "pod" else resources.RESERVATIONS
        answer = await self._api.get(resource, decision.namespace, decision.name)
        if not answer.ok:
            return False
        try:
            if decision.kind == "pod":
                pod = whole_pod(_POD.decode(answer.body))
                meta, node, phase = pod.metadata, pod.spec.node_name, pod.status.phase
                nominated = pod.status.nominated_node_name
            else:
                reservation = msgspec.json.decode(answer.body, type=kube.Reservation)
                meta, node, phase = reservation.metadata, reservation.status.node_name, reservation.status.phase
                nominated = decision.node
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        annotations = meta.annotations or {}
        note = noted_nomination(annotations)
        return (
            meta.uid == decision.uid
            and _number(annotations.get(names.ANNOTATION_ATTEMPT, "0")) == decision.attempt
            and meta.deletion_timestamp is None
            and phase not in FINISHED_PHASES
            and not node
            and nominated == decision.node
            and note is not None
            and (note.plan, note.node) == (decision.plan, decision.node)
        )


def _number(text: str) -> int:
    """An attempt as it is read everywhere; what is none is 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= ATTEMPT_DIGITS_MAX else 0
