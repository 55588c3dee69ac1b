"""What the writer publishes: events of placement, and the Kubernetes Events beside them."""

from __future__ import annotations

from berth.bus.port import PublisherPort
from berth.cluster_writer import metrics
from berth.cluster_writer.outbox import Note, Outbox
from berth.contracts import event, subjects
from berth.contracts.codec import encode
from berth.contracts.grants import as_devices, granted
from berth.contracts.ledger import Decision
from berth.contracts.state import Pod, Reservation
from berth.kube.bodies import ObjectRef
from berth.runtime.clock import Clock
from berth.telemetry.tracing import emit_span

RECENT_MS = 110_000
"""Binds found at start are published again when this young: the stream still knows their id and keeps one."""


def ended_id(uid: str) -> str:
    """Identity of the event: a pod is bound once, so its placement ends once."""
    return f"ended-{uid}"


class EventPublisher:
    """Callbacks of the view and the binds, turned into events. Never blocks; what does not fit is counted."""

    def __init__(self, events: PublisherPort, outbox: Outbox, clock: Clock) -> None:
        self._events = events
        self._outbox = outbox
        self._clock = clock
        self.dropped = 0
        self.pods_bound = 0
        """Pods seen bound under a plan of ours since the start."""

    def bound(self, obj: Pod | Reservation, decision: Decision | None, is_news: bool) -> None:
        """STATE shows an object bound under a plan of ours."""
        now_ms = int(self._clock.now() * 1000)
        if not is_news and (decision is None or now_ms - decision.decided_ms > RECENT_MS):
            return
        if isinstance(obj, Reservation):
            return
        latency_ms = float(now_ms - decision.seen_ms) if decision and decision.seen_ms else 0.0
        metrics.BOUND.inc()
        self.pods_bound += 1
        if latency_ms > 0:
            metrics.LATENCY_SECONDS.observe(latency_ms / 1000)
        grants = granted(decision.allocation) if decision else ()
        message = event.PlacementBound(
            namespace=obj.namespace,
            name=obj.name,
            uid=obj.uid,
            node=obj.node,
            plan=obj.plan,
            devices=as_devices(grants),
            grants=list(grants),
            quota=decision.quota if decision else "",
            reservation=decision.reservation if decision else "",
            gang=decision.gang.name if decision and decision.gang else "",
            latency_ms=latency_ms,
        )
        trace = (decision.trace or None) if decision else None
        self._offer("bound", (obj.namespace, obj.name), message, f"bound-{obj.uid}-{obj.plan}", trace)
        if trace and decision:
            attributes = {
                "k8s.namespace.name": obj.namespace,
                "k8s.pod.name": obj.name,
                "k8s.pod.uid": obj.uid,
                "k8s.node.name": obj.node,
                "berth.plan": obj.plan,
            }
            emit_span("placement bound", trace, decision.decided_ms * 1_000_000, now_ms * 1_000_000, attributes)

    def ended(self, pod: Pod, reason: str) -> None:
        """A pod that was bound under a plan of ours has ended, or is gone."""
        message = event.PlacementEnded(
            namespace=pod.namespace, name=pod.name, uid=pod.uid, node=pod.node, plan=pod.plan, reason=reason
        )
        self._offer("ended", (pod.namespace, pod.name), message, ended_id(pod.uid), None)

    def landed(self, decision: Decision) -> None:
        """A bind was accepted."""
        if decision.kind == "pod":
            about = ObjectRef("v1", "Pod", decision.namespace, decision.name, decision.uid)
            text = f"Successfully assigned {decision.namespace}/{decision.name} to {decision.node}"
            self._outbox.put(Note(about, "Scheduled", text, action="Binding"))

    def withdrawn(self, decision: Decision, reason: str) -> None:
        """A decision was given up."""
        message = event.PlacementFailed(
            namespace=decision.namespace,
            name=decision.name,
            uid=decision.uid,
            node=decision.node,
            plan=decision.plan,
            attempt=decision.attempt + 1,
            reason=reason,
        )
        marker = f"failed-{decision.uid}-{decision.attempt}"
        self._offer("failed", (decision.namespace, decision.name), message, marker, decision.trace or None)

    def raised(self, epoch: int, reason: str) -> None:
        """A new epoch has begun."""
        subject = subjects.event_subject("epoch", "raised", str(epoch))
        message = encode(event.EpochRaised(epoch=epoch, reason=reason))
        if not self._events.offer(subject, message, id=f"epoch-{epoch}", type="epoch.raised.v1"):
            self.dropped += 1

    def _offer(self, verb: str, ids: tuple[str, str], message: event.Event, marker: str, trace: str | None) -> None:
        subject = subjects.event_subject("placement", verb, *ids)
        kind = str(type(message).__struct_config__.tag)
        if not self._events.offer(subject, encode(message), id=marker, type=kind, traceparent=trace):
            self.dropped += 1
