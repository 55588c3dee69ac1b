"""Who is made to leave, for whom, and who gets what they leave (I11, docs/evictions.md).

An eviction is Berth's when the feeder of the observer says so (`by_berth`); where nobody says, when the
victim carries the mark and the condition that cluster-writer writes before it deletes. It looks at the beneficiary
before that; a deletion that is on its way while the beneficiary goes is nobody's fault, so one that has just gone still
counts, in undisturbed time.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec

from berth.contracts import kube, names
from berth.contracts.ledger import Decision
from berth.invariants.counts import Excuse
from berth.invariants.facts import BY_MINOR, amounts_of
from berth.invariants.observer.beneficiaries import is_over, node_of, priority_of, why_nobody_leaves
from berth.invariants.observer.calm import Calm
from berth.invariants.observer.capacity import Capacity
from berth.invariants.observer.pressed import PressedLaw
from berth.invariants.observer.sight import Reader
from berth.invariants.observer.verdicts import Verdicts
from berth.invariants.observer.victims import VictimLaws
from berth.rules.bounded_json import read_annotation
from berth.rules.eviction_notes import Mark, noted_mark
from berth.rules.node_evictions.notes import noted_eviction
from berth.rules.preemption import BY_HAND_OVER, BY_OWNER, BY_QUOTA, is_by_berth
from berth.rules.reservation_operating import current_owner_of
from berth.rules.reservation_owners import PodIdentity, compile_owners
from berth.transaction.ledger_view import LedgerView
from berth.transaction.revocations import is_revocation

Json = Mapping[str, Any]
Name = tuple[str, str]


class Evictions:
    """Nominations of LEDGER, and what becomes of victims and beneficiaries. `pods`, `reservations` and `nodes` are the
    objects as they are, by name."""

    def __init__(
        self,
        verdicts: Verdicts,
        calm: Calm,
        capacity: Capacity,
        pods: MutableMapping[Name, Json],
        reservations: MutableMapping[Name, Json],
        nodes: Mapping[Name, Json],
        lag_s: float,
        laws: VictimLaws,
    ) -> None:
        self.by_berth: bool | None = None
        """Whether Berth makes the change that is shown now; None: not known."""
        self._laws = laws
        self._pressed = PressedLaw(verdicts, pods)
        self._verdicts = verdicts
        self._calm = calm
        self._capacity = capacity
        self._pods = pods
        self._seen: Mapping[Name, Json] = ChainMap(pods, reservations)
        self._nodes = nodes
        self._lag_s = lag_s
        self._named: dict[tuple[str, str], dict[str, Decision]] = {}
        """By plan and uid of the beneficiary: the nomination under the uid of each victim."""
        self._members: dict[str, dict[str, Decision]] = {}
        """By plan: its nominations, by uid of the beneficiary."""
        self._begun: set[str] = set()
        """Plans under which somebody was made to leave for a gang."""
        self._attempts: dict[str, int] = {}
        self._priorities: dict[str, int] = {}
        self._hears_looks = False
        self._order = 0
        self._marked: dict[str, tuple[str, int]] = {}
        """By uid of a victim: under which plan it was marked, and when, in the order of what is shown."""
        self._looks: dict[str, tuple[int, int]] = {}
        """By uid of a beneficiary: the last look at it while it waited, in that order, and its attempt."""
        self._over_s: dict[tuple[str, int], float] = {}
        """When a beneficiary's attempt was over: bound, withdrawn, or gone."""
        self._placed: set[tuple[str, int]] = set()
        """Of those, who was bound."""

    def nominated(self, decision: Decision) -> None:
        """LEDGER has a nomination."""
        victims = self._named.setdefault((decision.plan, decision.uid), {})
        victims.update((victim.uid, decision) for victim in decision.victims)
        self._members.setdefault(decision.plan, {})[decision.uid] = decision
        seen = self._seen.get((decision.namespace, decision.name))
        if seen is not None and _uid(seen) == decision.uid:
            self._priorities[decision.uid] = priority_of(seen)
        self._attempts[decision.uid] = decision.attempt
        self._laws.nominated(decision, self._priorities.get(decision.uid, 0))

    def see(self, pod: Json, deleted: bool) -> None:
        """A pod is written, or deleted; `pods` still shows it as it was."""
        meta = pod["metadata"]
        self.see_beneficiary(pod, deleted)
        self._laws.see(pod, deleted)
        self._order += 1
        mark = noted_mark(meta.get("annotations") or {})
        if mark is None:
            self._marked.pop(meta["uid"], None)
        elif self._marked.get(meta["uid"], ("", 0))[0] != mark.plan:
            self._marked[meta["uid"]] = (mark.plan, self._order)
        if self.by_berth is False or not (deleted or _is_leaving(pod)):
            return
        before = self._pods.get((meta.get("namespace") or "", meta["name"]))
        if before is not None and _uid(before) == _uid(pod) and _is_leaving(before):
            return
        note = noted_eviction(meta.get("annotations") or {})
        if self.by_berth and note is not None and not note.refused:
            self._laws.spared(pod, f"{meta.get('namespace', '')}/{meta['name']}, need {note.need}", note.need)
            self._pressed.evicted(pod, note)
        elif mark is not None and (self.by_berth or _is_evicted(pod)):
            self._judge(pod, mark)
        elif self.by_berth:
            self._verdicts.judged("I11")
            who = f"{meta.get('namespace', '')}/{meta['name']}"
            text = "is deleted by Berth, and carries no mark"
            self._verdicts.add("I11", f"{who}, uid {_uid(pod)}", f"{who}: {text}")

    def looked(self, namespace: str, name: str) -> None:
        """Berth has asked the API server for a pod or Reservation, and the answer says how it is now."""
        self._hears_looks = True
        self._order += 1
        seen = self._seen.get((namespace, name))
        if seen is not None and not is_over(seen):
            self._looks[_uid(seen)] = (self._order, _attempt(seen))

    def decided(self, decision: Decision, view: LedgerView) -> None:
        """A pod is decided: it takes nothing that others have left for a pod of equal or higher priority. Members of a
        gang are decided together, whatever node each of them was nominated to."""
        pod = self._pods.get((decision.namespace, decision.name))
        node = self._nodes.get(("", decision.node))
        if pod is None or node is None or decision.kind != "pod" or decision.reservation_uid:
            return
        heirs = [
            each
            for held in view.decisions.values()
            if (each := held.decision).nominates and each.node == decision.node and each.uid != decision.uid
            if not _are_of_one_gang(each, decision)
            if self._waits(each) and self._priorities.get(each.uid, 0) >= priority_of(pod) and self._have_left(each)
        ]
        if not heirs:
            return
        self._verdicts.judged("I11d")
        offered = amounts_of((node.get("status") or {}).get("allocatable"))
        holds = self._capacity.on_node.get(decision.node, {})
        for name, amount in decision.allocation.amounts.items():
            if amount <= 0 or name in BY_MINOR:
                continue
            kept = sum(each.allocation.amounts.get(name, 0) for each in heirs)
            rest = [hold for hold in holds.values() if hold.uid != decision.uid]
            others = sum(hold.amounts.get(name, 0) for hold in rest)
            known = sum(hold.amounts.get(name, 0) for hold in rest if self._capacity.is_known(hold, Reader.SOLVER))
            # What was short before is somebody else's doing.
            if others + kept <= offered.get(name, 0) < others + kept + amount:
                if known + kept + amount <= offered.get(name, 0):
                    self._verdicts.excused("I11d", Excuse.STRANGER)
                    continue
                who = f"{decision.namespace}/{decision.name}"
                text = f"takes {name} of {decision.node} that others left for {heirs[0].namespace}/{heirs[0].name}"
                self._verdicts.add("I11d", f"{who}, plan {decision.plan}", f"{who}: {text}")

    def finish(self, view: LedgerView) -> list[str]:
        """Once all is quiet: nominations that still stand, and marks on pods that stay."""
        self._verdicts.judged("I11c", len(self._named))
        found = []
        for held in view.decisions.values():
            each = held.decision
            if each.nominates and self._waits(each):
                found.append(f"{each.namespace}/{each.name}: is still nominated to {each.node}, plan {each.plan}")
        for name, pod in self._pods.items():
            mark = noted_mark(pod["metadata"].get("annotations") or {})
            if mark is not None and not _is_leaving(pod):
                found.append(f"{'/'.join(name)}: is still marked for {mark.beneficiary}, plan {mark.plan}")
        return found

    def left_of_gangs(self) -> list[str]:
        """Once all is quiet: who has stayed of gangs that were made to leave."""
        gone = self._over_s.keys() - self._placed
        return list(self._laws.left_of_gangs(lambda decision: (decision.uid, decision.attempt) in gone))

    def _judge(self, victim: Json, mark: Mark) -> None:
        meta = victim["metadata"]
        who = f"{meta.get('namespace', '')}/{meta['name']}"
        subject = f"{who}, uid {_uid(victim)}"
        self._verdicts.judged("I11")
        decision = self._named.get((mark.plan, mark.uid), {}).get(_uid(victim))
        if decision is None:
            text = f"is evicted for {mark.beneficiary} under plan {mark.plan}, which does not name it"
            self._verdicts.add("I11", subject, f"{who}: {text}")
            return
        over_s = self._over_s.get((decision.uid, decision.attempt))
        if over_s is not None and self._calm.since(over_s) > self._lag_s:
            text = f"is evicted for {mark.beneficiary} under plan {mark.plan}, which does not wait any more"
            self._verdicts.add("I11", subject, f"{who}: {text}")
        if self._hears_looks and not is_revocation(decision):
            self._judge_look(victim, mark, decision, subject)
        self._laws.evicted(victim, decision, subject)
        self._judge_gang(victim, decision, subject)
        if decision.eviction_reason == BY_HAND_OVER:
            self._judge_hand_over(victim, decision, subject)
        if decision.eviction_reason in (BY_QUOTA, BY_OWNER, BY_HAND_OVER):
            return
        self._verdicts.judged("I11b")
        mine, theirs = priority_of(victim), self._priorities.get(decision.uid)
        if theirs is not None and mine >= theirs:
            text = f"is evicted at priority {mine} for {mark.beneficiary} of priority {theirs}"
            self._verdicts.add("I11b", subject, f"{who}: {text}")
        waiting = self._seen.get((decision.namespace, decision.name))
        why = why_nobody_leaves(waiting, victim) if waiting is not None and _uid(waiting) == decision.uid else ""
        if why:
            self._verdicts.add("I11b", subject, f"{who}: is evicted for reservation {decision.name}, which {why}")

    def _judge_hand_over(self, victim: Json, decision: Decision, subject: str) -> None:
        """I30b: it is a placeholder, its owners accept whom it leaves for, and it says who that is."""
        self._verdicts.judged("I30b")
        meta = victim["metadata"]
        labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
        user = self._pods.get((decision.namespace, decision.name))
        why = ""
        if labels.get(names.LABEL_OPERATING_MODE) != "Reservation":
            why = "which is no placeholder"
        elif current_owner_of(notes) != decision.uid:
            why = "and does not say so"
        elif user is not None and _uid(user) == decision.uid and not _owns(user, notes):
            why = "which its owners do not accept"
        if why:
            who = "/".join(_name(victim))
            text = f"{who}: hands over to {decision.namespace}/{decision.name}, {why}"
            self._verdicts.add("I30b", subject, text)

    def _judge_gang(self, victim: Json, decision: Decision, subject: str) -> None:
        """E8: when the first leaves for a gang all its members are nominated, and waited until a moment ago; behind the
        mark somebody has looked at each of them."""
        if decision.gang is None or decision.plan in self._begun:
            return
        self._begun.add(decision.plan)
        self._verdicts.judged("I34")
        members = self._members[decision.plan].values()
        over = [self._over_s.get((each.uid, each.attempt)) for each in members]
        waiting = sum(1 for each in over if each is None or self._calm.since(each) <= self._lag_s)
        who, size = "/".join(_name(victim)), decision.gang.size
        if waiting < size:
            text = f"is evicted under plan {decision.plan} for {waiting} of {size} members of a gang"
            self._verdicts.add("I34", subject, f"{who}: {text}")
            return
        marked = self._marked[_uid(victim)][1]
        looks = [self._looks.get(each.uid, (0, 0)) for each in members] if self._hears_looks else []
        seen = sum(
            1 for each, (at, attempt) in zip(members, looks, strict=False) if at >= marked and attempt == each.attempt
        )
        if looks and seen < size:
            text = f"is evicted under plan {decision.plan} after a look at {seen} of {size} members of a gang"
            self._verdicts.add("I34", subject, f"{who}: {text}")

    def _judge_look(self, victim: Json, mark: Mark, decision: Decision, subject: str) -> None:
        """E4: after the mark was written somebody looked at the beneficiary, and it waited."""
        self._verdicts.judged("I11h")
        looked, attempt = self._looks.get(decision.uid, (0, 0))
        if looked < self._marked[_uid(victim)][1] or attempt != decision.attempt:
            text = f"is evicted under plan {mark.plan}, and nobody looked whether {mark.beneficiary} waits"
            self._verdicts.add("I11h", subject, f"{'/'.join(_name(victim))}: {text}")

    def see_beneficiary(self, seen: Json, deleted: bool) -> None:
        """A pod or Reservation is written, or deleted: does it wait yet, if anybody leaves for it?"""
        uid = _uid(seen)
        attempt = self._attempts.get(uid)
        if attempt is None:
            return
        self._priorities[uid] = priority_of(seen)
        if deleted or is_over(seen) or _attempt(seen) > attempt:
            self._over_s.setdefault((uid, attempt), self._verdicts.now_s)
        if node_of(seen):
            self._placed.add((uid, attempt))

    def _waits(self, nomination: Decision) -> bool:
        seen = self._seen.get((nomination.namespace, nomination.name))
        if seen is None or _uid(seen) != nomination.uid or _attempt(seen) != nomination.attempt:
            return False
        return not is_over(seen)

    def _have_left(self, nomination: Decision) -> bool:
        for victim in nomination.victims:
            pod = self._pods.get((victim.namespace, victim.name))
            if pod is not None and _uid(pod) == victim.uid:
                return False
        return True


