"""Carrying out decisions: judge, send, read the answer, until each is over. Many at once, each alone in order.

A decision that has been begun is never dropped here: it ends bound, gone or withdrawn. What has to wait for the view
is parked under its name and judged again when the view has moved. A verdict that a late view could be the cause of
waits until the end of STATE was reached once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from berth.cluster_writer import metrics
from berth.cluster_writer.cluster_view import ClusterView, StorageKey
from berth.cluster_writer.core.answers import Next, after_bind, after_withdrawal
from berth.cluster_writer.core.growths import growing
from berth.cluster_writer.core.handing import NOTHING, OFF, bind_of, handed
from berth.cluster_writer.core.judge import Judgement, Topologies, Verdict, Volumes, judge
from berth.cluster_writer.core.progress import Request, View
from berth.cluster_writer.core.steps import TIMEOUT_S
from berth.cluster_writer.core.take_over_steps import owners_after
from berth.cluster_writer.node_locks import NodeLocks
from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.contracts.ledger import Decision
from berth.kube import resources
from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.kube.backoff import Backoff
from berth.kube.bodies import timestamp
from berth.resources.amounts import format_amounts
from berth.rules.records.binds import written_over
from berth.runtime.clock import Clock
from berth.telemetry import get_logger
from berth.transaction.claims import Name
from berth.vendors.vendor import Bind, HandOff

log = get_logger(__name__)

Key = tuple[str, int]
Awaited = tuple[str, ...]
"""A claim or volume (`StorageKey`), or a pod: POD, its namespace and name."""
POD = "pod"
_META = msgspec.json.Decoder(kube.AnyObject)
GONE = -1
REPEAT_ALARM_AFTER = 5
"""So many tries in vain are logged, and from then on others are let in during the pauses: what stands in the way may be
this object's alone, as a namespace that is being terminated or a webhook that is down."""
REPEAT_PAUSE_MAX_S = 5.0
"""A server that has come to itself again is not kept waiting for long: nobody else sends this request."""
TIMEOUT_LEAST_S = 1.0
"""A profile that gives volumes no time at all still has them asked for: they may be there at the next try."""
TIMEOUT_LOOK_S = 1.0
"""How often it is looked whether somebody has waited for volumes for too long."""
LOOK_PAUSE_S = 0.02
LOOK_PAUSE_MAX_S = 5.0
"""A conflict that the view cannot explain yet is no reason for a hot loop."""


