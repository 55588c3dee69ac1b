"""Carrying out nominations: note, mark, look, delete, spare, let go (docs/evictions.md), one step at a time.

Each turn judges every nomination that was begun on the view as it is, and sends what follows. Every request names the
uid and the version that was judged, so it lands once or is refused; what is unknown is judged again when the view has
moved. Nothing is remembered that STATE and LEDGER do not show, but for what was sent and is not shown yet, and for what
a policy forbids: whoever takes over goes on where the marks stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from berth.bus.errors import BusError
from berth.bus.port import LedgerPort
from berth.cluster_writer import metrics
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.core import evictions
from berth.cluster_writer.core.evictions import EvictionStep, Stage
from berth.cluster_writer.core.fitness import unfit
from berth.cluster_writer.core.waves import loss
from berth.contracts import kube, names, subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.grants import granted
from berth.contracts.ledger import Decision, Epoch, Plan, PlanStatus
from berth.contracts.state import Pod, Reservation
from berth.kube import resources
from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.kube.bodies import Patch, timestamp
from berth.kube.lease import KubeLease
from berth.rules.eviction_notes import Mark, Nominated, let_go_note, mark_note, nomination_note, noted_nomination
from berth.rules.pod_reading import PodItem, whole_pod
from berth.rules.preemption import BY_SCHEDULER
from berth.runtime.clock import Clock
from berth.telemetry import get_logger
from berth.transaction.claims import Name

log = get_logger(__name__)

IDLE_S = 1.0
TURN_PAUSE_S = 0.05
IN_FLIGHT_MAX = 50
"""Victims that are leaving at once."""
ON_NODE_MAX = 10
"""Of those on one node."""
FORBIDDEN = 403
DISRUPTION_MESSAGE = "berth-scheduler: preempting to accommodate a higher priority pod"

_POD = msgspec.json.Decoder(PodItem)
_META = msgspec.json.Decoder(kube.AnyObject)


class EvictionEvents(Protocol):
    """Who is told what came of evictions."""

    def marked(self, victim: Pod, mark: Mark) -> None:
        """A victim carries its mark."""

    def sent(self, victim: Pod, mark: Mark) -> None:
        """A victim was deleted."""

    def refused(self, victim: Pod, mark: Mark, message: str) -> None:
        """A victim may not be marked or deleted."""

    def spared(self, victim: Pod, mark: Mark, message: str) -> None:
        """A mark was taken back."""

    def given_up(self, pod: Pod | Reservation, plan: str, decision: Decision | None, reason: str) -> None:
        """A beneficiary let its plan go; `decision` is its nomination, where LEDGER still has it."""


class EvictionExecutor:
    """Every plan with nominations that was begun. `is_acting`: the Lease is ours and LEDGER agrees with it."""

    def __init__(
        self,
        cluster: ClusterView,
        api: KubeApi,
        ledger: LedgerPort,
        lease: KubeLease,
        clock: Clock,
        events: EvictionEvents,
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._ledger = ledger
        self._lease = lease
        self._clock = clock
        self._events = events
        self._begun: dict[str, int] = {}
        self._sent: dict[str, tuple[Name, int]] = {}
        self._deleted: dict[str, str] = {}
        self._protected: dict[str, dict[str, str]] = {}
        self._ends = 0
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, decision: Decision) -> None:
        """Carry out a nomination of a plan that the Lease names; one that is being carried out goes on as it is."""
        self._begun.setdefault(decision.plan, self._ends)
        self._wake.set()

    def moved(self) -> None:
        """The view has changed."""
        self._wake.set()

    def at_end(self) -> None:
        """The end of STATE was reached."""
        self._ends += 1
        self._wake.set()

    async def run(self, is_acting: Callable[[], bool]) -> None:
        """Work for ever."""
        while True:
            if is_acting():
                try:
                    await self.turn()
                except BusError as error:
                    log.warning("the bus does not answer: evictions wait", error=str(error))
            await self._clock.sleep(TURN_PAUSE_S)
            alarm = asyncio.get_running_loop().call_later(IDLE_S, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                alarm.cancel()
            self._wake.clear()

    async def turn(self) -> None:
        """Judge everything once, and send what follows."""
        book = self._cluster.book
        self._forget_shown()
        for plan in list(self._begun):
            members = evictions.members_of(plan, book)
            if not members:
                del self._begun[plan]
                continue
            protected = self._protected.get(plan, {})
            step = evictions.next_step(members, book, self._why_unfit, self._clock.now(), protected)
            if step.stage is Stage.OVER:
                del self._begun[plan]
            elif not (step.is_doubtful and self._ends <= self._begun[plan]):
                await self._act(plan, step)
        self._protected = {plan: why for plan, why in self._protected.items() if plan in self._begun}
        record = self._lease.record
        # While LEDGER is being read again, a nomination that is not shown may be there.
        if record is not None and not loss(book.ledger, record.epoch, record.plan):
            for pod, mark, reason in list(evictions.to_spare(book)):
                await self._spare(pod, mark, reason)
        for each in list(evictions.to_let_go(book, self._clock.now())):
            await self._let_go(each.pod, each.plan, None, each.reason)

    def _why_unfit(self, decision: Decision, seen: Pod | Reservation) -> str:
        cluster = self._cluster
        node = cluster.nodes.get(decision.node)
        if node is None or node.deleting:
            return f"node {decision.node} is gone" if cluster.nodes_known else ""
        device = cluster.devices.get(decision.node)
        return unfit(decision, seen.template, node, device, devices_known=cluster.devices_known)

    async def _act(self, plan: str, step: EvictionStep) -> None:
        match step.stage:
            case Stage.NOTE:
                for decision in step.beneficiaries:
                    await self._note(decision)
            case Stage.MARK:
                for victim in step.victims:
                    await self._mark(victim, evictions.mark_of(step.beneficiaries[0]))
            case Stage.EVICT:
                await self._evict(plan, step.victims, evictions.mark_of(step.beneficiaries[0]))
            case Stage.GIVE_UP:
                for decision in step.beneficiaries:
                    seen = self._cluster.book.seen((decision.namespace, decision.name))
                    if seen is not None:
                        await self._let_go(seen, plan, decision, step.reason)

    # --- the beneficiary ---------------------------------------------------------------------------------------------

    async def _note(self, decision: Decision) -> None:
        """E3: the nomination becomes a part of the beneficiary, its status last, since a note counts only with both."""
        seen = self._cluster.book.seen((decision.namespace, decision.name))
        if seen is None or self._is_awaited(seen):
            return
        note = nomination_note(Nominated(decision.plan, decision.node, list(granted(decision.allocation))))
        made: str | None = str(seen.version)
        annotations = seen.template.annotations if isinstance(seen, Pod) else seen.annotations
        if annotations.get(names.ANNOTATION_NOMINATED) != note[names.ANNOTATION_NOMINATED]:
            made = await self._patch(seen, {"annotations": note}, str(seen.version))
        if made is not None and isinstance(seen, Pod):
            await self._patch(seen, {}, made, status={"nominatedNodeName": decision.node})

    async def _let_go(self, seen: Pod | Reservation, plan: str, decision: Decision | None, reason: str) -> None:
        """E7: one guarded patch raises the attempt, takes the note back and lists the plan."""
        if self._is_awaited(seen):
            return
        annotations = seen.template.annotations if isinstance(seen, Pod) else seen.annotations
        notes: dict[str, str | None] = {
            names.ANNOTATION_ATTEMPT: str(seen.attempt + 1),
            names.ANNOTATION_NOMINATED: None,
            **let_go_note(annotations, plan),
        }
        version = await self._patch(seen, {"annotations": notes}, str(seen.version))
        if version is None:
            return
        metrics.NOMINATIONS_GIVEN_UP.inc()
        log.info("a nomination was given up", namespace=_namespace(seen), name=seen.name, plan=plan, reason=reason)
        self._events.given_up(seen, plan, decision, reason)
        if isinstance(seen, Pod) and seen.nominated:
            await self._patch(seen, {}, version, status={"nominatedNodeName": None})

    # --- victims -----------------------------------------------------------------------------------------------------

    async def _mark(self, victim: Pod, mark: Mark) -> None:
        if self._is_awaited(victim):
            return
        body = _guarded(victim, str(victim.version), {"annotations": mark_note(mark)})
        answer = await self._api.patch(resources.PODS, victim.namespace, victim.name, body)
        if self._landed(victim, answer) is not None:
            metrics.EVICTIONS.labels("marked").inc()
            self._events.marked(victim, mark)
        else:
            self._heed(victim, mark, answer)

    async def _evict(self, plan: str, victims: tuple[Pod, ...], mark: Mark) -> None:
        """E4, E8: look, then delete all of them, if so many may leave at once."""
        if any(self._is_awaited(victim) for victim in victims):
            return
        leaving = evictions.in_flight(self._cluster.book)
        for node in (*self._deleted.values(), *(victim.node for victim in victims)):
            leaving[node] = leaving.get(node, 0) + 1
        # A plan that is larger than the bounds goes alone.
        is_alone = sum(leaving.values()) == len(victims)
        if not is_alone and (sum(leaving.values()) > IN_FLIGHT_MAX or max(leaving.values()) > ON_NODE_MAX):
            return
        if not await self._looks_right(plan):
            return
        for victim in victims:
            await self._delete(victim, mark)

    async def _delete(self, victim: Pod, mark: Mark) -> None:
        """The condition that says why, then the deletion, which names the version that carries mark and condition."""
        version = str(victim.version)
        if victim.disruption != BY_SCHEDULER:
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": BY_SCHEDULER,
                "message": DISRUPTION_MESSAGE,
                "lastTransitionTime": timestamp(self._clock.now()),
            }
            made = await self._patch(victim, {}, version, status={"conditions": [condition]})
            if made is None:
                return
            version = made
        answer = await self._api.delete(resources.PODS, victim.namespace, victim.name, uid=victim.uid, version=version)
        if answer.ok:
            if self._await(victim, answer) is not None:
                self._deleted[victim.uid] = victim.node
            metrics.EVICTIONS.labels("sent").inc()
            self._events.sent(victim, mark)
        else:
            self._heed(victim, mark, answer)

    async def _spare(self, victim: Pod, mark: Mark, reason: str) -> None:
        """E5."""
        if self._is_awaited(victim):
            return
        version = await self._patch(victim, {"annotations": {names.ANNOTATION_EVICTED_FOR: None}}, str(victim.version))
        if version is not None:
            metrics.EVICTIONS.labels("spared").inc()
            self._events.spared(victim, mark, reason)

    def _heed(self, victim: Pod, mark: Mark, answer: Answer) -> None:
        """A policy that forbids it protects the victim; everything else is judged again."""
        if answer.status == FORBIDDEN and not answer.is_page:
            why = f"{victim.namespace}/{victim.name} is protected: {answer.message}"
            self._protected.setdefault(mark.plan, {})[victim.uid] = why
            metrics.EVICTIONS.labels("refused").inc()
            self._events.refused(victim, mark, answer.message)

    # --- the look ----------------------------------------------------------------------------------------------------

    async def _looks_right(self, plan: str) -> bool:
        """E4: the Lease is ours; at the leader the epoch is the Lease's, the plan committed, its nominations as read;
        at the API server the beneficiaries still wait, and carry them."""
        record, book = self._lease.record, self._cluster.book
        epoch = book.ledger.epoch.epoch
        if record is None or not self._lease.held or record.epoch != epoch:
            return False
        members = evictions.members_of(plan, book)
        keys = [subjects.decision_key(epoch, each.namespace, each.name) for each in members]
        stored = await asyncio.gather(
            *(self._ledger.read(key) for key in (subjects.EPOCH_KEY, subjects.plan_key(epoch, plan), *keys))
        )
        try:
            entries = [each.value for each in stored if each is not None and not each.deleted]
            if len(entries) < len(stored):
                return False
            is_same = decode(entries[0], Epoch).epoch == epoch
            is_committed = decode(entries[1], Plan).status is PlanStatus.COMMITTED
            if not (is_same and is_committed):
                return False
            if [decode(entry, Decision) for entry in entries[2:]] != members:
                return False
        except InvalidMessage:
            return False
        for member in members:
            if not await self._still_waits(member):
                return False
        return self._lease.held

    async def _still_waits(self, decision: Decision) -> bool:
        resource = resources.PODS if decision.kind == "pod" else resources.RESERVATIONS
        answer = await self._api.get(resource, decision.namespace, decision.name)
        if not answer.ok:
            return False
        try:
            if decision.kind == "pod":
                pod = whole_pod(_POD.decode(answer.body))
                meta, node, nominated = pod.metadata, pod.spec.node_name, pod.status.nominated_node_name
            else:
                reservation = msgspec.json.decode(answer.body, type=kube.Reservation)
                meta, node, nominated = reservation.metadata, reservation.status.node_name, decision.node
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        annotations = meta.annotations or {}
        note = noted_nomination(annotations)
        return (
            meta.uid == decision.uid
            and annotations.get(names.ANNOTATION_ATTEMPT, "0") == str(decision.attempt)
            and meta.deletion_timestamp is None
            and not node
            and nominated == decision.node
            and note is not None
            and (note.plan, note.node) == (decision.plan, decision.node)
        )

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _patch(
        self, seen: Pod | Reservation, meta: dict[str, Any], version: str, status: dict[str, Any] | None = None
    ) -> str | None:
        """A patch guarded by uid and version; the version that it made, or None: judge again."""
        body = _guarded(seen, version, meta)
        subresource = ""
        if status is not None:
            body["status"] = status
            subresource = "status"
        is_pod = isinstance(seen, Pod)
        answer = await self._api.patch(
            resources.PODS if is_pod else resources.RESERVATIONS,
            _namespace(seen),
            seen.name,
            body,
            content_type=Patch.STRATEGIC if is_pod else Patch.MERGE,
            subresource=subresource,
        )
        return self._landed(seen, answer)

    def _landed(self, seen: Pod | Reservation, answer: Answer) -> str | None:
        return self._await(seen, answer) if answer.ok else None

    def _await(self, seen: Pod | Reservation, answer: Answer) -> str | None:
        """What is known to have changed is judged again once STATE shows it."""
        try:
            version = _META.decode(answer.body).metadata.resource_version
            self._sent[seen.uid] = ((_namespace(seen), seen.name), int(version))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            return None
        return version

    def _is_awaited(self, seen: Pod | Reservation) -> bool:
        return seen.uid in self._sent and seen.version < self._sent[seen.uid][1]

    def _forget_shown(self) -> None:
        """What STATE shows, or shows no more, is no longer waited for."""
        book = self._cluster.book
        for uid, (name, version) in list(self._sent.items()):
            seen = book.seen(name)
            if seen is None or seen.uid != uid or seen.version >= version:
                del self._sent[uid]
                self._deleted.pop(uid, None)


def _guarded(seen: Pod | Reservation, version: str, meta: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"uid": seen.uid, "resourceVersion": version, **meta}}


def _namespace(seen: Pod | Reservation) -> str:
    return seen.namespace if isinstance(seen, Pod) else ""
