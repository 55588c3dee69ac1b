"""Carrying out nominations: note, mark, look, ask, delete, spare, let go (docs/evictions.md), one step at a time.

Each turn judges every nomination that was begun on the view as it is, and sends what follows. Every request names the
uid and the version that was judged, so it lands once or is refused; what is unknown is judged again when the view has
moved. Nothing is remembered that STATE and LEDGER do not show, but for what was sent and is not shown yet, and for what
the API server refuses: the next leader goes on where the marks stand.
"""

from __future__ import annotations

import asyncio
import random as randomness
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Protocol

from berth.bus.errors import BusError
from berth.bus.port import LedgerPort
from berth.cluster_writer import metrics
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.core import evictions, revocations
from berth.cluster_writer.core.capacity import held_beside, shortage
from berth.cluster_writer.core.eviction_answers import Heed
from berth.cluster_writer.core.evictions import EvictionStep, Outlook, Stage
from berth.cluster_writer.core.fitness import unfit
from berth.cluster_writer.core.unused_notes import UnusedNotes
from berth.cluster_writer.core.victims import goes_on, leaving_together, strict_gang_of, wait_s_of, why_stays
from berth.cluster_writer.core.waves import loss
from berth.cluster_writer.displaced_gangs import DisplacedGangs
from berth.cluster_writer.eviction_look import Look
from berth.cluster_writer.eviction_requests import EvictionRequests, Outcome, namespace_of
from berth.cluster_writer.letting_go import LettingGo
from berth.contracts import names
from berth.contracts.grants import granted
from berth.contracts.ledger import Decision
from berth.contracts.state import Pod, Reservation
from berth.kube.api import KubeApi
from berth.kube.bodies import timestamp
from berth.kube.lease import KubeLease
from berth.rules.eviction_notes import (
    ANYBODY,
    Mark,
    Nominated,
    let_go_note,
    mark_note,
    name_of,
    nomination_note,
    refusal_note,
)
from berth.rules.preemption import BY_HAND_OVER, BY_OWNER, BY_QUOTA, BY_SCHEDULER, REASONS
from berth.rules.reservation_operating import current_owner_note
from berth.runtime.clock import Clock
from berth.telemetry import get_logger
from berth.transaction.revocations import is_revocation

log = get_logger(__name__)

IDLE_S: Final = 1.0
TURN_PAUSE_S: Final = 0.05
IN_FLIGHT_MAX: Final = 50
"""Victims that are leaving at once."""
ON_NODE_MAX: Final = 10
"""Of those on one node."""
DISRUPTION: Final = "DisruptionTarget"
DISRUPTION_MESSAGES: Final = {
    BY_SCHEDULER: "berth-scheduler: preempting to accommodate a higher priority pod",
    BY_QUOTA: "berth-scheduler: reclaiming quota of its group",
    BY_OWNER: "berth-scheduler: preempting to accommodate an owner of a reservation",
    BY_HAND_OVER: "berth-scheduler: handing over to an owner of the reservation that the pod stands for",
}
"""By the reason of the condition."""


