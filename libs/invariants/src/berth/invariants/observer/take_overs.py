"""Reservations that take over pods that run: each pod by one, which it matches and fits into, and noted before that
Reservation is Available (I30b)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.contracts import names
from berth.contracts.ledger import Decision, Step
from berth.invariants.counts import Excuse
from berth.invariants.facts import read_reservation_uid
from berth.invariants.observer.decided import Decided
from berth.invariants.observer.pods import Watched, version_of
from berth.invariants.observer.reserved_terms import overdrawn, terms_of, unmet
from berth.invariants.observer.verdicts import Verdicts
from berth.invariants.reservations import may_be_taken
from berth.rules.reservation_fit import RESTRICTED
from berth.rules.reservation_owners import PodIdentity
from berth.rules.reservation_take_over import TAKE_OVER

PROMISE: Final = "I30b"
Name = tuple[str, str]


class TakeOvers:
    """What each Reservation takes over by its newest decision."""

    def __init__(
        self,
        verdicts: Verdicts,
        decided: Decided,
        pods: Mapping[Name, Watched],
        objects: Mapping[str, Mapping[Name, Mapping[str, Any]]],
    ) -> None:
        """`pods` as far as promises look at them, `objects` of every kind as they are."""
        self._verdicts = verdicts
        self._decided = decided
        self._pods = pods
        self._pod_objects = objects["pods"]
        self._objects = objects["reservations"]
        self._of: dict[str, tuple[Decision, frozenset[str]]] = {}

    def see(self, now: Watched, *, is_gone: bool) -> None:
        """A Reservation as it is now: what was decided before it was withdrawn, ended or deleted is over."""
        known = self._of.get(now.name[1])
        if known is None:
            return
        decision = known[0]
        if is_gone or now.has_ended or now.uid != decision.uid or now.attempt > decision.attempt:
            del self._of[now.name[1]]

    def decided(self, decision: Decision) -> None:
        """A Reservation is about to take over pods."""
        if decision.kind != "reservation":
            return
        steps = list(taken_by(decision))
        self._of.pop(decision.name, None)
        data = self._objects.get(("", decision.name))
        if data is None or data["metadata"].get("uid") != decision.uid:
            return
        spec, subject = data.get("spec") or {}, f"reservation {decision.name}, plan {decision.plan}"
        labels = data["metadata"].get("labels") or {}
        if steps:
            self._verdicts.judged(PROMISE)
            if not spec.get("preAllocation") or spec.get("allocatePolicy") != RESTRICTED:
                self._add(subject, f"reservation {decision.name} takes over pods and may not")
        elif spec.get("preAllocation") and labels.get(names.LABEL_PRE_ALLOCATION_REQUIRED) == "true":
            self._add(subject, f"reservation {decision.name} takes over nobody, and has to")
        self._of[decision.name] = decision, frozenset(step.pod_uid for step in steps)
        for step in steps:
            self._judge_alone(decision, step, subject)
        self._judge_amounts(decision, steps, data, subject)

    def placed(self, now: Watched) -> None:
        """A Reservation is Available: whom it takes over and who is there still notes it."""
        record = self._decided.by_uid.get(now.uid, {}).get(now.plan)
        if record is None:
            return
        for step in taken_by(record.decision):
            pod = self._pods.get((step.namespace, step.pod))
            if pod is None or pod.uid != step.pod_uid or pod.has_ended:
                continue
            self._verdicts.judged(PROMISE)
            if read_reservation_uid(pod.annotations) != now.uid:
                self._add(
                    f"{now.text}, {pod.text}", f"{now.text} is there, and {pod.text}, taken over, does not note it"
                )

    def _judge_alone(self, decision: Decision, step: Step, subject: str) -> None:
        """One pod: it is there, nobody else takes it, and it matches."""
        pod = self._pods.get((step.namespace, step.pod))
        if pod is None or pod.uid != step.pod_uid or pod.has_ended:
            return  # whether it is there cluster-writer looks, before anything is written
        if pod.node != decision.node:
            self._add(subject, f"reservation {decision.name} takes over {pod.text} of {pod.node} on {decision.node}")
        doubt = self._decided.doubt
        for name, (other, taken) in self._of.items():
            if name == decision.name or step.pod_uid not in taken:
                continue
            if doubt.covers((decision.uid, other.uid)):
                self._verdicts.excused(PROMISE, Excuse.LOSS)
            else:
                self._add(subject, f"{pod.text} is taken over by reservations {name} and {decision.name}")
        seen = self._pod_objects.get(pod.name, {})
        if not seen or version_of(seen) > decision.other_basis:
            self._verdicts.excused(PROMISE, Excuse.OLDER_POD)
            return
        data, meta = self._objects["", decision.name], seen["metadata"]
        identity = PodIdentity(step.namespace, step.pod, step.pod_uid, meta.get("labels") or {}, pod.owners)
        notes = meta.get("annotations") or {}
        why = unmet(terms_of(data), decision.allocation.amounts, identity, notes, pod.amounts)
        if not may_be_taken(data.get("spec") or {}, identity):
            why = "owners"
        if why:
            self._add(subject, f"reservation {decision.name} takes over {pod.text}, which does not match it: {why}")

    def _judge_amounts(self, decision: Decision, steps: list[Step], data: Mapping[str, Any], subject: str) -> None:
        taken = [
            pod
            for step in steps
            if (pod := self._pods.get((step.namespace, step.pod))) is not None and pod.uid == step.pod_uid
        ]
        for at, pod in enumerate(taken):
            others = (each.amounts for each in taken[:at])
            beyond = list(overdrawn(terms_of(data), decision.allocation.amounts, pod.amounts, others))
            if beyond:
                text = f"reservation {decision.name} takes over {pod.text}, which takes of it {', '.join(beyond)}"
                self._add(subject, text)

    def _add(self, subject: str, text: str) -> None:
        self._verdicts.add(PROMISE, subject, text)


def taken_by(decision: Decision) -> Iterator[Step]:
    """The steps by which a decision takes over pods."""
    return (step for step in decision.before if step.action == TAKE_OVER)
