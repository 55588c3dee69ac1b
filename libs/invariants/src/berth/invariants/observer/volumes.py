"""Claims and volumes of pods, at the moment of each decision and of each bind (I19 to I22).

Who uses a claim, and which decisions keep a volume, is known from the order of LEDGER and of the API. What a solver or
the writer may not have seen yet of claims, volumes and nodes is held against neither. Attachments are not counted, and
of volumes only those of CSI drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from berth.contracts.ledger import Decision, Step
from berth.contracts.state import PersistentVolume, PersistentVolumeClaim
from berth.invariants.counts import Excuse
from berth.invariants.observer.doubt import Doubt
from berth.invariants.observer.holds import Hold
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.storage import Storage, mounter_of, named
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.storage import ClaimName, Mounter, claims_used, is_bound_to, is_for_one_pod
from berth.rules.volume_binding import is_bound, is_reached
from berth.rules.volume_limits import held_volumes, limits_of
from berth.rules.volume_zones import is_in_zone, terms_of

Json = Mapping[str, Any]
USED_ONCE: Final = "I19"
GIVEN_ONCE: Final = "I19b"
REACHED: Final = "I20"
WITHIN_LIMIT: Final = "I21"
BOUND_FIRST: Final = "I22"


@dataclass(slots=True, eq=False)
class _User:
    """A pod with claims that is on a node, by its decision or bound; `steps` are those of its decision, until then."""

    uid: str
    text: str
    pod: Mounter
    node: str
    is_ours: bool
    is_bound: bool
    since_s: float
    steps: tuple[Step, ...] = ()


class Volumes:
    """Who uses which claims and keeps which volumes; the laws about them."""

    def __init__(self, verdicts: Verdicts, sight: Sight, doubt: Doubt) -> None:
        self._verdicts = verdicts
        self._sight = sight
        self._doubt = doubt
        self.storage = Storage()
        self._pods: dict[str, Mounter] = {}
        self._users: dict[str, _User] = {}
        self._using: dict[ClaimName, set[str]] = {}
        self._keeping: dict[str, set[str]] = {}
        self._on: dict[str, set[str]] = {}

    # --- what is fed in ----------------------------------------------------------------------------------------------

    def see_pod(self, data: Json) -> None:
        """A pod; its volumes never change."""
        uid = data["metadata"]["uid"]
        if uid not in self._pods and (data.get("spec") or {}).get("volumes"):
            pod = mounter_of(data)
            if pod is not None:
                self._pods[uid] = pod

    def gone(self, uid: str) -> None:
        """A pod was deleted."""
        self._leave(uid)
        self._pods.pop(uid, None)

    def see_node(self, data: Json, deleted: bool) -> None:
        """A node."""
        self.storage.see_node(data, deleted, self._sight.now_s)

    def see_class(self, data: Json, deleted: bool) -> None:
        """A StorageClass."""
        self.storage.see_class(data, deleted)

    def see_csi_node(self, data: Json, deleted: bool) -> None:
        """How many volumes a node takes."""
        self.storage.see_csi_node(data, deleted, self._sight.now_s)

    def see_claim(self, data: Json, deleted: bool) -> None:
        """A claim: it never comes to have another volume than it had."""
        before = self.storage.see_claim(data, deleted, self._sight.now_s)
        now = self.storage.objects.claim((data["metadata"]["namespace"], data["metadata"]["name"]))
        if before is None or now is None or before.uid != now.uid or not before.volume:
            return
        self._verdicts.judged(GIVEN_ONCE)
        if now.volume != before.volume:
            who = f"claim {now.namespace}/{now.name}"
            text = f"{who}: had volume {before.volume} and has {now.volume or 'none'}"
            self._verdicts.add(GIVEN_ONCE, f"{who}, uid {now.uid}", text)

    def see_volume(self, data: Json, deleted: bool) -> None:
        """A volume: while it is kept for a claim it is kept for no other one."""
        before = self.storage.see_volume(data, deleted, self._sight.now_s)
        now = self.storage.objects.volume(data["metadata"]["name"])
        if before is None or now is None or before.uid != now.uid or not (before.claim and now.claim):
            return
        self._verdicts.judged(GIVEN_ONCE)
        same_uid = before.claim_uid in ("", now.claim_uid)
        if now.claim != before.claim or not same_uid:
            text = f"volume {now.name}: was kept for claim {before.claim}, and is given to {now.claim}"
            self._verdicts.add(GIVEN_ONCE, f"volume {now.name}, uid {now.uid}", text)

    def put(self, pod: Watched, hold: Hold | None, decision: Decision | None) -> None:
        """What the pod holds now, and its decision, if LEDGER has one."""
        mounter = self._pods.get(pod.uid)
        if mounter is None:
            return
        known = self._users.get(pod.uid)
        if hold is None:
            self._leave(pod.uid)
            return
        steps = tuple(decision.before) if decision is not None and not hold.is_bound else ()
        since_s = known.since_s if known is not None and known.node == hold.node else self._sight.now_s
        self._leave(pod.uid)
        user = _User(pod.uid, pod.text, mounter, hold.node, pod.is_ours, hold.is_bound, since_s, steps)
        self._users[pod.uid] = user
        self._on.setdefault(user.node, set()).add(user.uid)
        for claim in named(mounter):
            self._using.setdefault(claim, set()).add(user.uid)
        for step in steps:
            if step.volume:
                self._keeping.setdefault(step.volume, set()).add(user.uid)

    def _leave(self, uid: str) -> None:
        user = self._users.pop(uid, None)
        if user is None:
            return
        self._on[user.node].discard(uid)
        for claim in named(user.pod):
            self._using[claim].discard(uid)
        for step in user.steps:
            if step.volume:
                self._keeping[step.volume].discard(uid)

    # --- a decision --------------------------------------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """A pod is about to hold what was decided; others hold what they held before."""
        pod = self._pods.get(decision.uid)
        if pod is None or decision.kind != "pod":
            return
        subject = f"{decision.namespace}/{decision.name}, plan {decision.plan}, decided"
        steps = {step.claim: step for step in decision.before}
        self._judge_users(pod, subject, Reader.SOLVER, is_bound=False)
        for kept in decision.before:
            if kept.volume:
                self._judge_kept(pod, kept, subject)
        for claim in self._claims(pod):
            step = steps.get(claim.name)
            volume = self.storage.objects.volume(claim.volume or (step.volume if step is not None else ""))
            if step is None:
                self._judge_bound(pod, claim, subject, Reader.SOLVER)
            if volume is not None:
                self._judge_reached(pod, volume, decision.node, subject, Reader.SOLVER)
        self._judge_limits(pod, decision.node, subject)

    def bound(self, pod: Watched, decision: Decision) -> None:
        """A pod of ours has got its node: its claims are used by nobody else, and its steps are done."""
        mounter = self._pods.get(pod.uid)
        if mounter is None:
            return
        subject = f"{pod.text}, plan {decision.plan}, bound"
        self._judge_users(mounter, subject, Reader.WRITER, is_bound=True)
        for step in decision.before:
            claim = self.storage.objects.claim((mounter.namespace, step.claim))
            if claim is None or claim.uid != step.claim_uid:
                self._judge_absent((mounter.namespace, step.claim), pod.text, subject)
                continue
            self._judge_bound(mounter, claim, subject, Reader.WRITER)
            volume = self.storage.objects.volume(claim.volume) if claim.volume else None
            if volume is not None:
                self._judge_reached(mounter, volume, pod.node, subject, Reader.WRITER)

    # --- the laws ----------------------------------------------------------------------------------------------------

    def _judge_users(self, pod: Mounter, subject: str, reader: Reader, *, is_bound: bool) -> None:
        """I19."""
        for name in sorted(named(pod)):
            claim = self.storage.objects.claim(name)
            if claim is None or not is_for_one_pod(claim):
                continue
            others = [self._users[uid] for uid in sorted(self._using.get(name, ())) if uid != pod.uid]
            others = [each for each in others if each.is_bound or not is_bound]
            if not others:
                self._verdicts.judged(USED_ONCE)
            for other in others:
                excuse = self._why_unknown(pod.uid, other, reader, is_bound=is_bound)
                if excuse is not None:
                    self._verdicts.excused(USED_ONCE, excuse)
                    continue
                self._verdicts.judged(USED_ONCE)
                how = "is bound" if other.is_bound else "is decided"
                text = f"claim {'/'.join(name)} is for one pod, and {other.text}, which {how} to {other.node}, uses it"
                self._verdicts.add(USED_ONCE, f"{subject}, claim {name[1]}", f"{pod.namespace}/{pod.name}: {text}")

    def _judge_kept(self, pod: Mounter, step: Step, subject: str) -> None:
        """I19b, of a volume that a decision keeps for a claim."""
        text = ""
        for uid in sorted(self._keeping.get(step.volume, ())):
            other = self._users[uid]
            claims = {each.claim_uid for each in other.steps if each.volume == step.volume}
            if uid == pod.uid or claims <= {step.claim_uid}:
                continue
            if self._doubt.covers((pod.uid, uid)):
                self._verdicts.excused(GIVEN_ONCE, Excuse.LOSS)
            else:
                text = f"volume {step.volume} is kept for another claim by the decision of {other.text}"
        volume, claim = self.storage.objects.volume(step.volume), self._claim(pod, step.claim)
        if volume is not None and claim is not None and volume.claim and not is_bound_to(volume, claim):
            since_s = self.storage.since("volume", volume.name)
            if not self._sight.has_seen(Reader.SOLVER, since_s):
                self._verdicts.excused(GIVEN_ONCE, self._sight.excuse(since_s))
            else:
                text = f"volume {step.volume} is kept for claim {volume.claim}, uid {volume.claim_uid or 'any'}"
        self._verdicts.judged(GIVEN_ONCE)
        if text:
            who = f"{pod.namespace}/{pod.name}"
            self._verdicts.add(GIVEN_ONCE, f"{subject}, volume {step.volume}", f"{who}: {text}")

    def _judge_reached(self, pod: Mounter, volume: PersistentVolume, node: str, subject: str, reader: Reader) -> None:
        """I20."""
        labels = self.storage.labels.get(node, {})
        if not is_reached(volume, labels):
            what = f"does not reach volume {volume.name}"
        elif not is_in_zone(terms_of(volume), labels):
            what = f"is in another zone than volume {volume.name}"
        else:
            self._verdicts.judged(REACHED)
            return
        since_s = max(self.storage.since("node", node), self.storage.since("volume", volume.name))
        if self._is_seen(REACHED, reader, since_s):
            text = f"{pod.namespace}/{pod.name}: is given {node}, which {what}"
            self._verdicts.add(REACHED, f"{subject}, volume {volume.name}", text)

    def _judge_limits(self, pod: Mounter, node: str, subject: str) -> None:
        """I21."""
        objects = self.storage.objects
        limits = limits_of(objects.csi_node(node))
        if not limits:
            return
        others = [self._users[uid] for uid in sorted(self._on.get(node, ())) if uid != pod.uid]
        there = {each.identity: each.driver for other in others for each in held_volumes(other.pod, objects)}
        mine = {each.identity: each.driver for each in held_volumes(pod, objects)}
        new = {identity: driver for identity, driver in mine.items() if identity not in there}
        for driver in sorted(set(new.values()) & limits.keys()):
            total = sum(1 for each in (there | new).values() if each == driver)
            if total <= limits[driver]:
                self._verdicts.judged(WITHIN_LIMIT)
                continue
            excuse = self._why_crowded(pod, others, driver, node)
            if excuse is not None:
                self._verdicts.excused(WITHIN_LIMIT, excuse)
                continue
            self._verdicts.judged(WITHIN_LIMIT)
            text = f"{node} takes {limits[driver]} volumes of {driver}, and would have {total}"
            self._verdicts.add(WITHIN_LIMIT, f"{subject}, {driver}", f"{pod.namespace}/{pod.name}: {text}")

    def _why_crowded(self, pod: Mounter, others: Iterable[_User], driver: str, node: str) -> Excuse | None:
        objects = self.storage.objects
        of_driver = [each for each in others if any(held.driver == driver for held in held_volumes(each.pod, objects))]
        for other in of_driver:
            excuse = self._why_unknown(pod.uid, other, Reader.SOLVER, is_bound=False)
            if excuse is not None:
                return excuse
        since_s = self.storage.since("csinode", node)
        return None if self._sight.has_seen(Reader.SOLVER, since_s) else self._sight.excuse(since_s)

    def _judge_bound(self, pod: Mounter, claim: PersistentVolumeClaim, subject: str, reader: Reader) -> None:
        """I22, of a claim that is there: it has its volume, and the volume is its own."""
        volume = self.storage.objects.volume(claim.volume) if claim.volume else None
        what = ""
        if not is_bound(claim):
            what = "is not bound"
        elif volume is None:
            what = f"is bound to volume {claim.volume}, which is not there"
        elif not is_bound_to(volume, claim):
            what = f"is bound to volume {claim.volume}, which is claim {volume.claim or 'none'}'s"
        if not what:
            self._verdicts.judged(BOUND_FIRST)
            return
        since_s = max(
            self.storage.since("claim", claim.namespace, claim.name), self.storage.since("volume", claim.volume)
        )
        # A step names the claim by its uid; without one the solver may have seen a former claim of the name.
        if (is_bound(claim) or reader is Reader.SOLVER) and not self._sight.has_seen(reader, since_s):
            self._verdicts.excused(BOUND_FIRST, self._sight.excuse(since_s))
            return
        self._verdicts.judged(BOUND_FIRST)
        who = f"{pod.namespace}/{pod.name}"
        self._verdicts.add(BOUND_FIRST, f"{subject}, claim {claim.name}", f"{who}: claim {claim.name} {what}")

    def _judge_absent(self, name: ClaimName, who: str, subject: str) -> None:
        """I22, of a claim that a step names and that is not there any more."""
        if self._is_seen(BOUND_FIRST, Reader.WRITER, self.storage.since("claim", *name)):
            self._verdicts.add(BOUND_FIRST, f"{subject}, claim {name[1]}", f"{who}: claim {name[1]} is not there")

    # --- what is known -----------------------------------------------------------------------------------------------

    def _why_unknown(self, uid: str, other: _User, reader: Reader, *, is_bound: bool) -> Excuse | None:
        """Why who judges need not know of another user. Between bound pods of ours nothing is doubtful."""
        if not is_bound and self._doubt.covers((uid, other.uid)):
            return Excuse.LOSS
        if not other.is_ours and not self._sight.has_seen(reader, other.since_s):
            return Excuse.STRANGER
        return None

    def _is_seen(self, promise: str, reader: Reader, since_s: float) -> bool:
        """Whether a reader must have seen what has been so since then; it is counted that this was judged, or not."""
        if not self._sight.has_seen(reader, since_s):
            self._verdicts.excused(promise, self._sight.excuse(since_s))
            return False
        self._verdicts.judged(promise)
        return True

    def _claim(self, pod: Mounter, name: str) -> PersistentVolumeClaim | None:
        return self.storage.objects.claim((pod.namespace, name))

    def _claims(self, pod: Mounter) -> Iterator[PersistentVolumeClaim]:
        """Those of the pod's claims that are there: one may have gone since the solver has seen it."""
        for used in claims_used(pod):
            claim = self._claim(pod, used.name)
            if claim is not None:
                yield claim
