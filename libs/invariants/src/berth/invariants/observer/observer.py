"""The fold that judges every moment: one call per ledger message, API change, or message of STATE.

It has to be shown everything in true order, as the server and the API server have stored it, not as some reader came to
see it: then every rule is exact, and what is found was wrong at that very moment. A simulation, which owns both, can do
that. A program beside them, which sees them late, judges moments with `check` instead.

Amounts of pods are those that they were bound with; a resize in place is seen by `finish` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from berth.contracts import names
from berth.invariants.checking import INVARIANTS, not_judged
from berth.invariants.counts import Excuse
from berth.invariants.facts import Facts
from berth.invariants.log import LogEntry, folded_otherwise, state_hash
from berth.invariants.observer.affinity import AffinityLaw
from berth.invariants.observer.binds import judge_bind, judge_change, judge_reserved
from berth.invariants.observer.calm import Calm
from berth.invariants.observer.capacity import Capacity
from berth.invariants.observer.cores import Cores
from berth.invariants.observer.decided import Decided
from berth.invariants.observer.departures import Departures
from berth.invariants.observer.divided import Divided
from berth.invariants.observer.doubt import Doubt
from berth.invariants.observer.evictions import Evictions
from berth.invariants.observer.fitness import Fitness
from berth.invariants.observer.gang_watch import GangWatch
from berth.invariants.observer.gathered import Gathered
from berth.invariants.observer.growths import judge_growth
from berth.invariants.observer.holds import of_bound, of_decided
from berth.invariants.observer.ledger_watch import LedgerWatch
from berth.invariants.observer.lent import Lent
from berth.invariants.observer.limits import Limits
from berth.invariants.observer.named import Named
from berth.invariants.observer.news import News
from berth.invariants.observer.partitions import Partitions
from berth.invariants.observer.peers import Peers
from berth.invariants.observer.picked import Picked
from berth.invariants.observer.pods import Watched, is_same, name_of, read_pod, read_reservation, version_of
from berth.invariants.observer.pools import Pools
from berth.invariants.observer.reclaims import Reclaims
from berth.invariants.observer.reserved import Reserved
from berth.invariants.observer.shares import Shares
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.spread import SpreadLaw
from berth.invariants.observer.state_fence import StateFence
from berth.invariants.observer.take_overs import TakeOvers
from berth.invariants.observer.verdicts import Verdicts, Violation
from berth.invariants.observer.victims import VictimLaws
from berth.invariants.observer.volumes import Volumes
from berth.invariants.observer.windows import Windows
from berth.invariants.observer.withdrawals import Withdrawals
from berth.invariants.promises import PROMISES
from berth.invariants.report import Report, result_of
from berth.invariants.world import NodeHold, World
from berth.transaction.ledger_view import LedgerView

Json = Mapping[str, Any]
KINDS: Final = (
    "pods",
    "nodes",
    "devices",
    "noderesourcetopologies",
    "elasticquotas",
    "podgroups",
    "reservations",
)
LAG_S: Final = 10.0
RECOVERY_S: Final = 30.0


class Observer:
    """One cluster from its first moment.

    Args:
        schedulers: the scheduler names whose pods are Berth's.
        recovery_s: how long a gang may be half there after the last fault that was reported (`trouble`).
        lag_s: how late the slowest view or answer may be; a limit lowered, a pod of another scheduler, a member
            deleted, or a card broken within this time is not held against anybody.
        keep_log: keep every ledger message, for the replay check (I7) of `finish`.
    """

    def __init__(
        self,
        *,
        schedulers: Iterable[str] = (names.SCHEDULER_NAME,),
        recovery_s: float = RECOVERY_S,
        lag_s: float = LAG_S,
        keep_log: bool = False,
    ) -> None:
        self.verdicts = Verdicts()
        self._sight = Sight(self.verdicts, lag_s)
        calm = Calm(self.verdicts)
        self._decided = Decided(Doubt())
        self.capacity = Capacity(self.verdicts, self._decided.doubt, self._sight)
        self._fitness = Fitness(self.verdicts, self._sight, self._tolerations)
        self._withdrawals = Withdrawals(
            self.capacity,
            self._decided,
            self._sight,
            keeps_off=self._fitness.keeps_off,
            reserved=lambda node, name: self._reserved.kept(node, name),
        )
        self.gangs = GangWatch(
            self.verdicts,
            calm,
            Departures(self.verdicts, self._sight),
            self._decided,
            limit_s=recovery_s,
            lag_s=lag_s,
        )
        self.pods: dict[tuple[str, str], Watched] = {}
        self._schedulers = frozenset(schedulers)
        self._objects: dict[str, dict[tuple[str, str], Json]] = {kind: {} for kind in KINDS}
        self._placeholders: dict[tuple[str, str], Watched] = {}
        self._reserved = Reserved(self.verdicts, self.capacity, self.pods)
        self._peers = Peers(self._sight, self._decided.doubt)
        self._affinity = AffinityLaw(self._peers, self.verdicts)
        self._volumes = Volumes(self.verdicts, self._sight, self._decided.doubt)
        self._cores = Cores(self.verdicts, self.capacity)
        self._named = Named(self.verdicts, self._sight)
        self._picked = Picked(self.capacity, self.verdicts)
        self._windows = Windows(self.verdicts)
        self._take_overs = TakeOvers(self.verdicts, self._decided, self.pods, self._objects)
        self._partitions = Partitions(self.verdicts, self._sight, self._seen)
        self._gathered = Gathered(self.verdicts, self._sight, self._seen, self.gangs.group_of)
        self._pools = Pools(self.verdicts, self._sight)
        self._shares = Shares(self.verdicts, self.capacity)
        self._lent = Lent(self.verdicts, self.capacity)
        self.news = News(self.verdicts, self._sight)
        """When nodes were heard of; see `News.reported`. Without that I42 is not judged."""
        self.divided = Divided(self.verdicts)
        """What another framework has of what nodes lend; see `Divided.has`. Without that I40 is not judged."""
        self._fence = StateFence(self.verdicts)
        laws = VictimLaws(self.verdicts, self._objects["pods"], self._objects["reservations"], self.gangs.group_of)
        self._evictions = Evictions(
            self.verdicts,
            calm,
            self.capacity,
            self._objects["pods"],
            self._objects["reservations"],
            self._objects["nodes"],
            lag_s,
            laws,
        )
        self._ledger = LedgerWatch(
            self.verdicts,
            self._decided,
            self.capacity,
            self.gangs,
            self._reserved,
            self._fitness,
            self._withdrawals,
            self._evictions,
            calm,
            self._shares,
            Reclaims(self.verdicts, self.capacity, self._shares, self._objects["pods"]),
            laws=(
                SpreadLaw(self._peers, self.verdicts).decided,
                self._affinity.decided,
                self._volumes.decided,
                self._cores.decided,
                self._named.decided,
                self._picked.decided,
                self._partitions.decided,
                self._gathered.decided,
                self._pools.decided,
                self._lent.decided,
                self.news.decided,
                self._take_overs.decided,
                self._shares.decided,
            ),
            seen=self._seen,
            claim=self._claim,
            keep_log=keep_log,
            limit_s=recovery_s,
        )
        self._unreadable = 0
        self._limits = limits = Limits(
            self.verdicts, self.capacity, self._decided, self.gangs, self._fitness, self._withdrawals
        )
        self._readers = {
            "pods": self._see_pod,
            "reservations": self._see_reservation,
            "nodes": self._see_node,
            "namespaces": self._peers.see_namespace,
            "devices": self._see_device,
            "noderesourcetopologies": self._cores.see_topology,
            "elasticquotas": limits.see_quota,
            "podgroups": self._see_group,
            "clusternetworktopologies": self._gathered.see_topology,
            "elasticquotaprofiles": self._pools.see_profile,
            "leases": limits.see_lease,
            "persistentvolumeclaims": self._volumes.see_claim,
            "persistentvolumes": self._volumes.see_volume,
            "storageclasses": self._volumes.see_class,
            "csinodes": self._volumes.see_csi_node,
            "configmaps": self.news.see_config_map,
        }

    @property
    def view(self) -> LedgerView:
        """The ledger as folded so far."""
        return self._ledger.view

    @property
    def log(self) -> list[LogEntry] | None:
        """Its messages so far, if they are kept."""
        return self._ledger.log

    @property
    def violations(self) -> list[Violation]:
        """What was found so far, in order."""
        return self.verdicts.found

    @property
    def ok(self) -> bool:
        """Nothing was found so far."""
        return not self.verdicts.found

    def hash(self) -> str:
        """Of the ledger as folded so far, the same on every machine."""
        return state_hash(self.view)

    # --- what is fed in-----------------------------------------------------------------------------------------------

    def at(self, now_s: float) -> None:
        """Time has gone on, in seconds from any start. Cheap; call it before each event."""
        self.verdicts.now_s = now_s
        if now_s >= self.gangs.due_s:
            self.gangs.check_due()
        if self.capacity.doubt.is_whole:
            self._ledger.check_doubt()

    def trouble(self, for_s: float, *, hides: bool = True) -> None:
        """From now on for so long something goes wrong from outside: time to recover is not counted before its end."""
        self.gangs.trouble(for_s)
        if hides:
            self.blind(for_s)

    def blind(self, for_s: float, readers: Iterable[Reader] | None = None) -> None:
        """From now on for so long these (None: all) may not see what the API shows; decisions are carried out."""
        self._sight.blind(for_s, readers)

    def by_berth(self, does: bool) -> None:
        """Whether Berth itself makes the changes of the API that are shown from now on: who deletes a pod, say."""
        self._evictions.by_berth = does

    def looked(self, namespace: str, name: str) -> None:
        """The API server has just shown Berth a pod or Reservation. Without such reports I11h is not judged."""
        self._evictions.looked(namespace, name)

    def bar(self, node: str, for_s: float) -> None:
        """From now on for so long an admission policy of the cluster refuses every bind onto this node."""
        self._withdrawals.bar(node, self.verdicts.now_s + for_s)

    def ledger(self, key: str, value: bytes, deleted: bool, sequence: int) -> None:
        """The next message that LEDGER has stored."""
        self._ledger.message(key, value, deleted, sequence)

    def ledger_lost(self, survivors: Iterable[tuple[str, bytes, bool, int]] = ()) -> None:
        """LEDGER lost its tail, or everything: `survivors` are the messages (key, value, deleted, sequence) left."""
        self._ledger.lost(survivors)

    def quota(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message of QUOTA; without them I31 and I35 are not judged, and quotas by the defaults."""
        self._shares.see(key, value, deleted)

    def slo(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message that SLO has stored. Without them I36 is not judged."""
        self._lent.see(key, value, deleted)
        self.divided.see(key, value, deleted)

    def state(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message that STATE has stored."""
        self._fence.see(key, value, deleted)
        self.gangs.departures.shown(key, value, deleted)

    def state_lost(self, survivors: Iterable[tuple[str, bytes, bool]] = ()) -> None:
        """STATE lost its tail, or everything: `survivors` are the messages (key, value, deleted) left."""
        survivors = list(survivors)
        self._fence.lost(survivors)
        self.gangs.departures.state_lost(survivors)

    def api(self, kind: str, data: Json | bytes, *, deleted: bool = False) -> None:
        """An object was written, or (with its last state) deleted. `kind` is its plural; others are passed over.

        `data` is kept, not copied: it must not be changed later.
        """
        reader = self._readers.get(kind)
        if reader is None:
            return
        self.verdicts.judged("I0")
        try:
            read: Json = msgspec.json.decode(data) if isinstance(data, bytes) else data
            reader(read, deleted)
            if kind == "pods":
                self._evictions.see(read, deleted)
            elif kind == "reservations":
                self._evictions.see_beneficiary(read, deleted)
            self._keep(kind, read, deleted)
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError) as error:
            self._unreadable += 1
            self.verdicts.add("I0", f"{kind} {self._unreadable}", f"an object of {kind} cannot be read: {error}")

    # --- the end -----------------------------------------------------------------------------------------------------

    def world(self, *, quiet: bool = True, holds: Iterable[NodeHold] = ()) -> World:
        """This moment."""
        objects = self._objects
        return World.of(
            pods=objects["pods"].values(),
            nodes=objects["nodes"].values(),
            devices=objects["devices"].values(),
            topologies=objects["noderesourcetopologies"].values(),
            quotas=objects["elasticquotas"].values(),
            pod_groups=objects["podgroups"].values(),
            reservations=objects["reservations"].values(),
            ledger_view=self.view,
            holds=holds,
            schedulers=self._schedulers,
            excused_gangs=self.gangs.excused,
            is_quiet=quiet,
            quota_rules=self.capacity.rules,
        )

    def finish(self, *, quiet: bool = True, holds: Iterable[NodeHold] = ()) -> Report:
        """Everything found on the way, and this moment from scratch. `quiet`: nothing is under way any more."""
        self.gangs.check_due()
        texts: dict[str, list[str]] = {name: [] for name in PROMISES}
        for violation in self.verdicts.found:
            texts[violation.promise].append(str(violation))
        world = self.world(quiet=quiet, holds=holds)
        facts = Facts.of(world)
        for invariant in INVARIANTS:
            for finding in invariant.find(facts):
                if self.capacity.is_left_over(invariant.name, finding.subject):
                    self.verdicts.excused(invariant.name, Excuse.LEFT_OVER)
                else:
                    texts[invariant.name].append(f"at the end: {finding.text}")
        if quiet:
            texts["I18"] += [f"at the end: {text}" for text in self._affinity.at_rest()]
        self.verdicts.judged("I1c", len(world.holds))
        self.verdicts.judged("I1d", len(world.holds))
        if quiet:
            texts["I11c"] += self._evictions.finish(self.view)
            texts["I34"] += self._evictions.left_of_gangs()
        if self.log is not None:
            self.verdicts.judged("I7")
            texts["I7"] += [finding.text for finding in folded_otherwise(self.log, self.view)]
        return Report(
            [
                result_of(name, promise.sentence, texts[name], promise.title, not_judged(name, world))
                for name, promise in PROMISES.items()
            ]
        )

    # --- the API -----------------------------------------------------------------------------------------------------

    def _seen(self, name: tuple[str, str]) -> Watched | None:
        return self.pods.get(name) if name[0] else self._placeholders.get(name)

    def _tolerations(self, name: tuple[str, str]) -> Iterable[Json]:
        kept = self._objects["pods" if name[0] else "reservations"].get(name, {})
        spec = kept.get("spec") or {}
        if not name[0]:
            spec = (spec.get("template") or {}).get("spec") or {}
        return spec.get("tolerations") or ()

    def _see_pod(self, data: Json, deleted: bool) -> None:
        name = name_of(data)
        known = self.pods.get(name)
        if deleted:
            if known is not None:
                del self.pods[name]
                self._gone(known, version_of(data))
            return
        self._peers.see(data)
        self._volumes.see_pod(data)
        if known is not None and is_same(known, data):
            return
        pod = read_pod(data, self._schedulers, known)
        if known is not None and known.uid != pod.uid:
            self._gone(known, version_of(data))
            known = None
        self.pods[name] = pod
        self._changed(known, pod)

    def _changed(self, known: Watched | None, pod: Watched) -> None:
        pod.was_bound = known.was_bound if known is not None else bool(pod.node)
        pod.bound_s = known.bound_s if known is not None and known.node else self._sight.now_s
        if known is not None:
            judge_change(known, pod, self.verdicts)
        if pod.node and pod.is_ours and not pod.was_bound:
            pod.was_bound = True
            decision = judge_bind(pod, self._decided, self.verdicts)
            self._fitness.bound(pod)
            self._named.bound(pod)
            self._cores.bound(pod)
            if decision is not None:
                self.gangs.begins(pod, decision, self.view)
                self._gathered.bound(pod, decision)
                self._volumes.bound(pod, decision)
        if pod.gang:
            self._see_member(known, pod)
        self._claim(pod.name)

    def _see_member(self, known: Watched | None, member: Watched) -> None:
        """A member of a gang as it is now, and what became of its decisions."""
        self.gangs.see(member)
        if known is not None and member.has_ended > known.has_ended:
            self.gangs.lapsed(member, self._decided.by_uid.get(member.uid, ()))
        elif known is not None and member.attempt > known.attempt:
            of_it = self._decided.of(member.uid, known.attempt)
            plans = [each.decision.plan for each in of_it]
            self.gangs.withdrawn(member, plans, self._withdrawals.reason(of_it))

    def _leave_gang(self, member: Watched) -> None:
        """It is gone, or, of a Reservation, has ended or is of another gang now."""
        if member.gang:
            self.gangs.lapsed(member, self._decided.by_uid.get(member.uid, ()))
            self.gangs.gone(member)

    def _gone(self, pod: Watched, version: int) -> None:
        self._leave_gang(pod)
        self.capacity.put(pod.uid, None)
        self._picked.forget(pod.uid)
        self._peers.gone(pod.uid, version)
        self._volumes.gone(pod.uid)
        self._reserved.changed(pod.uid, pod, None)
        self._forget(pod)
        self._claim(pod.name)

    def _see_node(self, data: Json, deleted: bool) -> None:
        self._limits.see_node(data, deleted)
        self._peers.see_node(data, deleted)
        self._volumes.see_node(data, deleted)
        self._cores.see_node(data, deleted)
        self._partitions.see_node(data, deleted)
        self._gathered.see_node(data, deleted)
        self._pools.see_node(data, deleted)
        self.news.see_node(data, deleted)

    def _see_group(self, data: Json, deleted: bool) -> None:
        self.gangs.see_group(data, deleted)
        self._gathered.see_group(data, deleted)

    def _see_device(self, data: Json, deleted: bool) -> None:
        self._limits.see_device(data, deleted)
        self._named.see_device(data, deleted)
        self._picked.see_device(data, deleted)
        self._partitions.see_device(data, deleted)

    def _see_reservation(self, data: Json, deleted: bool) -> None:
        self._windows.see(data, deleted)
        name = ("", data["metadata"]["name"])
        if deleted:
            known = self._placeholders.pop(name, None)
            self._reserved.gone(data["metadata"].get("uid", ""))
            if known is not None:
                self._leave_gang(known)
                self._take_overs.see(known, is_gone=True)
                self._forget(known)
            return
        known, now = self._placeholders.get(name), read_reservation(data, self._schedulers)
        if known is not None and (known.uid != now.uid or known.gang != now.gang):
            self._leave_gang(known)
        if known is not None and known.uid != now.uid:
            self._forget(known)
            known = None
        now.was_bound = known.was_bound if known is not None else bool(now.node)
        if known is not None:
            judge_change(known, now, self.verdicts)
            judge_growth(known, now, self._decided, self.verdicts)
        if now.node and now.is_ours and not now.was_bound:
            now.was_bound = True
            decision = judge_reserved(now, self._decided, self.verdicts)
            self._take_overs.placed(now)
            if decision is not None and now.gang:
                self.gangs.begins(now, decision, self.view)
                self._gathered.bound(now, decision)
        if now.gang:
            self._see_member(known, now)
        self._take_overs.see(now, is_gone=False)
        self._placeholders[name] = now
        self._reserved.see(data, now)
        self._claim(name)

    def _forget(self, gone: Watched) -> None:
        """What was decided of it, once it is gone and LEDGER says nothing of it."""
        held = self._ledger.held.get(gone.name)
        if held is None or held.decision.uid != gone.uid:
            self._decided.forget(gone.uid)

    def _keep(self, kind: str, data: Json, deleted: bool) -> None:
        """The newest version of every object, for the end."""
        kept = self._objects.get(kind)
        if kept is None:
            return
        if deleted:
            kept.pop(name_of(data), None)
        else:
            kept[name_of(data)] = data

    # --- who holds what ----------------------------------------------------------------------------------------------

    def _claim(self, name: tuple[str, str]) -> None:
        """What the pod of this name holds now: by its object when it is bound, else by its decision."""
        held = self._ledger.held.get(name)
        if not name[0]:
            self._reserved.claim(name[1], held.decision if held else None)
            return
        pod = self.pods.get(name)
        if pod is None:
            return
        decision = held.decision if held is not None and held.decision.uid == pod.uid else None
        hold = None
        if pod.node:
            hold = of_bound(pod) if pod.is_live else None
        elif decision is not None and not self._ledger.is_settled(name, decision):
            hold = of_decided(decision, pod)
        self.capacity.put(pod.uid, hold)
        self._peers.put(pod, hold, decision)
        self._volumes.put(pod, hold, decision)
        self._reserved.changed(pod.uid, pod, held.decision if held is not None else None)
