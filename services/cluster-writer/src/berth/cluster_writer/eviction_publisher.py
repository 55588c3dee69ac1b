"""What the writer publishes of evictions: events, and the Kubernetes Event that a victim's owner sees."""

from __future__ import annotations

from berth.bus.port import PublisherPort
from berth.cluster_writer.outbox import Note, Outbox
from berth.contracts import event, subjects
from berth.contracts.codec import encode
from berth.contracts.command import EvictPod
from berth.contracts.ledger import Decision
from berth.contracts.state import Pod, Reservation
from berth.kube.bodies import ObjectRef
from berth.rules.eviction_notes import Mark, name_of
from berth.rules.node_evictions.notes import NODE
from berth.transaction.revocations import group_of


class EvictionPublisher:
    """See `EvictionEvents`. Never blocks; what does not fit is counted."""

    def __init__(self, events: PublisherPort, outbox: Outbox) -> None:
        self._events = events
        self._outbox = outbox
        self.dropped = 0

    def marked(self, victim: Pod, mark: Mark) -> None:
        """A victim carries its mark."""
        subject = subjects.event_subject("eviction", "marked", victim.namespace, victim.name)
        self._offer(subject, event.EvictionMarked(**_about(victim, mark)), f"marked-{victim.uid}-{mark.plan}")

    def sent(self, victim: Pod, mark: Mark) -> None:
        """A victim was deleted."""
        subject = subjects.event_subject("eviction", "sent", victim.namespace, victim.name)
        self._offer(subject, event.EvictionSent(**_about(victim, mark)), f"sent-{victim.uid}-{mark.plan}")
        about = ObjectRef("v1", "Pod", victim.namespace, victim.name, victim.uid)
        group = group_of(name_of(mark))
        text = f"Preempted by {_beneficiary(mark)} on node {victim.node}"
        if group is not None:
            text = f"Revoked on node {victim.node}: quota group {group[1]} has used more than its runtime for too long"
        self._outbox.put(Note(about, "Preempted" if group is None else "Revoked", text))

    def refused(self, victim: Pod, mark: Mark, message: str) -> None:
        """A victim may not be marked or deleted."""
        subject = subjects.event_subject("eviction", "refused", victim.namespace, victim.name)
        refused = event.EvictionRefused(**_about(victim, mark), message=message)
        self._offer(subject, refused, f"refused-{victim.uid}-{mark.plan}")
        about = ObjectRef("v1", "Pod", victim.namespace, victim.name, victim.uid)
        group = group_of(name_of(mark))
        what = f"Preemption by {_beneficiary(mark)}" if group is None else f"Revocation by quota group {group[1]}"
        text = f"{what} is refused: {message}"
        self._outbox.put(Note(about, "PreemptionRefused", text, warning=True, action="Preempting"))

    def spared(self, victim: Pod, mark: Mark, message: str) -> None:
        """A mark was taken back."""
        subject = subjects.event_subject("eviction", "spared", victim.namespace, victim.name)
        spared = event.EvictionSpared(**_about(victim, mark), message=message)
        self._offer(subject, spared, f"spared-{victim.uid}-{mark.plan}")

    def left_for_node(self, command: EvictPod) -> None:
        """A pod was evicted for its node's sake."""
        subject = subjects.event_subject("eviction", "sent", command.namespace, command.name)
        self._offer(
            subject,
            event.EvictionSent(**_about_node(command), message=_why(command)),
            f"sent-{command.uid}-{command.revision}",
        )
        text = f"Evicted from node {command.node}: {_why(command)}"
        about = ObjectRef("v1", "Pod", command.namespace, command.name, command.uid)
        self._outbox.put(Note(about, "EvictedByNode", text, warning=True, action="Evicting"))

    def stays_on_node(self, command: EvictPod, message: str) -> None:
        """A pod was to be evicted for its node's sake, and stays."""
        subject = subjects.event_subject("eviction", "refused", command.namespace, command.name)
        refused = event.EvictionRefused(**_about_node(command), message=message)
        self._offer(subject, refused, f"refused-{command.uid}-{command.revision}")
        about = ObjectRef("v1", "Pod", command.namespace, command.name, command.uid)
        text = f"Not evicted from node {command.node} ({_why(command)}): {message}"
        self._outbox.put(Note(about, "EvictionRefused", text, warning=True, action="Evicting"))

    def given_up(self, pod: Pod | Reservation, plan: str, decision: Decision | None, reason: str) -> None:
        """A beneficiary let its plan go."""
        namespace = pod.namespace if isinstance(pod, Pod) else ""
        subject = subjects.event_subject("nomination", "withdrawn", namespace, pod.name)
        withdrawn = event.NominationWithdrawn(
            plan=plan,
            namespace=namespace,
            name=pod.name,
            uid=pod.uid,
            node=decision.node if decision is not None else "",
            attempt=pod.attempt + 1,
            reason=reason,
            victims=decision.victims if decision is not None else [],
        )
        self._offer(subject, withdrawn, f"withdrawn-{pod.uid}-{plan}")
        if isinstance(pod, Pod):
            about = ObjectRef("v1", "Pod", namespace, pod.name, pod.uid)
            text = f"Preemption was given up: {reason}"
            self._outbox.put(Note(about, "PreemptionGivenUp", text, warning=True, action="Preempting"))

    def _offer(self, subject: str, message: event.Event, marker: str) -> None:
        kind = str(type(message).__struct_config__.tag)
        if not self._events.offer(subject, encode(message), id=marker, type=kind):
            self.dropped += 1


def _why(command: EvictPod) -> str:
    note = command.note
    return command.reason if note is None else f"{note.message or command.reason} ({note.feature})"


def _about_node(command: EvictPod) -> dict[str, str]:
    """The node stands in the place of a beneficiary, and the need in that of a plan."""
    return {
        "namespace": command.namespace,
        "name": command.name,
        "uid": command.uid,
        "node": command.node,
        "plan": command.note.need if command.note is not None else "",
        "beneficiary": f"/{NODE}{command.node}",
        "beneficiary_uid": "",
        "reason": command.reason,
    }


def _beneficiary(mark: Mark) -> str:
    """As kube-scheduler calls a pod; a Reservation by its name."""
    beneficiary = name_of(mark)
    return f"pod {mark.uid}" if beneficiary.namespace else f"reservation {beneficiary.name}"


def _about(victim: Pod, mark: Mark) -> dict[str, str]:
    return {
        "namespace": victim.namespace,
        "name": victim.name,
        "uid": victim.uid,
        "node": victim.node,
        "plan": mark.plan,
        "beneficiary": mark.beneficiary,
        "beneficiary_uid": mark.uid,
        "reason": mark.reason,
    }
