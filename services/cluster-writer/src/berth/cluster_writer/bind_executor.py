"""Carrying out decisions: judge, send, read the answer, until each is over. Many at once, each alone in order.

A decision that has been begun is never dropped here: it ends bound, gone or withdrawn. What has to wait for the view
is parked under its name and judged again when the view has moved. A verdict that a late view could be the cause of
waits until the end of STATE was reached once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from berth.cluster_writer import metrics
from berth.cluster_writer.bind_requests import BindRequests, meta_of
from berth.cluster_writer.cluster_view import ClusterView, StorageKey
from berth.cluster_writer.core.answers import Next, after_bind, after_withdrawal
from berth.cluster_writer.core.handing import OFF
from berth.cluster_writer.core.judge import Judgement, Topologies, Verdict, judge
from berth.cluster_writer.core.progress import Request
from berth.cluster_writer.core.steps import TIMEOUT_S
from berth.cluster_writer.hand_offs import HandOffs
from berth.cluster_writer.steps_under_way import POD, Awaited, Key, StepsUnderWay
from berth.contracts import names
from berth.contracts.ledger import Decision
from berth.kube import resources
from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.kube.backoff import Backoff
from berth.runtime.clock import Clock
from berth.telemetry import get_logger
from berth.transaction.claims import Name

log = get_logger(__name__)

GONE = -1
REPEAT_ALARM_AFTER = 5
"""So many tries in vain are logged, and from then on others are let in during the pauses: what stands in the way may be
this object's alone, as a namespace that is being terminated or a webhook that is down."""
REPEAT_PAUSE_MAX_S = 5.0
"""A server that has come to itself again is not kept waiting for long: nobody else sends this request."""
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
        self._vendors = vendors
        self._hand_offs = HandOffs(cluster, api, clock, vendors)
        self._requests = BindRequests(cluster, api, clock, self._hand_offs)
        self._steps = StepsUnderWay(cluster, clock, volume_timeout_s)
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
            for decision in self._steps.late(self._open):
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
            await self._hand_offs.unlock(decision, is_bound=(decision.uid, decision.attempt) in self._bound)
        self._places.release()
        if over:
            for awaited in self._steps.awaited_by(decision):
                waiting = self._awaiting.get(awaited, set())
                waiting.discard((decision.namespace, decision.name))
                if not waiting:
                    self._awaiting.pop(awaited, None)
            for book in (self._open, self._give_up, self._unsure, self._doubted_at):
                book.pop((decision.uid, decision.attempt), None)
            self._steps.forget((decision.uid, decision.attempt))
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
            if judgement.verdict is Verdict.BIND and (lock := self._hand_offs.lock_to_take(decision)):
                if not await self._hand_offs.has_locked(decision, lock):
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
            volumes=None if (decision.uid, decision.attempt) in self._give_up else self._steps.volumes(decision),
            vendors=self._vendors,
        )

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
        meta = meta_of(answer)
        if meta is not None:
            self._steps.left(decision, request.step, int(meta.resource_version))

    def _is_doubted(self, key: Key) -> bool:
        """Whether the end of STATE is still to be reached since a verdict was doubted first."""
        return self._ends <= self._doubted_at.setdefault(key, self._ends)

    async def _bind(self, decision: Decision, version: int) -> Next:
        started = self._clock.monotonic()
        answer = await self._repeated(
            lambda: self._requests.send(decision, version),
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
        meta = meta_of(answer)
        if meta is None:
            await self._clock.sleep(0.2)
            return 0
        return int(meta.resource_version) if meta.uid == decision.uid else GONE

    def _park(self, decision: Decision, version: int) -> None:
        name = (decision.namespace, decision.name)
        self._parked.setdefault(name, {})[decision.uid, decision.attempt] = (decision, version)
        for awaited in self._steps.awaited_by(decision):
            self._awaiting.setdefault(awaited, set()).add(name)
