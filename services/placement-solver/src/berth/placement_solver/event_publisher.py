"""What the solver publishes: plans that were committed, and pods that go nowhere, each with its reasons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.bus.port import PublisherPort
from berth.contracts import event, names, subjects
from berth.contracts.base import Reason
from berth.contracts.codec import encode
from berth.contracts.command import PatchObject, RefusePod
from berth.contracts.ledger import Decision
from berth.contracts.state import Reservation
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core import explain
from berth.placement_solver.core.plan import Placement
from berth.placement_solver.core.queue import Waiting
from berth.telemetry import emit_span, recording

REPORT_AGAIN_S = 10.0
REPEAT_FIRST_S = 30.0
REPEAT_MAX_S = 300.0
"""A refusal that is not shown after so long is asked for again, each time after twice as long, up to this: its command
was lost with the bus, overtaken, or buried."""
REPEAT_LOOK_S = 5.0
"""A look goes over everything that waits."""
ANNOUNCED_MAX = 2000
"""Most pods named in one event; a larger plan is in the ledger."""
RESERVATION_API = "scheduling.koordinator.sh/v1alpha1/reservations"


class EventPublisher:
    """Events and commands of one solver. `report_after_s`: how long a gang may gather before its pods are reported."""

    def __init__(
        self, cluster: ClusterView, events: PublisherPort, commands: PublisherPort, *, report_after_s: float
    ) -> None:
        self.cluster = cluster
        self._events = events
        self._commands = commands
        self._report_after_s = report_after_s
        self._looked_at = float("-inf")

    async def planned(
        self, plan: str, placed: Sequence[Placement], took_ms: float, bound: event.BatchBound | None = None
    ) -> None:
        """A plan was committed; `bound` where it is known how near to the best it is."""
        message = event.PlacementDecided(
            plan=plan,
            pods=["/".join(placement.candidate.name) for placement in placed[:ANNOUNCED_MAX]],
            nodes=[placement.claim.node for placement in placed[:ANNOUNCED_MAX]],
            gang=_gang(placed),
            took_ms=took_ms,
            solver=self.cluster.me,
            bound=bound,
        )
        subject = subjects.event_subject("placement", "decided", plan)
        await self._events.publish(subject, encode(message), id=f"decided-{plan}", type="placement.decided.v1")

    def bounded(self, plan: str, bound: event.BatchBound) -> None:
        """How near to the best a batch was decided of which not all were placed. No round waits for it: where the bus
        is away for long, it is dropped."""
        message = event.PlacementBounded(plan=plan, bound=bound, solver=self.cluster.me)
        subject = subjects.event_subject("placement", "bounded", plan)
        self._events.offer(subject, encode(message), id=f"bounded-{plan}", type="placement.bounded.v1")

    async def nominated(self, decisions: Sequence[Decision]) -> None:
        """A plan was committed in which pods wait for others to leave; the first of a gang tells who that is."""
        for decision in decisions:
            message = event.PlacementNominated(
                plan=decision.plan,
                namespace=decision.namespace,
                name=decision.name,
                uid=decision.uid,
                node=decision.node,
                reason=decision.eviction_reason,
                victims=decision.victims if decision is decisions[0] else [],
            )
            subject = subjects.event_subject("placement", "nominated", decision.namespace, decision.name)
            marker = f"nominated-{decision.plan}-{decision.uid}"
            await self._events.publish(subject, encode(message), id=marker, type="placement.nominated.v1")

    @staticmethod
    def traced(decisions: Sequence[Decision], now_ms: int) -> None:
        """Record the part of each pod's trace that is the solver's: from seeing it to its committed decision."""
        for decision in decisions:
            if decision.trace and recording(decision.trace):
                attributes = {
                    "k8s.namespace.name": decision.namespace,
                    "k8s.pod.name": decision.name,
                    "k8s.pod.uid": decision.uid,
                    "k8s.node.name": decision.node,
                }
                begin_ns, end_ns = decision.seen_ms * 1_000_000, now_ms * 1_000_000
                emit_span("placement decided", decision.trace, begin_ns, end_ns, attributes)

    async def refused(
        self,
        waiting: Waiting,
        reasons: Sequence[Reason],
        gang: str = "",
        *,
        preemption: str = "",
        patient: bool = False,
    ) -> None:
        """Write the refusal where people look: the pod's condition and an event; only when the message changed.

        Under another attempt it is news, too: an epoch begins when the bus has lost something, commands maybe. So is a
        nomination that the object shows and could not have: to other solvers it holds until it is taken back (E3).
        `preemption` says why nobody leaves for the pod.
        """
        nodes = int(np.count_nonzero(self.cluster.nodes.alive))
        explanation = waiting.explanation
        repair = explanation.repairs[0].message if explanation is not None and explanation.repairs else ""
        waiting.message = explain.message(reasons, nodes, preemption, repair)
        now, plan = self.cluster.now, self._to_let_go(waiting)
        if waiting.message == waiting.shown and not plan:
            return
        is_same = (waiting.message, waiting.object.attempt) == (waiting.reported, waiting.reported_attempt)
        if is_same and plan in ("", waiting.reported_plan) and not waiting.is_overtaken:
            return
        if patient and now - waiting.since < self._report_after_s:
            self.cluster.queue.rest_until(waiting, waiting.since + self._report_after_s)
            return
        if now - waiting.reported_at < REPORT_AGAIN_S and reasons and reasons[0].code != "gang":
            # What the pod shows is out of date until then.
            self.cluster.queue.rest_until(waiting, waiting.reported_at + REPORT_AGAIN_S)
            return
        waiting.reported, waiting.repeats = waiting.message, 0
        marker = await self._ask(waiting)
        namespace, name = waiting.name
        message = event.PlacementUnschedulable(
            namespace=namespace,
            name=name,
            uid=waiting.object.uid,
            message=waiting.message,
            reasons=list(reasons),
            gang=gang,
            forbidden_by=[f"{each.code} {each.what}".rstrip() for each in explanation.forbidden_by]
            if explanation is not None
            else [],
            repair=repair,
        )
        subject = subjects.event_subject("placement", "unschedulable", namespace, name)
        await self._events.publish(subject, encode(message), id=f"e{marker}", type="placement.unschedulable.v1")

    async def stays(self, reservation: Reservation, reason: Reason) -> None:
        """A Reservation that is placed does not get what it asks for beyond what it holds."""
        namespace, name = "", reservation.name
        message = event.PlacementUnschedulable(
            namespace=namespace, name=name, uid=reservation.uid, message=reason.message, reasons=[reason]
        )
        subject = subjects.event_subject("placement", "unschedulable", namespace, name)
        marker = f"estays-{reservation.uid}-{reservation.version}-{self.cluster.now_ms}"
        await self._events.publish(subject, encode(message), id=marker, type="placement.unschedulable.v1")

    async def repeat(self) -> None:
        """Ask again for the refusals that should be shown by now, and are not."""
        now = self.cluster.now
        if now - self._looked_at < REPEAT_LOOK_S:
            return
        self._looked_at = now
        queue = self.cluster.queue
        for waiting in [each for each in queue.waiting.values() if self._is_due(each, now)]:
            # To publish may take its time.
            if queue.waiting.get(waiting.name) is waiting and self._is_due(waiting, now):
                waiting.repeats += 1
                await self._ask(waiting)

    async def _ask(self, waiting: Waiting) -> str:
        """Ask cluster-writer to write the refusal; returns the identity of the command."""
        obj, now_ms = waiting.object, self.cluster.now_ms
        waiting.reported_at = self.cluster.now
        waiting.reported_attempt, waiting.reported_version = obj.attempt, obj.version
        waiting.reported_plan = plan = self._to_let_go(waiting)
        namespace, name = waiting.name
        # The stream drops a second message of the same id: a message that comes back after another is news again.
        marker = f"refused-{obj.uid}-{obj.attempt}-{now_ms}"
        if isinstance(obj, Reservation):
            await self._commands.publish(
                subjects.command_subject("patch", "reservations", name),
                encode(_unplaced(obj, waiting.message, lets_go=bool(plan))),
                id=marker,
                type="object.patch.v1",
            )
        else:
            await self._commands.publish(
                subjects.command_subject("refuse", "pods", namespace, name),
                encode(RefusePod(namespace=namespace, name=name, uid=obj.uid, message=waiting.message, lets_go=plan)),
                id=marker,
                type="pod.refuse.v1",
                traceparent=waiting.trace or None,
            )
        return marker

    def _to_let_go(self, waiting: Waiting) -> str:
        """The plan whose nomination it shows and could not have; empty: none."""
        return self.cluster.capacity.nominated.forgotten(waiting.name)

    def _is_due(self, waiting: Waiting, now: float) -> bool:
        """It has a refusal, which still holds and is not shown whole, and whose time is over."""
        if not waiting.reported or waiting.message != waiting.reported:
            return False
        if waiting.shown == waiting.reported and not self._to_let_go(waiting):
            return False
        return now - waiting.reported_at >= min(REPEAT_FIRST_S * 2.0 ** min(waiting.repeats, 16), REPEAT_MAX_S)


def _gang(placements: Sequence[Placement]) -> str:
    gangs: set[str] = {placement.gang.name for placement in placements if placement.gang}
    return ";".join(sorted(gangs))


def _unplaced(reservation: Reservation, message: str, *, lets_go: bool) -> PatchObject:
    condition = {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return PatchObject(
        api=RESERVATION_API,
        name=reservation.name,
        uid=reservation.uid,
        version=str(reservation.version),
        annotations={names.ANNOTATION_NOMINATED: None} if lets_go else {},
        status={"phase": "Pending", "conditions": [condition]},
    )
