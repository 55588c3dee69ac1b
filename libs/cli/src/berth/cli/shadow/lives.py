"""What became of each pod in a stretch, by what was recorded: when it came, was decided, bound, and ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Decision, Plan, PlanStatus
from berth.contracts.state import Pod
from berth.recording.records import Entered
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Name

PLANS_MAX: Final = 4096
"""Plans whose decisions are kept until their entry comes."""


@dataclass(slots=True)
class Life:
    """Times are unix seconds. `came_s`: it waited for a node of ours from then on, or from the beginning of the
    stretch; None: it had one before. `node` and `decided_s` are of the last decision that was for it. `ended_s`: it was
    gone, or had ended; None: not within the stretch."""

    name: Name
    came_s: float | None = None
    decided_s: float | None = None
    node: str = ""
    bound_s: float | None = None
    ended_s: float | None = None

    @property
    def is_decided_anew(self) -> bool:
        """Who else places pods is no part of the comparison."""
        return self.came_s is not None and (self.decided_s is not None or self.bound_s is None)

    @property
    def ran_s(self) -> float | None:
        """How long it ran; None: it did not, or not to its end."""
        if self.bound_s is None or self.ended_s is None:
            return None
        return max(0.0, self.ended_s - self.bound_s)


@dataclass
class Lives:
    """Of all pods, by uid; and who was made to leave, by why."""

    schedulers: frozenset[str]
    of: dict[str, Life] = field(default_factory=dict)
    victims: dict[str, str] = field(default_factory=dict)
    """By uid."""

    def __post_init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._decisions: dict[str, list[Decision]] = {}

    @property
    def came(self) -> int:
        """How many asked for a node of ours."""
        return sum(each.is_decided_anew for each in self.of.values())

    def begin(self, values: Iterable[Entered], held: Iterable[Entered], since_s: float) -> None:
        """The pods of STATE, and the decisions of LEDGER, as they were at the beginning."""
        decided = {each.uid for each in map(_decision_of, held) if each is not None}
        for entered in values:
            pod = pod_of(entered)
            if pod is None or pod.phase in FINISHED_PHASES:
                continue
            self._uids[entered.key] = pod.uid
            waits = not pod.node and pod.uid not in decided and pod.template.scheduler in self.schedulers
            life = self.of[pod.uid] = Life((pod.namespace, pod.name), since_s if waits else None)
            if pod.node:
                life.bound_s = since_s

    def read(self, entered: Entered) -> None:
        """The next message."""
        if entered.bucket == buckets.STATE and entered.key.startswith("pod."):
            self._read_pod(entered)
        elif entered.bucket == buckets.LEDGER and not entered.deleted:
            family = entered.key.partition(".")[2].partition(".")[0]
            if family == "decision":
                decision = _decision_of(entered)
                if decision is not None:
                    self._decisions.setdefault(decision.plan, []).append(decision)
                    if len(self._decisions) > PLANS_MAX:
                        del self._decisions[next(iter(self._decisions))]
            elif family == "plan":
                self._read_plan(entered)

    def _read_pod(self, entered: Entered) -> None:
        at_s = entered.stored_s
        pod = pod_of(entered)
        before = self._uids.get(entered.key)
        if before is not None and (pod is None or pod.uid != before):
            self._end(before, at_s)
            del self._uids[entered.key]
        if pod is None:
            return
        life = self.of.get(pod.uid)
        if life is None:
            if pod.phase in FINISHED_PHASES:
                return
            waits = not pod.node and pod.template.scheduler in self.schedulers
            life = self.of[pod.uid] = Life((pod.namespace, pod.name), at_s if waits else None)
        self._uids[entered.key] = pod.uid
        if pod.node and life.bound_s is None:
            life.bound_s = at_s
        if pod.phase in FINISHED_PHASES:
            self._end(pod.uid, at_s)

    def _end(self, uid: str, at_s: float) -> None:
        life = self.of.get(uid)
        if life is not None and life.ended_s is None:
            life.ended_s = at_s

    def _read_plan(self, entered: Entered) -> None:
        try:
            plan = decode(entered.value, Plan)
        except InvalidMessage:
            return
        if plan.status is not PlanStatus.COMMITTED:
            return
        for decision in self._decisions.pop(plan.id, ()):
            for victim in decision.victims:
                self.victims.setdefault(victim.uid, decision.eviction_reason)
            life = self.of.get(decision.uid)
            if life is not None and not decision.nominates and decision.kind == "pod":
                life.decided_s, life.node = entered.stored_s, decision.node


def pod_of(entered: Entered) -> Pod | None:
    """The pod of a message of STATE; None: it is gone, or no pod, or cannot be read."""
    if entered.deleted or not entered.key.startswith("pod."):
        return None
    try:
        return decode(entered.value, Pod)
    except InvalidMessage:
        return None


def _decision_of(entered: Entered) -> Decision | None:
    if entered.deleted or ".decision." not in entered.key:
        return None
    try:
        return decode(entered.value, Decision)
    except InvalidMessage:
        return None
