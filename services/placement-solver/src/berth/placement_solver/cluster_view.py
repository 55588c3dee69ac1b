"""What a solver sees: every bucket it follows, folded into the book, the columns, the queue.

The view takes messages in and keeps itself up to date, message by message and without I/O. It decides nothing;
`batch` hands out what waits as units for `core.solve`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from berth.contracts import subjects
from berth.contracts.base import Reason
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import NodeInventory
from berth.contracts.metrics import NodeMetrics
from berth.contracts.quota import QuotaGroup
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import (
    ConfigMap,
    Device,
    ElasticQuota,
    Namespace,
    Node,
    NodeMetric,
    NodeResourceTopology,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    Reservation,
    Synced,
)
from berth.contracts.topology import NodeTopology
from berth.placement_solver.configuration_view import ConfigurationView
from berth.placement_solver.core.awaited_inputs import AwaitedInputs
from berth.placement_solver.core.batches import Batches
from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.classes import ROWS_BYTES_MAX, ClassTable
from berth.placement_solver.core.constraints.device_share import NAME as DEVICE_SHARE
from berth.placement_solver.core.constraints.load_aware_scheduling import LoadAwareScheduling
from berth.placement_solver.core.displacers.beneficiaries import Beneficiaries
from berth.placement_solver.core.displacers.inputs import Inputs
from berth.placement_solver.core.displacers.leavers import Leavers
from berth.placement_solver.core.displacers.registry import displacers_of
from berth.placement_solver.core.displacers.seam import Ground
from berth.placement_solver.core.displacers.turns import Turn, turn_of
from berth.placement_solver.core.facts import facts_of
from berth.placement_solver.core.groups import Gang, Gangs, Readiness, pods_of
from berth.placement_solver.core.happenings import Happenings
from berth.placement_solver.core.inventories import Inventories, same_content
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.npu_templates import place_of
from berth.placement_solver.core.payers import Payers
from berth.placement_solver.core.plan import Unit
from berth.placement_solver.core.pod_selectors import KINDS as SELECTING_KINDS
from berth.placement_solver.core.policy import Policy
from berth.placement_solver.core.profiles import Profiles
from berth.placement_solver.core.queue import Queue, Waiting
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.reserved import Reservations
from berth.placement_solver.core.shards import foreign_nodes, owner
from berth.placement_solver.core.solve import Solver
from berth.placement_solver.core.state_keys import namespaced, tombstone_version
from berth.placement_solver.core.volumes import KINDS as STORAGE_KINDS
from berth.placement_solver.core.volumes import StorageChange
from berth.rules.devices.templates import Templates
from berth.rules.pod_selectors import SelectingObjects
from berth.rules.preemption import Budget, compile_budget
from berth.rules.queueing import NO_LABELS
from berth.rules.queueing.events import NODE
from berth.rules.scheduler_config import DeviceShareArgs, Profile, SchedulerConfig
from berth.rules.storage import StorageObjects
from berth.transaction.book import FINISHED_PHASES, Book
from berth.transaction.claims import Claim, Name
from berth.transaction.nominations import Nomination


class ClusterView:
    """All views of one solver. `me` and `solvers` say which part of the work is this solver's."""

    def __init__(
        self,
        schedulers: Sequence[str],
        me: str,
        policy: Policy | None = None,
        *,
        config_map: tuple[str, str] | None = None,
        is_configured: bool = False,
        class_rows_bytes_max: int = ROWS_BYTES_MAX,
        handed_off: frozenset[str] = frozenset(),
    ) -> None:
        self.schedulers = frozenset(schedulers)
        self.me = me
        self.solvers: tuple[str, ...] = (me,)
        self.nodes = Nodes(handed_off=handed_off)
        self.inventories: Inventories[NodeInventory] = Inventories()
        self.topologies: Inventories[NodeTopology] = Inventories()
        self.quotas = Quotas()
        self.quotas.stamped = self._stamped
        self.payers = Payers(self.quotas)
        self.capacity = Capacity(self.nodes, self.quotas)
        self.reservations = Reservations()
        self.facts = facts_of(self.nodes, self._pod)
        self.volumes = self.facts.volumes
        self.selectors = self.facts.selectors
        self.loads = self.facts.loads
        self.capacity.tallies = self.facts.tallies
        self.namespaces: dict[str, dict[str, str]] = {}
        """The labels of each namespace."""
        self.configuration = ConfigurationView(self.schedulers, config_map, is_configured=is_configured)
        self.configuration.on_use = self._use
        self.on_profiles: Callable[[], None] = lambda: None
        """Called when other profiles hold."""
        self.on_npu_templates: Callable[[], None] = lambda: None
        """Called when there are other sizes of virtual NPUs, or other problems with them."""
        self.profiles = Profiles(self.facts)
        self.solver = Solver(self.capacity, self.reservations, policy or Policy())
        self.book = Book(on_change=self._on_claim, on_nomination=self._on_nomination, payer=self.payers.named)
        self.gangs = Gangs()
        self.budgets: dict[Name, Budget] = {}
        """Those that protect somebody."""
        self.eviction_inputs = Inputs()
        self.leavers = Leavers()
        self.beneficiaries = Beneficiaries()
        self.ground = Ground(
            self.nodes, self.capacity, self.book, self.solver, self.gangs, self.leavers, self.budgets.values
        )
        self.displacers = displacers_of(self.ground)
        self.classes = ClassTable(self.profiles, class_rows_bytes_max)
        self.solver.costs.on_rows = self.solver.picker.on_rows = self.classes.keep
        self.queue = Queue()
        self.happenings = Happenings(lambda namespace: self.namespaces.get(namespace, NO_LABELS))
        self.volumes.watch(self._storage_changed)
        self.pod_groups: dict[str, PodGroup] = {}
        self.awaited = AwaitedInputs(self.quotas)
        self.ledger_starts = 0
        self.changed_gangs: set[str] = set()
        self.loose: set[Name] = set()
        """Names whose decision is settled, or may become so while nobody judges the name: its object is not seen."""
        self.now = 0.0
        self.now_ms = 0
        self.capacity_came_back = False
        """In a way that is none of `happenings`, so that anybody may be helped by it."""
        self.quota_changed = False
        self.fellows_changed = False
        """Pods may be spread with others than before by constraints of the configuration."""
        self._batches = Batches(self.queue, self.gangs, self.awaited, self.classes, self.payers)
        self._trackers = {
            **self.book.complete,
            **self.volumes.complete,
            **self.eviction_inputs.complete,
            **self.selectors.complete,
            "elasticquotas": self.awaited.elastic_quotas.complete,
            **self.configuration.trackers,
        }
        self._state_began_anew = False
        self._traces: dict[Name, str] = {}
        self._leaving: Pod | None = None
        """The pod as it was before the message that is being read."""
        self._observers: list[Callable[[Claim, bool], None]] = []
        self._foreign_for: tuple[tuple[str, ...], int, int] = ((), 0, 0)

    # --- messages in -------------------------------------------------------------------------------------------------

    def reset_state(self) -> None:
        """STATE starts over. Nodes disappear until they are read again; decisions go on holding their capacity."""
        self.book.reset_state()
        self.loose = set(self.book.ledger.decisions)
        self.inventories.reset_state()
        self.topologies.reset_state()
        self._state_began_anew = True
        for name in self.nodes.names:
            self.nodes.see_node(name, None)
            self._see_images(name, None)
        self.loads.renew(self.nodes.names)
        for waiting in list(self.queue.waiting):
            self.queue.drop(waiting)
        self.gangs.reset()
        self.pod_groups.clear()
        self.namespaces.clear()
        self.budgets.clear()
        self.facts.peers.reset()
        self.awaited.reset_state()
        self.volumes.reset()
        self.eviction_inputs.reset()
        self.leavers.forget_pods()
        self.selectors.reset()
        self.changed_gangs.clear()
        self.configuration.reset()
        self.facts.npu_templates.reset()

    def end_of_state(self) -> None:
        """The end of STATE was reached."""
        was_complete, was_unread = self.volumes.is_complete, bool(self.eviction_inputs.unread)
        knew_fellows = self.selectors.is_complete
        for tracker in self._trackers.values():
            tracker.end()
        self.configuration.look()
        self._see_templates(self.facts.npu_templates.end())
        if self.volumes.is_complete and not was_complete:
            self.capacity_came_back = True  # pods with claims have waited for it
        if was_unread and not self.eviction_inputs.unread:
            self.capacity_came_back = True  # whom it may help that others leave
        self.fellows_changed |= self.selectors.is_complete and not knew_fellows
        self._settle()
        if self._state_began_anew:  # what was shown of a node before may be gone
            self._state_began_anew = False
            for name in self.nodes.names:
                self._count_devices(name)
                self._count_cores(name)
        self._look_at_unread()

    def read_state(self, key: str, value: bytes, *, deleted: bool, gap: bool, trace: str | None) -> None:
        """Take in one message of STATE. Raises InvalidMessage for a malformed one."""
        if gap:
            for tracker in self._trackers.values():
                tracker.gap()
        kind, _, rest = key.partition(".")
        if kind == "pod":
            self._read_pod(rest, value, deleted, trace)
        elif kind == "node":
            self._read_node(subjects.unescape(rest), value, deleted)
        elif kind == "device":
            self._read_device(subjects.unescape(rest), value, deleted)
        elif kind == "noderesourcetopology":
            self._read_report(subjects.unescape(rest), value, deleted)
        elif kind == "reservation":
            self._read_reservation(subjects.unescape(rest), value, deleted, trace)
        elif kind == "namespace":
            self._read_namespace(subjects.unescape(rest), value, deleted)
        elif kind == "podgroup":
            self._read_pod_group(rest, value, deleted)
        elif kind == "elasticquota":
            self._read_elastic_quota(rest, value, deleted)
        elif kind == "poddisruptionbudget":
            self._read_budget(rest, value, deleted)
        elif kind == "configmap":
            self.configuration.read_config_map(key, value, deleted)
            name, found = namespaced(rest), None if deleted else decode(value, ConfigMap)
            self._see_templates(self.facts.npu_templates.see(name, None if found is None else found.data))
        elif kind in STORAGE_KINDS:
            self.volumes.read(kind, rest, value, deleted=deleted)
        elif kind in SELECTING_KINDS:
            self.fellows_changed |= self.selectors.read(kind, rest, value, deleted=deleted)
        elif kind == "synced" and not deleted:
            marker = decode(value, Synced)
            if marker.kind in self._trackers:
                knew_fellows = self.selectors.is_complete
                self._trackers[marker.kind].marked(marker.version, marker.complete)
                self.fellows_changed |= self.selectors.is_complete and not knew_fellows
                self.configuration.look()
                self._settle()
                self._look_at_unread()

    def read_inventory(self, key: str, value: bytes, deleted: bool) -> None:
        """Take in one message of INVENTORY."""
        kind, _, rest = key.partition(".")
        if kind == "node":
            node = subjects.unescape(rest)
            self.inventories.publish(node, None if deleted else decode(value, NodeInventory))
            self._count_devices(node)
        elif kind == "topology":
            node = subjects.unescape(rest)
            self.topologies.publish(node, None if deleted else decode(value, NodeTopology))
            self._count_cores(node)

    def reset_inventory(self) -> None:
        """INVENTORY starts over: no devices and no CPUs until they are read again."""
        self.inventories.reset()
        self.topologies.reset()
        for name in self.nodes.names:
            self._count_devices(name)
            self._count_cores(name)

    def read_metrics(self, key: str, value: bytes, *, deleted: bool, stored_s: float) -> None:
        """Take in one message of METRICS; `stored_s` is when the bus stored it, in unix seconds."""
        kind, _, rest = key.partition(".")
        if kind == "node":
            node, message = subjects.unescape(rest), None if deleted else decode(value, NodeMetrics)
            if message is not None and message.node != node:
                raise InvalidMessage("node", "is not the name in the key")
            self._eased(self.loads.see_agent(node, message, stored_s))

    def read_node_metric(self, key: str, value: bytes, *, deleted: bool) -> None:
        """Take in one NodeMetric of STATE."""
        kind, _, rest = key.partition(".")
        if kind == "nodemetric":
            node, message = subjects.unescape(rest), None if deleted else decode(value, NodeMetric)
            if message is not None and message.name != node:
                raise InvalidMessage("name", "is not the name in the key")
            self._eased(self.loads.see_object(node, message))

    def reset_reports(self, *, agents: bool) -> None:
        """METRICS (`agents`), or the NodeMetrics, start over."""
        self._eased(self.loads.renew(self.loads.reports.reset(agents=agents)))

    @property
    def looks_at_load(self) -> bool:
        """Whether a profile asks what nodes really use."""
        return self.profiles.list_plugin(LoadAwareScheduling.name)

    def _eased(self, is_eased: bool) -> None:
        if is_eased and len(self.queue):
            self.happenings.eased()

    def read_quota(self, key: str, value: bytes, deleted: bool) -> None:
        """Take in one message of QUOTA."""
        kind, tree, name = (*subjects.parts(key), "", "")[:3]
        if kind == "group":
            self.quotas.see(tree, name, None if deleted else decode(value, QuotaGroup))
            self.quota_changed = True

    def reset_quota(self) -> None:
        """QUOTA starts over."""
        self.quotas.reset()
        self.awaited.elastic_quotas.anew_at = self.now

    def knows_quotas(self) -> bool:
        """Whether QUOTA has what STATE shows of ElasticQuotas, as far as who pays depends on it."""
        return self.awaited.elastic_quotas.are_in(self.quotas.knows, self.now)

    def read_reserved(self, key: str, value: bytes, deleted: bool) -> None:
        """Take in one message of RESERVATION."""
        kind, _, rest = key.partition(".")
        if kind == "reservation":
            name, capacity = subjects.unescape(rest), None if deleted else decode(value, ReservedCapacity)
            self.reservations.see(name, capacity)
            self.awaited.capacity.publish(name, capacity)
            self.capacity_came_back = True

    def reset_reserved(self) -> None:
        """RESERVATION starts over."""
        self.reservations.reset()
        self.awaited.capacity.reset_reserved()

    def read_ledger(self, key: str, value: bytes, deleted: bool, sequence: int) -> None:
        """Take in one message of LEDGER."""
        for name in sorted(self.book.read_ledger(key, value, deleted, sequence)):
            self._judge(name)

    def reset_ledger(self) -> None:
        """LEDGER starts over."""
        self.ledger_starts += 1
        names_before = list(self.book.ledger.decisions)
        self.book.reset_ledger()
        for name in names_before:
            self._judge(name)

    @property
    def has_news(self) -> bool:
        """Something happened that may help somebody who waits."""
        return self.capacity_came_back or self.quota_changed or self.fellows_changed or bool(self.happenings)

    def wake(self) -> None:
        """Those whom it may help are tried again, each after its own back-off."""
        if self.capacity_came_back:
            self.queue.wake(self.now)
        else:
            if self.quota_changed:
                self.queue.wake(self.now, _waits_for_quota)
            if self.fellows_changed:
                self.queue.wake(self.now, _waits_for_defaults)
            self.queue.wake_classes(self.now, self.happenings.concern)
        self.capacity_came_back = self.quota_changed = self.fellows_changed = False
        self.happenings.clear()

    @property
    def storage(self) -> StorageObjects:
        """Claims, volumes and what CSI drivers report."""
        return self.volumes.objects

    @property
    def selecting(self) -> SelectingObjects:
        """Services and controllers."""
        return self.selectors.objects

    @property
    def selecting_is_complete(self) -> bool:
        """Whether all of those were read to their end."""
        return self.selectors.is_complete

    @property
    def storage_is_complete(self) -> bool:
        """Whether all of that was read to its end."""
        return self.volumes.is_complete

    def _stamped(self, account: str) -> int | None:
        stamp = self.book.ledger.stamps.get(account)
        return stamp.revision if stamp is not None else None

    # --- the configuration -------------------------------------------------------------------------------------------

    def profile_of(self, scheduler: str) -> Profile:
        """What holds for the pods that name this scheduler."""
        return self.profiles.of(scheduler).profile

    def _use(self, config: SchedulerConfig) -> None:
        self.profiles.use({name: profile for name, profile in config.profiles.items() if name in self.schedulers})
        self.queue.back_off = config.back_off
        self.classes.forget()
        self.capacity_came_back = True  # who was refused may be taken by the rules that hold now
        self.on_profiles()

    def npu_templates_of(self, profile: Profile) -> Templates:
        """The sizes that virtual NPUs may have for the pods of a profile, by model."""
        return self.facts.npu_templates.of(place_of(profile.args_of(DEVICE_SHARE, DeviceShareArgs)))

    def _see_templates(self, is_another: bool) -> None:
        if is_another:
            self.classes.forget()
            self.capacity_came_back = True
            self.on_npu_templates()

    # --- units out ---------------------------------------------------------------------------------------------------

    def batch(self, limit: int) -> tuple[list[Unit], list[tuple[Waiting, Reason]]]:
        """Up to about `limit` candidates as units, first ones first; and members of groups that cannot be tried yet."""
        self._split_nodes()
        return self._batches.take(limit, self.now)

    def renewed(self, unit: Unit) -> Unit:
        """The unit with what constraints say of its candidates by now."""
        return self._batches.renewed(unit)

    def _split_nodes(self) -> None:
        key = (self.solvers, len(self.nodes), self.nodes.renamed)
        if key != self._foreign_for:
            self.solver.costs.foreign = foreign_nodes(self.nodes.names, self.me, self.solvers)
            self._foreign_for = key

    # --- rules of waiting --------------------------------------------------------------------------------------------

    def is_ours(self, obj: Pod | Reservation) -> bool:
        """Addressed to Berth."""
        if isinstance(obj, Reservation):
            return not obj.template.scheduler or obj.template.scheduler in self.schedulers
        return obj.template.scheduler in self.schedulers

    def is_mine(self, unit: str) -> bool:
        """This solver decides the unit."""
        return len(self.solvers) < 2 or owner(unit, self.solvers) == self.me

    def resharded(self, solvers: tuple[str, ...]) -> None:
        """Other solvers are alive: every waiting object is assigned anew."""
        self.solvers = solvers
        for name in [*self.book.pods, *self.book.reservations]:
            self._judge(name)
        # Also those without a member, whose last figures may be untold by the solver that is gone.
        self.changed_gangs.update(self.pod_groups)

    def is_pending(self, obj: Pod | Reservation) -> bool:
        """It waits for a node and may have one: unbound, not ended, not going away, no gates, no open decision (R3),
        and nobody whose leaving for it has still to begin (E1)."""
        if obj.node or obj.deleting or obj.phase in FINISHED_PHASES or obj.template.gates or not self.is_ours(obj):
            return False
        return self.turn(obj) is not Turn.NOT_YET

    def turn(self, obj: Pod | Reservation) -> Turn:
        """What may be planned for an object that waits."""
        return turn_of(self.book, (obj.namespace, obj.name) if isinstance(obj, Pod) else ("", obj.name), obj)

    def _judge(self, name: Name) -> None:
        """Put a name into the queue or take it out, as the book now has it."""
        seen = self.book.seen(name)
        decision = self.book.open_decision(name)
        holds = decision is not None and seen is not None and seen.uid == decision.uid
        if holds or name not in self.book.ledger.decisions:
            self.loose.discard(name)
        else:
            self.loose.add(name)
        gang_id = ""
        if name[0]:
            # A member that has ended counts until it is deleted.
            pod = seen if isinstance(seen, Pod) and self.is_ours(seen) else None
            former = self.gangs.gang_of(name)
            before = self.gangs.group_of(former.id) if former is not None else ""
            is_decided = pod is not None and decision is not None and not decision.nominates
            gang_id = self.gangs.see_pod(name, pod, decided=is_decided)
            if former is not None and self.gangs.group_of(former.id) != before:
                self._regroup(former, name)
        group = self.gangs.group_of(gang_id) if gang_id else ""
        if seen is None or not self.is_pending(seen) or not self.is_mine(group or seen.uid):
            self.queue.drop(name)
        else:
            self.queue.put(name, seen, group, self.now, self.now_ms, self._traces.pop(name, ""))
        if group:
            self.changed_gangs.add(gang_id)
            self._wake_group(group)

    def _regroup(self, gang: Gang, besides: Name) -> None:
        """The gang is of another group by what its members say now: another solver may be the one that decides it."""
        for member in sorted(gang.children - {besides}):
            self._judge(member)

    def _wake_group(self, group: str) -> None:
        """A gang's membership changed, and the group may be tried now: one waiting member stands up for all.

        Once that is enough for it to have begun, each stands for itself.
        """
        readiness: Readiness | None = None
        for name in pods_of(self.gangs.members_of_group(group), self.queue.waiting):
            waiting = self.queue.waiting[name]
            if waiting.tries and not waiting.ready and not waiting.held:
                continue
            readiness = readiness or self.gangs.readiness(group)
            if not readiness.ready:
                return
            self.queue.make_ready(waiting)
            if not readiness.satisfied:
                return

    def _settle(self) -> None:
        names = self.book.settle_waiting()
        # Whether a victim that is not shown has left depends on how complete the view is.
        names.update(each.name for each in self.book.nominations if each.victims)
        for name in sorted(names):
            self._judge(name)

    def _look_at_unread(self, *, is_news: bool = False) -> None:
        if self.awaited.ends_waits(is_news=is_news):
            self.quota_changed = True

    # --- claims ------------------------------------------------------------------------------------------------------

    def observe(self, observer: Callable[[Claim, bool], None]) -> None:
        """Tell somebody else of every claim that comes or goes (the verifier keeps tallies of its own)."""
        self._observers.append(observer)

    def _pod(self, name: Name) -> Pod | None:
        seen = self.book.seen(name)
        return seen if isinstance(seen, Pod) else None

    def _on_claim(self, claim: Claim, added: bool) -> None:
        self.capacity.on_change(claim, added)
        for observer in self._observers:
            observer(claim, added)
        if claim.is_reservation:
            self.capacity_came_back |= not added or claim.uid in self.reservations.known
        elif len(self.queue):
            pod = self._pod_of(claim)
            (self.happenings.came if added else self.happenings.left)(pod)

    def _on_nomination(self, nomination: Nomination, stands: bool) -> None:
        self.capacity.nominated.on_change(nomination, stands)
        self.beneficiaries.on_change(nomination, stands)
        self.leavers.on_nomination(nomination, stands)
        if not stands and len(self.queue):
            self.happenings.left(self._pod_of(nomination.claim))

    def forget_nomination(self, name: Name) -> None:
        """What STATE alone shows of a nomination holds nothing: its pod could not have it (E3)."""
        self.capacity.nominated.forget(name)
        self.capacity_came_back = True

    def _pod_of(self, claim: Claim) -> Pod | None:
        """The pod whose claim it is or was, on the node of the claim; None: it is not known."""
        pod = self.book.pods.get(claim.name)
        if pod is None or pod.uid != claim.uid:
            pod = self._leaving if self._leaving is not None and self._leaving.uid == claim.uid else None
        return pod if pod is None or pod.node else replace(pod, node=claim.node)

    # --- decoding ----------------------------------------------------------------------------------------------------

    def _read_pod(self, rest: str, value: bytes, deleted: bool, trace: str | None) -> None:
        name = namespaced(rest)
        tracker = self.book.complete["pods"]
        self._leaving = self.book.pods.get(name)
        pod = None
        if deleted:
            tracker.seen(tombstone_version(value))
        else:
            pod = decode(value, Pod)
            tracker.seen(pod.version)
            if trace and not pod.node:
                self._traces[name] = trace
        beneficiaries = self.beneficiaries.of(name, self.book)
        self.book.see_pod(name, pod)
        self.happenings.relabelled(self._leaving, pod)
        self._leaving = None
        self._see_pod(name)
        for each in sorted(beneficiaries | self.beneficiaries.of(name, self.book)):
            self._judge_beneficiary(each)
        self._traces.pop(name, None)

    def _read_reservation(self, name: str, value: bytes, deleted: bool, trace: str | None) -> None:
        key = ("", name)
        tracker = self.book.complete["reservations"]
        if deleted:
            reservation = None
            tracker.seen(tombstone_version(value))
        else:
            reservation = decode(value, Reservation)
            tracker.seen(reservation.version)
        self.book.see_reservation(key, reservation)
        if self.awaited.capacity.see(name, reservation):
            self.capacity_came_back = True
        self._judge(key)
        waiting = self.queue.waiting.get(key)
        if waiting is not None and waiting.is_overtaken and not waiting.ready:
            self.queue.rest_until(waiting, self.now)

    def _see_pod(self, name: Name) -> None:
        """The pod of a name has been read into the book."""
        pod = self._pod(name)
        self.facts.see_pod(name, pod)
        self.leavers.see_pod(name, pod)
        self._judge(name)

    def _judge_beneficiary(self, name: Name) -> None:
        """One of those who leave for it has moved: what may be planned for it may be another thing now."""
        self._judge(name)
        waiting = self.queue.waiting.get(name)
        if waiting is not None and not waiting.ready:
            self.queue.rest_until(waiting, self.now)

    def _read_budget(self, rest: str, value: bytes, deleted: bool) -> None:
        budget = None if deleted else compile_budget(decode(value, PodDisruptionBudget))
        if budget is None:
            self.budgets.pop(namespaced(rest), None)
        else:
            self.budgets[namespaced(rest)] = budget

    def _read_namespace(self, name: str, value: bytes, deleted: bool) -> None:
        labels = None if deleted else decode(value, Namespace).labels
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        peers = self.facts.peers
        before = peers.relabelled
        peers.see_namespace(name, labels)
        if peers.relabelled != before:
            self.capacity_came_back = True

    def _read_node(self, name: str, value: bytes, deleted: bool) -> None:
        node = None if deleted else decode(value, Node)
        before = self.nodes.states[self.nodes.row(name)]
        self.nodes.see_node(name, node)
        self.happenings.changed(NODE, before, node)
        self._see_images(name, node)
        self._eased(self.loads.renew((name,)))

    def _see_images(self, name: str, node: Node | None) -> None:
        alive = node is not None and not node.deleting
        row = self.nodes.rows.get(name)
        if row is not None:
            self.facts.images.see(row, node.images if node is not None and alive else None)

    def _storage_changed(self, change: StorageChange | None) -> None:
        if change is not None:
            self.happenings.changed(type(change.before or change.after).__name__, *change)

    def _read_device(self, node: str, value: bytes, deleted: bool) -> None:
        """Only how new it is: INVENTORY says what it comes to."""
        device = None if deleted else decode(value, Device)
        if device is not None and device.name != node:
            raise InvalidMessage("name", "is not the name in the key")
        self.inventories.see(node, None if device is None else device.version)
        self._count_devices(node)

    def _count_devices(self, node: str) -> None:
        """A node's devices may be others than before, or count from now on."""
        nodes, found, is_uncounted = self.nodes, self.inventories.of(node), self.inventories.waits(node)
        row = nodes.rows.get(node)
        was_uncounted = row is not None and bool(nodes.uncounted[row])
        if is_uncounted == was_uncounted and same_content(found, nodes.inventory(node)):
            return
        nodes.see_inventory(node, found, is_uncounted=is_uncounted)
        self.capacity_came_back = True

    def _read_report(self, node: str, value: bytes, deleted: bool) -> None:
        """Only how new it is: INVENTORY says what it comes to."""
        report = None if deleted else decode(value, NodeResourceTopology)
        if report is not None and report.name != node:
            raise InvalidMessage("name", "is not the name in the key")
        self.topologies.see(node, None if report is None else report.version)
        self._count_cores(node)

    def _count_cores(self, node: str) -> None:
        """A node's CPUs and NUMA nodes may be others than before, or count from now on."""
        nodes, found, is_uncounted = self.nodes, self.topologies.of(node), self.topologies.waits(node)
        row = nodes.rows.get(node)
        was_uncounted = row is not None and bool(nodes.cores.uncounted[row])
        if is_uncounted == was_uncounted and same_content(found, nodes.topology(node)):
            return
        nodes.see_topology(node, found, is_uncounted=is_uncounted)
        self.capacity_came_back = True

    def _read_elastic_quota(self, rest: str, value: bytes, deleted: bool) -> None:
        """Only which there are: QUOTA says what they allow."""
        namespace, name = namespaced(rest)
        if deleted:
            self.awaited.elastic_quotas.forget(namespace, name)
            self.awaited.elastic_quotas.complete.seen(tombstone_version(value))
        else:
            self.awaited.elastic_quotas.see(namespace, name, self.now)
            self.awaited.elastic_quotas.complete.seen(decode(value, ElasticQuota).version)
        self._look_at_unread(is_news=True)

    def _read_pod_group(self, rest: str, value: bytes, deleted: bool) -> None:
        namespace, name = namespaced(rest)
        group = None if deleted else decode(value, PodGroup)
        known = self.gangs.gangs.get(f"{namespace}/{name}")
        before = known.config if known else None
        gang_id = self.gangs.see_group(namespace, name, group)
        self.changed_gangs.add(gang_id)
        if group is None:
            self.pod_groups.pop(gang_id, None)
        else:
            self.pod_groups[gang_id] = group
        gang = self.gangs.gangs.get(gang_id)
        if gang is None:
            return
        for member in sorted(gang.children):
            if gang.config != before and member in self.queue.waiting:
                self.queue.waiting[member].tries = 0  # it was refused as a member of another gang, as it were
            self._judge(member)
        if not gang.children:
            self._wake_group(self.gangs.group_of(gang_id))


def _waits_for_defaults(waiting: Waiting) -> bool:
    """Constraints of the configuration keep it waiting."""
    is_spread = any(reason.code == "PodTopologySpread" for reason in waiting.reasons)
    return is_spread and not waiting.template.topology_spread


def _waits_for_quota(waiting: Waiting) -> bool:
    return any(reason.code == "quota" for reason in waiting.reasons)