class EvictionEvents(Protocol):
    """Who publishes what came of evictions."""

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
        random: randomness.Random,
        events: EvictionEvents,
    ) -> None:
        self._cluster = cluster
        self._lease = lease
        self._clock = clock
        self._events = events
        self._requests = EvictionRequests(api, cluster.book, clock, random)
        self._look = Look(cluster, api, ledger, lease)
        self._displaced = DisplacedGangs(cluster, api)
        self._letting_go = LettingGo(cluster.book, clock)
        self._begun: dict[str, int] = {}
        self._deleted: dict[str, str] = {}
        self._refusals: dict[str, dict[str, str]] = {}
        self._free_since: dict[str, float] = {}
        self._unused = UnusedNotes()
        self._ends = 0
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, decision: Decision) -> None:
        """Carry out a nomination of a plan that the Lease names; one that is being carried out goes on as it is."""
        self._begun.setdefault(decision.plan, self._ends)
        self._wake.set()

    @property
    def letting_go(self) -> frozenset[str]:
        """The uids of those whose attempt is being raised, which STATE does not show yet."""
        return self._letting_go.uids()

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
        for uid in self._requests.forget_shown():
            self._deleted.pop(uid, None)
        for plan in list(self._begun):
            step = self._judge(plan)
            if step.stage is Stage.OVER:
                del self._begun[plan]
            elif not (step.is_doubtful and self._ends <= self._begun[plan]):
                await self._act(plan, step)
        self._refusals = {plan: why for plan, why in self._refusals.items() if plan in self._begun}
        self._free_since = {plan: since for plan, since in self._free_since.items() if plan in self._begun}
        record = self._lease.record
        # While LEDGER is being read again, a nomination that is not shown may be there.
        if record is not None and not loss(book.ledger, record.epoch, record.plan):
            for pod, mark, reason in list(evictions.to_spare(book)):
                await self._spare(pod, mark, reason)
            for each in self._unused.due(book, self._clock.monotonic()):
                await self._let_go(each.seen, each.plan, None, each.reason)
        for each in list(evictions.to_let_go(book, self._clock.now())):
            await self._let_go(each.seen, each.plan, None, each.reason, (each.victim,))

    def _judge(self, plan: str) -> EvictionStep:
        cluster = self._cluster
        members = evictions.members_of(plan, cluster.book)
        if not members:
            return EvictionStep(Stage.OVER)
        monotonic_s = self._clock.monotonic()
        chosen = {victim.uid for victim in members[0].victims}
        refusals = self._refusals.get(plan, {})

        def stays(victim: Pod, leaving: Collection[str] = chosen) -> str:
            return why_stays(victim, leaving, cluster.pod_groups, cluster.running_gangs)

        if is_revocation(members[0]):
            return revocations.next_step(members[0], cluster.book, stays, refusals, is_read=cluster.is_read)
        if evictions.is_free(members, cluster.book):
            self._free_since.setdefault(plan, monotonic_s)
        else:
            self._free_since.pop(plan, None)
        outlook = Outlook(
            is_read=cluster.is_read,
            why_unfit=self._why_unfit,
            why_stays=stays,
            refusals=refusals,
            free_for_s=monotonic_s - self._free_since.get(plan, monotonic_s),
            wait_s=wait_s_of(members, cluster.book, cluster.pod_groups),
            goes_on=lambda current: goes_on(current, cluster.book, cluster.pod_groups, cluster.running_gangs),
        )
        return evictions.next_step(members, cluster.book, outlook, self._clock.now())

    def _why_unfit(self, decision: Decision, seen: Pod | Reservation) -> str:
        cluster = self._cluster
        node = cluster.nodes.get(decision.node)
        if node is None or node.deleting:
            return f"node {decision.node} is gone"
        device = cluster.devices.get(decision.node)
        held = held_beside(decision, seen.template.priority, cluster.book)
        return unfit(decision, seen.template, node, device) or shortage(decision, held, node, device)

    async def _act(self, plan: str, step: EvictionStep) -> None:
        match step.stage:
            case Stage.NOTE:
                for decision in step.beneficiaries:
                    await self._note(decision)
            case Stage.MARK:
                await self._mark(step.victims, evictions.mark_of(step.beneficiaries[0]))
            case Stage.EVICT:
                await self._evict(plan, step.victims, evictions.mark_of(step.beneficiaries[0]))
            case Stage.GIVE_UP:
                for decision in step.beneficiaries:
                    seen = self._cluster.book.seen((decision.namespace, decision.name))
                    # The view has moved while the others of its gang were patched.
                    if seen is not None and evictions.is_current(self._cluster.book, decision):
                        await self._let_go(seen, plan, decision, step.reason, step.refused)

    # --- the beneficiary ---------------------------------------------------------------------------------------------

    async def _note(self, decision: Decision) -> None:
        """E3: the nomination becomes a part of the beneficiary, its status last, since a note counts only with both."""
        seen = self._cluster.book.seen((decision.namespace, decision.name))
        if seen is None or self._requests.is_held(seen):
            return
        note = nomination_note(Nominated(decision.plan, decision.node, list(granted(decision.allocation))))
        outcome = Outcome(Heed.DONE, str(seen.version))
        annotations = seen.template.annotations if isinstance(seen, Pod) else seen.annotations
        if annotations.get(names.ANNOTATION_NOMINATED) != note[names.ANNOTATION_NOMINATED]:
            outcome = await self._requests.patch(seen, {"annotations": note}, str(seen.version))
        if outcome.heed is Heed.DONE and isinstance(seen, Pod):
            outcome = await self._requests.patch(seen, {}, outcome.version, {"nominatedNodeName": decision.node})
        if outcome.heed is Heed.REFUSED:
            why = f"its nomination cannot be noted: {outcome.message}"
            self._refusals.setdefault(decision.plan, {})[decision.uid] = why
            self._requests.release(seen)
            self._wake.set()

    async def _let_go(
        self,
        seen: Pod | Reservation,
        plan: str,
        decision: Decision | None,
        reason: str,
        refused: Iterable[str] = (),
    ) -> None:
        """E7: one guarded patch raises the attempt, takes the note back, lists the plan, and who was refused."""
        if self._requests.is_held(seen):
            return
        annotations = seen.template.annotations if isinstance(seen, Pod) else seen.annotations
        notes: dict[str, str | None] = {
            names.ANNOTATION_ATTEMPT: str(seen.attempt + 1),
            names.ANNOTATION_NOMINATED: None,
            **let_go_note(annotations, plan),
            **refusal_note(annotations, refused, self._clock.now()),
        }
        self._letting_go.asked(seen)
        outcome = await self._requests.patch(seen, {"annotations": notes}, str(seen.version))
        if outcome.heed not in (Heed.DONE, Heed.REPEAT):
            self._letting_go.failed(seen)
        if outcome.heed is not Heed.DONE:
            return
        metrics.NOMINATIONS_GIVEN_UP.inc()
        log.info("a nomination was given up", namespace=namespace_of(seen), name=seen.name, plan=plan, reason=reason)
        self._events.given_up(seen, plan, decision, reason)
        if isinstance(seen, Pod) and seen.nominated:
            await self._requests.patch(seen, {}, outcome.version, {"nominatedNodeName": None})

    # --- victims -----------------------------------------------------------------------------------------------------

    async def _mark(self, victims: Iterable[Pod], mark: Mark) -> None:
        """In the order given: a later one is not marked before the ones before it are."""
        for victim in victims:
            if self._requests.is_held(victim):
                return
            outcome = await self._requests.patch(victim, {"annotations": _marking(mark)}, str(victim.version))
            if outcome.heed is Heed.DONE:
                metrics.EVICTIONS.labels("marked").inc()
                self._events.marked(victim, mark)
            else:
                self._is_refusal(victim, mark, outcome)
                return

    async def _evict(self, plan: str, victims: tuple[Pod, ...], mark: Mark) -> None:
        """E4, E8: look, ask, then delete all of them, if so many may leave at once."""
        if any(self._requests.is_held(victim) for victim in victims) or not self._is_within_bounds(victims):
            return
        if not await self._look.is_right(plan):
            return
        versions: dict[str, str] = {}
        for victim in victims:
            outcome = await self._condition(victim, mark.reason)
            if outcome.heed is not Heed.DONE:
                self._is_refusal(victim, mark, outcome)
                return
            versions[victim.uid] = outcome.version
        if not await self._may_delete(victims, versions, mark):
            return
        for together in leaving_together(victims, self._cluster.pod_groups):
            # What the view has shown meanwhile counts as well.
            step = self._judge(plan)
            due = {each.uid for each in step.victims} if step.stage is Stage.EVICT else set()
            if any(victim.uid not in due for victim in together) or not await self._is_noted(together, step, plan):
                return
            if not await self._look.is_right(plan):
                return
            # Whoever of a gang cannot be deleted now is looked at again; the others do not wait for it.
            gone = [await self._delete(victim, versions[victim.uid], mark) for victim in together]
            if not all(gone):
                return

    async def _is_noted(self, together: Sequence[Pod], step: EvictionStep, plan: str) -> bool:
        """A strict gang that leaves whole: its PodGroup says so first."""
        config = strict_gang_of(together[0], self._cluster.pod_groups)
        if config is None:
            return True
        leaving = {victim.uid for victim in step.victims}
        if any(member.uid not in leaving for member in self._cluster.running_gangs.staying(config.id)):
            return True
        return await self._displaced.note(config.id, plan)

    def _is_within_bounds(self, victims: tuple[Pod, ...]) -> bool:
        leaving = evictions.in_flight(self._cluster.book)
        for node in (*self._deleted.values(), *(victim.node for victim in victims)):
            leaving[node] = leaving.get(node, 0) + 1
        # A plan that is larger than the bounds goes alone.
        is_alone = sum(leaving.values()) == len(victims)
        return is_alone or (sum(leaving.values()) <= IN_FLIGHT_MAX and max(leaving.values()) <= ON_NODE_MAX)

    async def _condition(self, victim: Pod, reason: str) -> Outcome:
        """Its status says why, before it goes; the version that the deletion names carries mark and condition."""
        if victim.disruption == reason:
            return Outcome(Heed.DONE, str(victim.version))
        condition = self._disruption("True", reason, DISRUPTION_MESSAGES[reason])
        return await self._requests.patch(victim, {}, str(victim.version), {"conditions": [condition]})

    async def _may_delete(self, victims: tuple[Pod, ...], versions: dict[str, str], mark: Mark) -> bool:
        """Ask the API server about all of them, so that nobody dies where another may not be deleted."""
        is_allowed = True
        for victim in victims:
            outcome = await self._requests.delete(victim, versions[victim.uid], mark.reason, dry_run=True)
            if outcome.heed is not Heed.DONE:
                is_allowed = False
                if not self._is_refusal(victim, mark, outcome) or outcome.lacks_right:
                    break
        return is_allowed

    async def _delete(self, victim: Pod, version: str, mark: Mark) -> bool:
        outcome = await self._requests.delete(victim, version, mark.reason)
        if outcome.heed is Heed.DONE:
            if self._requests.is_awaited(victim):
                self._deleted[victim.uid] = victim.node
            metrics.EVICTIONS.labels("sent").inc()
            self._events.sent(victim, mark)
            return True
        self._is_refusal(victim, mark, outcome)
        return False

    async def _spare(self, victim: Pod, mark: Mark, reason: str) -> None:
        """E5. The condition first: what still carries the mark is found again."""
        if self._requests.is_held(victim):
            return
        version = str(victim.version)
        if victim.disruption in REASONS:
            condition = self._disruption("False", None, None)
            outcome = await self._requests.patch(victim, {}, version, {"conditions": [condition]})
            if outcome.heed is not Heed.DONE and outcome.heed is not Heed.REFUSED:
                return
            version = outcome.version or version
        notes = dict.fromkeys(_marking(mark))
        outcome = await self._requests.patch(victim, {"annotations": notes}, version)
        if outcome.heed is Heed.DONE:
            metrics.EVICTIONS.labels("spared").inc()
            self._events.spared(victim, mark, reason)

    def _disruption(self, status: str, reason: str | None, message: str | None) -> dict[str, Any]:
        """The condition; None takes a field of it away."""
        return {
            "type": DISRUPTION,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(self._clock.now()),
        }

    # --- refusals ----------------------------------------------------------------------------------------------------

    def _is_refusal(self, victim: Pod, mark: Mark, outcome: Outcome) -> bool:
        """Whether the API server has refused it; then the plan is given up (E7)."""
        if outcome.heed is not Heed.REFUSED:
            return False
        why = f"{victim.namespace}/{victim.name} may not be evicted: {outcome.message}"
        self._refusals.setdefault(mark.plan, {})[ANYBODY if outcome.lacks_right else victim.uid] = why
        metrics.EVICTIONS.labels("refused").inc()
        self._events.refused(victim, mark, outcome.message)
        if outcome.lacks_right:
            log.error("nobody can be evicted", reason=outcome.message)
        self._wake.set()
        return True


def _marking(mark: Mark) -> dict[str, str]:
    """What is noted on a victim: its mark, and on a placeholder that hands over to whom."""
    notes = mark_note(mark)
    if mark.reason == BY_HAND_OVER:
        beneficiary = name_of(mark)
        notes |= current_owner_note(beneficiary.namespace, beneficiary.name, mark.uid)
    return notes