def _are_of_one_gang(one: Decision, other: Decision) -> bool:
    return one.gang is not None and other.gang is not None and one.gang.name == other.gang.name


def _name(pod: Json) -> Name:
    meta = pod["metadata"]
    return (meta.get("namespace") or "", meta["name"])


def _uid(pod: Json) -> str:
    return str(pod["metadata"].get("uid", ""))


def _is_leaving(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _attempt(pod: Json) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_ATTEMPT, "0")
    return int(text) if text.isdecimal() and len(text) < 16 else 0


def _is_evicted(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    mark = noted_mark(pod["metadata"].get("annotations") or {})
    return any(
        each.get("type") == "DisruptionTarget" and is_by_berth(each.get("reason") or "", mark) for each in conditions
    )


def _owns(user: Json, notes: Mapping[str, str]) -> bool:
    """Whether this pod is an owner by the annotation of a placeholder."""
    read = read_annotation(notes, names.ANNOTATION_RESERVATION_OWNERS, list[kube.ReservationOwner])
    meta = user["metadata"]
    references = tuple(msgspec.convert(meta.get("ownerReferences") or [], list[kube.OwnerReference]))
    identity = PodIdentity(meta.get("namespace") or "", meta["name"], meta["uid"], meta.get("labels") or {}, references)
    return isinstance(read, list) and compile_owners(read).accept(identity)