class BindExecutor:
    """Every decision being carried out, by uid and attempt. `on_loss(reason)` is called for a clash among our own."""

    def __init__(
        self,
        cluster: ClusterView,
        api: KubeApi,
        clock: Clock,
        random: Any,
        *,
        concurrency: int,
        volume_timeout_s: float = TIMEOUT_S,
        vendors: frozenset[str] = OFF,
        on_loss: Callable[[str], None],
        on_withdrawn: Callable[[Decision, str], None],
        on_landed: Callable[[Decision], None],
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._clock = clock
        self._random = random
        self._queue: asyncio.Queue[Decision] = asyncio.Queue()
        self._open: dict[Key, Decision] = {}
        self._following: dict[Key, Decision] = {}
        """What was decided of a Reservation while its former decision is still carried out."""
        self._parked: dict[Name, dict[Key, tuple[Decision, int]]] = {}
        self._give_up: dict[Key, str] = {}
        self._unsure: dict[Key, str] = {}
        self._bound: set[Key] = set()
        self._ends = 0
        self._doubted_at: dict[Key, int] = {}
        self._places = asyncio.Semaphore(concurrency)
        self._aside = 0
        self._volume_timeout_s = volume_timeout_s
        self._vendors = vendors
        self._locks = NodeLocks(cluster, api, clock)
        self._steps: dict[Key, _Steps] = {}
        self._awaiting: dict[Awaited, set[Name]] = {}
        cluster.on_storage = self._storage_moved
        self._on_loss = on_loss
        self._on_withdrawn = on_withdrawn
        self._on_landed = on_landed

    def __len__(self) -> int:
        return len(self._open)

    def under_way(self) -> int:
        """How many are being worked on or are next: neither parked, nor pausing after many tries in vain."""
        return len(self._open) - sum(map(len, self._parked.values())) - self._aside

    def begin(self, decision: Decision) -> None:
        """Carry out a decision; one that is being carried out already goes on as it is."""
        key = (decision.uid, decision.attempt)
        if key not in self._open:
            self._open[key] = decision
            self._queue.put_nowait(decision)
        elif decision.grows and self._open[key].plan != decision.plan:
            self._following[key] = decision

    def give_up(self, decision: Decision, reason: str) -> None:
        """Withdraw a decision without trying it (R9)."""
        self._give_up[decision.uid, decision.attempt] = reason
        self.begin(decision)
        self.moved((decision.namespace, decision.name))

    def moved(self, name: Name | None) -> None:
        """The view has changed for a name, or (None) in how far it is complete: judge what was parked again."""
        waiting = [self._parked.pop(name, {})] if name is not None else list(self._parked.values())
        if name is None:
            self._parked = {}
        elif self._awaiting:
            waiting += [self._parked.pop(each, {}) for each in sorted(self._awaiting.pop((POD, *name), ()))]
        for parked in waiting:
            for decision, version in parked.values():
                seen = self._cluster.book.seen((decision.namespace, decision.name))
                if seen is not None and seen.uid == decision.uid and seen.version < version:
                    self._park(decision, version)
                else:
                    self._queue.put_nowait(decision)

    def at_end(self) -> None:
        """The end of STATE was reached."""
        self._ends += 1
        if self._parked:
            self.moved(None)

    def has_parked(self) -> bool:
        """Whether anything waits for the view."""
        return bool(self._parked)

    def _storage_moved(self, key: StorageKey) -> None:
        """A claim or a volume has changed: judge again who waits for it."""
        for name in sorted(self._awaiting.pop(key, ())):
            self.moved(name)

    async def _time_out(self) -> None:
        """Judge again who has waited for volumes for too long: nothing else would wake it."""
        while True:
            await self._clock.sleep(TIMEOUT_LOOK_S)
            now = self._clock.monotonic()
            for key, steps in self._steps.items():
                decision = self._open.get(key)
                if decision is not None and now - steps.since >= self._timeout_s(decision):
                    self.moved((decision.namespace, decision.name))

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._time_out())
            while True:
                decision = await self._queue.get()
                await self._places.acquire()
                group.create_task(self._carry_out(decision))

    async def _carry_out(self, decision: Decision) -> None:
        over = await self._step(decision)
        if over:
            await self._unlock(decision)
        self._places.release()
        if over:
            for awaited in self._awaited_by(decision):
                waiting = self._awaiting.get(awaited, set())
                waiting.discard((decision.namespace, decision.name))
                if not waiting:
                    self._awaiting.pop(awaited, None)
            for book in (self._open, self._give_up, self._unsure, self._doubted_at, self._steps):
                book.pop((decision.uid, decision.attempt), None)
            self._bound.discard((decision.uid, decision.attempt))
            if (following := self._following.pop((decision.uid, decision.attempt), None)) is not None:
                self.begin(following)
        metrics.OPEN_BINDS.set(len(self._open))

    async def _pause(self, pause_s: float, tries: int) -> None:
        """Before another try. A bind that was tried often leaves its place to others meanwhile."""
        if tries < REPEAT_ALARM_AFTER:
            await self._clock.sleep(pause_s)
        else:
            await self._stand_aside(pause_s)

    async def _stand_aside(self, pause_s: float) -> None:
        self._aside += 1
        self._places.release()
        await self._clock.sleep(pause_s)
        await self._places.acquire()
        self._aside -= 1

    async def _step(self, decision: Decision) -> bool:
        """Judge and act once; True when the decision is over, False when it was parked."""
        key = (decision.uid, decision.attempt)
        backoff = Backoff(self._random, base_s=2 * LOOK_PAUSE_S, cap_s=LOOK_PAUSE_MAX_S)
        tries = 0
        while True:
            judgement = self._judge(decision)
            if judgement.verdict in (Verdict.BIND, Verdict.STEP) and key in self._give_up:
                judgement = judgement._replace(verdict=Verdict.WITHDRAW, reason=self._give_up[key])
            if not judgement.is_doubtful:
                self._doubted_at.pop(key, None)
            if judgement.verdict is Verdict.NOTHING:
                self._tell_of_lost_answer(decision)
                return True
            if judgement.verdict is Verdict.WAIT or (judgement.is_doubtful and self._is_doubted(key)):
                self._park(decision, 0)
                return False
            if judgement.verdict is Verdict.LOSS:
                self._on_loss(f"{decision.namespace}/{decision.name}: {judgement.reason}")
                return True
            if judgement.request is not None and judgement.verdict is Verdict.STEP:
                await self._ask(decision, judgement.request)
                if key not in self._give_up and self._judge(decision) == judgement:
                    self._park(decision, 0)  # what has changed the object is on its way
                    return False
                continue
            if judgement.verdict is Verdict.BIND and (lock := self._lock_to_take(decision)):
                if not await self._has_locked(decision, lock):
                    await self._stand_aside(LOOK_PAUSE_S + backoff.next())
                continue  # what was judged may be another thing by now
            if judgement.verdict is Verdict.WITHDRAW:
                following = await self._withdraw(decision, judgement)
            else:
                following = await self._bind(decision, judgement.version)
            if following is Next.DONE:
                return True
            tries += 1
            await self._pause(LOOK_PAUSE_S + backoff.next(), tries)
            newest = await self._look(decision)
            if newest == GONE:
                return True
            seen = self._cluster.book.seen((decision.namespace, decision.name))
            if newest and (seen is None or seen.version < newest):
                self._park(decision, newest)
                return False

    def _judge(self, decision: Decision) -> Judgement:
        cluster = self._cluster
        return judge(
            decision,
            cluster.book,
            cluster.nodes,
            nodes_known=cluster.nodes_known,
            devices=cluster.devices,
            devices_known=cluster.devices_known,
            topologies=Topologies(cluster.topology_of, cluster.topologies_known),
            volumes=None if (decision.uid, decision.attempt) in self._give_up else self._volumes(decision),
            vendors=self._vendors,
        )

    # --- what is handed to device plugins ----------------------------------------------------------------------------

    def _bind_of(self, decision: Decision) -> Bind | None:
        """The bind as vendors see it now; None where nothing is handed off."""
        if not self._vendors:
            return None
        seen = self._cluster.book.pods.get((decision.namespace, decision.name))
        labels = seen.template.labels if seen is not None else {}
        device, time_ns = self._cluster.devices.get(decision.node), int(self._clock.now() * 10**9)
        bind = bind_of(decision, labels, device, self._vendors, time_ns)
        return None if isinstance(bind, Problem) else bind

    def _hand_off(self, decision: Decision) -> HandOff:
        found = handed(self._bind_of(decision), self._cluster.devices.get(decision.node))
        return NOTHING if isinstance(found, Problem) else found

    def _lock_to_take(self, decision: Decision) -> str:
        """The lock under which it has to be bound, and that it has not taken; empty: none."""
        lock = self._hand_off(decision).lock
        return "" if self._locks.has((decision.uid, decision.attempt), (decision.node, lock)) else lock

    async def _has_locked(self, decision: Decision, lock: str) -> bool:
        bind = self._bind_of(decision)
        if bind is None:
            return True
        reason = await self._locks.take((decision.uid, decision.attempt), bind, lock)
        if reason:
            log.debug("a bind waits for the lock of its node", node=decision.node, lock=lock, reason=reason)
        return not reason

    async def _unlock(self, decision: Decision) -> None:
        """The decision is over: its locks are its pod's until the device plugin takes them off, or nobody's."""
        key = (decision.uid, decision.attempt)
        # Its node may have other devices by now: what it took then is not what it would take now.
        locks = {lock for _, lock in self._locks.places_of(key)} | {self._hand_off(decision).lock} - {""}
        if not locks:
            return
        seen = self._cluster.book.seen((decision.namespace, decision.name))
        is_there = seen is not None and seen.uid == decision.uid and seen.node == decision.node
        for lock in sorted(locks):
            if is_there or key in self._bound:
                self._locks.leave(key, (decision.node, lock))
            else:
                await self._locks.free(key, decision, lock)

    def _volumes(self, decision: Decision) -> Volumes:
        """What is known of the decision's volumes. Nothing of the steps of one that is to be given up."""
        cluster, key = self._cluster, (decision.uid, decision.attempt)
        view = View(cluster.storage, cluster.storage_known, cluster.book.pods)
        steps = self._steps.get(key)
        if steps is None and decision.before:
            steps = self._steps[key] = _Steps(self._clock.monotonic())
        waited_s = self._clock.monotonic() - steps.since if steps is not None else 0.0
        asked = steps.asked if steps is not None else {}
        return Volumes(view, cluster.volume_holders, asked, waited_s, self._timeout_s(decision))

    def _timeout_s(self, decision: Decision) -> float:
        """How long its steps may take: what its profile says goes before the writer's own setting."""
        said_s = decision.bind_timeout_s
        return self._volume_timeout_s if said_s is None else max(float(said_s), TIMEOUT_LEAST_S)

    async def _ask(self, decision: Decision, request: Request) -> None:
        """Send the request of a step. Nobody else may have written the object since it was judged."""
        action = decision.before[request.step].action

        async def send() -> Answer:
            return await self._api.patch(request.resource, request.namespace, request.name, request.body)

        answer = await self._repeated(
            send,
            after_bind,
            decision,
            is_still_due=lambda: self._judge(decision).verdict in (Verdict.STEP, Verdict.WAIT),
        )
        following = after_bind(answer)
        metrics.STEPS.labels(action, following.value).inc()
        if following is Next.WITHDRAW:
            self._give_up[decision.uid, decision.attempt] = f"{action} refused: {answer.status} {answer.message}"
        meta = _meta_of(answer)
        steps = self._steps.get((decision.uid, decision.attempt))
        if meta is not None and steps is not None:
            steps.asked[request.step] = int(meta.resource_version)

    def _is_doubted(self, key: Key) -> bool:
        """Whether the end of STATE is still to be reached since a verdict was doubted first."""
        return self._ends <= self._doubted_at.setdefault(key, self._ends)

    async def _bind(self, decision: Decision, version: int) -> Next:
        started = self._clock.monotonic()
        answer = await self._repeated(
            lambda: self._send(decision, version),
            after_bind,
            decision,
            is_still_due=lambda: self._judge(decision).verdict in (Verdict.BIND, Verdict.WAIT),
        )
        metrics.BIND_SECONDS.observe(self._clock.monotonic() - started)
        following = after_bind(answer)
        if following is Next.REPEAT:
            following = Next.LOOK  # judged otherwise by now: whether it has landed is still unknown (R6)
        metrics.BINDS.labels(following.value).inc()
        if following is Next.WITHDRAW:
            self._give_up[decision.uid, decision.attempt] = f"bind refused: {answer.status} {answer.message}"
            return Next.LOOK
        if answer.ok:
            self._bound.add((decision.uid, decision.attempt))
            self._on_landed(decision)
        return following

    async def _send(self, decision: Decision, version: int) -> Answer:
        if decision.kind == "pod":
            # The request is guarded by the version that was judged, so notes that came later refuse it.
            seen = self._cluster.book.pods.get((decision.namespace, decision.name))
            carried = seen.template.annotations if seen is not None else {}
            hand_off = self._hand_off(decision)
            if hand_off.labels and seen is not None and not hand_off.labels.items() <= seen.template.labels.items():
                # A bind carries annotations alone.
                guard = {"uid": decision.uid, "resourceVersion": str(version)}
                noted = await self._api.patch(
                    resources.PODS,
                    decision.namespace,
                    decision.name,
                    {"metadata": {**guard, "labels": {**hand_off.labels}}},
                )
                meta = _meta_of(noted)
                if meta is None:
                    return noted if not noted.ok else Answer(0, reason="UnreadableAnswer")
                version = int(meta.resource_version)
            return await self._api.bind(
                decision.namespace,
                decision.name,
                uid=decision.uid,
                version=str(version),
                node=decision.node,
                annotations={**written_over(decision.annotations, carried), **hand_off.annotations},
            )
        if decision.grows:
            return await self._send_growth(decision, version)
        return await self._send_reservation(decision, version)

    async def _send_growth(self, decision: Decision, version: int) -> Answer:
        """The amounts go first: once the annotation names the plan, the decision stands for nothing more than those."""
        guard = {"uid": decision.uid, "resourceVersion": str(version)}
        more = growing(decision, self._cluster.book.seen((decision.namespace, decision.name)))
        if more:
            grown = await self._api.patch(
                resources.RESERVATIONS,
                "",
                decision.name,
                {"metadata": guard, "status": {"allocatable": format_amounts(more)}},
                subresource="status",
            )
            meta = _meta_of(grown)
            if meta is None:
                return grown if not grown.ok else Answer(0, reason="UnreadableAnswer")
            guard["resourceVersion"] = meta.resource_version
        return await self._api.patch(
            resources.RESERVATIONS, "", decision.name, {"metadata": {**guard, "annotations": decision.annotations}}
        )

    async def _send_reservation(self, decision: Decision, version: int) -> Answer:
        """A Reservation is bound by its status; its annotations go first, since status patches carry none."""
        guard = {"uid": decision.uid, "resourceVersion": str(version)}
        noted = await self._api.patch(
            resources.RESERVATIONS, "", decision.name, {"metadata": {**guard, "annotations": decision.annotations}}
        )
        if not noted.ok:
            return noted
        meta = _meta_of(noted)
        if meta is None:
            return Answer(0, reason="UnreadableAnswer")
        guard["resourceVersion"] = meta.resource_version
        status: dict[str, Any] = {
            "phase": "Available",
            "nodeName": decision.node,
            "allocatable": format_amounts(decision.allocation.amounts),
            "conditions": reservation_conditions(self._clock.now()),
        }
        if taken := owners_after(decision):
            status["currentOwners"] = taken
        return await self._api.patch(
            resources.RESERVATIONS, "", decision.name, {"metadata": guard, "status": status}, subresource="status"
        )

    async def _withdraw(self, decision: Decision, judgement: Judgement) -> Next:
        """R6: only a guarded patch of the object gives a decision up."""
        body = {
            "metadata": {
                "uid": decision.uid,
                "resourceVersion": str(judgement.version),
                "annotations": {names.ANNOTATION_ATTEMPT: str(decision.attempt + 1)},
            }
        }
        resource = resources.PODS if decision.kind == "pod" else resources.RESERVATIONS

        async def send() -> Answer:
            return await self._api.patch(resource, decision.namespace, decision.name, body)

        self._unsure[decision.uid, decision.attempt] = judgement.reason
        answer = await self._repeated(send, after_withdrawal, decision)
        following = after_withdrawal(answer)
        if answer.ok:
            self._tell_withdrawn(decision, judgement.reason)
        return following

    def _tell_of_lost_answer(self, decision: Decision) -> None:
        """The attempt is past, and we have asked for that: the answer may have been lost."""
        reason = self._unsure.get((decision.uid, decision.attempt))
        seen = self._cluster.book.seen((decision.namespace, decision.name))
        if reason is not None and seen is not None and seen.uid == decision.uid and seen.attempt > decision.attempt:
            self._tell_withdrawn(decision, reason)

    def _tell_withdrawn(self, decision: Decision, reason: str) -> None:
        metrics.WITHDRAWN.inc()
        log.info("decision withdrawn", namespace=decision.namespace, name=decision.name, reason=reason)
        self._on_withdrawn(decision, reason)

    async def _repeated(
        self,
        send: Callable[[], Any],
        meaning: Callable[[Answer], Next],
        decision: Decision,
        is_still_due: Callable[[], bool] = lambda: True,
    ) -> Answer:
        """The same request until its outcome is known, or it is not due any more. Unknown is never taken for failed."""
        backoff = Backoff(self._random, cap_s=REPEAT_PAUSE_MAX_S)
        tries = 0
        while True:
            answer: Answer = await send()
            if meaning(answer) is not Next.REPEAT:
                return answer
            tries += 1
            metrics.REPEATS.inc()
            if tries == REPEAT_ALARM_AFTER:
                log.error(
                    "the API server does not carry out a request: it is repeated until its outcome is known",
                    namespace=decision.namespace,
                    name=decision.name,
                    status=answer.status,
                    reason=answer.reason,
                )
            await self._pause(backoff.next(answer.retry_after_s), tries)
            if not is_still_due():
                return answer

    async def _look(self, decision: Decision) -> int:
        """The object's version as the API server has it now; GONE when another one bears its name.

        0 when nobody answers, or says that there is none: only a complete STATE proves that (R4).
        """
        resource = resources.PODS if decision.kind == "pod" else resources.RESERVATIONS
        answer = await self._api.get(resource, decision.namespace, decision.name)
        meta = _meta_of(answer)
        if meta is None:
            await self._clock.sleep(0.2)
            return 0
        return int(meta.resource_version) if meta.uid == decision.uid else GONE

    def _park(self, decision: Decision, version: int) -> None:
        name = (decision.namespace, decision.name)
        self._parked.setdefault(name, {})[decision.uid, decision.attempt] = (decision, version)
        for awaited in self._awaited_by(decision):
            self._awaiting.setdefault(awaited, set()).add(name)

    def _awaited_by(self, decision: Decision) -> Iterator[Awaited]:
        """The claims, volumes and pods that the steps of a decision are about."""
        for step in decision.before:
            if step.pod:
                yield (POD, step.namespace, step.pod)
                continue
            yield (decision.namespace, step.claim)
            claim = self._cluster.storage.claim((decision.namespace, step.claim))
            volume = step.volume or (claim.volume if claim is not None else "")
            if volume:
                yield ("", volume)


class _Steps:
    """The steps of one decision: since when they are looked at, and what their requests have left behind."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.asked: dict[int, int] = {}


def _meta_of(answer: Answer) -> kube.Meta | None:
    """The metadata of the object in an answer; None without a readable one."""
    if not answer.ok:
        return None
    try:
        meta = _META.decode(answer.body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return meta if meta.resource_version.isascii() and meta.resource_version.isdigit() else None


def reservation_conditions(now: float) -> list[dict[str, str]]:
    """The conditions of a Reservation that has just got its node."""
    at = timestamp(now)
    return [
        {"type": kind, "status": "True", "reason": reason, "lastProbeTime": at, "lastTransitionTime": at}
        for kind, reason in (("Scheduled", "Scheduled"), ("Ready", "Available"))
    ]
