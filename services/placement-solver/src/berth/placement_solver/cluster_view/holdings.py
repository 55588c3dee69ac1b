"""What a solver holds of the cluster, and how claims and the configuration move it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from berth.contracts.inventory import NodeInventory
from berth.contracts.state import (
    Pod,
    PodGroup,
)
from berth.contracts.topology import NodeTopology
from berth.placement_solver.configuration_view import ConfigurationView
from berth.placement_solver.core.awaited_inputs import AwaitedInputs
from berth.placement_solver.core.batches import Batches
from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.classes import ROWS_BYTES_MAX, ClassTable
from berth.placement_solver.core.constraints.device_share import NAME as DEVICE_SHARE
from berth.placement_solver.core.displacers.beneficiaries import Beneficiaries
from berth.placement_solver.core.displacers.charged_pods import ChargedPods
from berth.placement_solver.core.displacers.inputs import Inputs
from berth.placement_solver.core.displacers.leavers import Leavers
from berth.placement_solver.core.displacers.operating_pods import Placeholders
from berth.placement_solver.core.displacers.registry import displacers_of
from berth.placement_solver.core.displacers.seam import Ground
from berth.placement_solver.core.estimates.stays import Stays
from berth.placement_solver.core.facts import facts_of
from berth.placement_solver.core.groups import Gangs
from berth.placement_solver.core.growths import Growths
from berth.placement_solver.core.happenings import Happenings
from berth.placement_solver.core.inventories import Inventories
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.npu_templates import place_of
from berth.placement_solver.core.payers import Payers
from berth.placement_solver.core.policy import Policy, policy_of
from berth.placement_solver.core.prices.keeping import ASKED_FROM, PriceKeeping
from berth.placement_solver.core.profiles import Profiles
from berth.placement_solver.core.queue import Queue
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.reserved import Reservations
from berth.placement_solver.core.revoking import Revocations
from berth.placement_solver.core.solve import Solver
from berth.placement_solver.core.take_overs.placing import TakeOvers
from berth.placement_solver.core.volumes import StorageChange
from berth.placement_solver.origins.answers import NOTHING_KEPT
from berth.placement_solver.reading import Reading
from berth.rules.devices.templates import Templates
from berth.rules.pod_selectors import SelectingObjects
from berth.rules.preemption import Budget
from berth.rules.queueing import NO_LABELS
from berth.rules.scheduler_config import DeviceShareArgs, Profile, SchedulerConfig
from berth.rules.storage import StorageObjects
from berth.transaction.book import Book
from berth.transaction.claims import Claim, Name
from berth.transaction.nominations import Nomination


class Holdings:
    """Book, columns, gangs and queue of one solver. `me` and `solvers` say which part of the work is this solver's."""

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
        prices_from: int = ASKED_FROM,
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
        self.reservations = Reservations()
        self.gangs = Gangs()
        self.facts = facts_of(self.nodes, self._pod, self.gangs, self._place_of)
        self.capacity = Capacity(self.nodes, self.quotas, self.facts.charges)
        self.network = self.facts.network
        self.volumes = self.facts.volumes
        self.selectors = self.facts.selectors
        self.loads = self.facts.loads
        self.facts.pools.quotas = self.quotas
        self.charged = ChargedPods()
        self.facts.charges.tell(self.charged)
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
        self.book = Book(on_change=self._on_claim, on_nomination=self._on_nomination, payer=self.payers.charge)
        self.take_overs = self.solver.take_overs = TakeOvers(self.nodes, self.book)
        self.budgets: dict[Name, Budget] = {}
        """Those that protect somebody."""
        self.eviction_inputs = Inputs()
        self.leavers = Leavers()
        self.beneficiaries = Beneficiaries()
        self.placeholders = Placeholders()
        self.ground = Ground(
            self.nodes,
            self.capacity,
            self.book,
            self.solver,
            self.gangs,
            self.leavers,
            self.charged,
            self.budgets.values,
            self.placeholders,
            lambda: self.moment,
        )
        self.displacers = displacers_of(self.ground)
        self.revocations = Revocations(self.ground)
        self.classes = ClassTable(self.profiles, class_rows_bytes_max)
        self.solver.costs.on_rows = self.solver.picker.on_rows = self.classes.keep
        self.growths = Growths(self.nodes, self.book, self.profiles.of)
        self.queue = Queue()
        self.happenings = Happenings(
            lambda namespace: self.namespaces.get(namespace, NO_LABELS),
            lambda waiting, node: self.nodes.could_hold(node, waiting.template.requests),
        )
        self.volumes.watch(self._storage_changed)
        self.pod_groups: dict[str, PodGroup] = {}
        self.awaited = AwaitedInputs(self.quotas, self.payers)
        self.ledger_starts = 0
        self.changed_gangs: set[str] = set()
        self.loose: set[Name] = set()
        """Names whose decision is settled, or may become so while nobody judges the name: its object is not seen."""
        self.reading = Reading()
        """How far each bucket was read, where that is kept."""
        self.kept = NOTHING_KEPT
        """For whom capacity is kept while the optimiser thinks, if it is kept for anybody."""
        self.moment = 0
        """Grows with what is read, and with each round."""
        self.now = 0.0
        self.now_ms = 0
        self.capacity_came_back = False
        """In a way that is none of `happenings`, so that anybody may be helped by it."""
        self.quota_changed = False
        self.charged_anew: frozenset[str] = frozenset()
        """Quota groups for whose pods hooks say something else."""
        self.wakes = 0
        """How often something happened that may have helped somebody who waited."""
        self.fellows_changed = False
        """Pods may be spread with others than before by constraints of the configuration."""
        self.stays = Stays()
        self.prices = PriceKeeping(self.nodes, self.solver.costs, self.quotas, prices_from)
        self._batches = Batches(self.queue, self.gangs, self.awaited, self.classes, self.payers, self.prices.workload)
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

    def observe(self, observer: Callable[[Claim, bool], None]) -> None:
        """Tell somebody else of every claim that comes or goes (the verifier keeps tallies of its own)."""
        self._observers.append(observer)

    def _pod(self, name: Name) -> Pod | None:
        return self.book.pods.get(name)

    def _place_of(self, name: Name) -> str:
        """The node of a pod or Reservation, decided or bound; empty: it has none."""
        seen = self.book.seen(name)
        if seen is not None and seen.node:
            return seen.node
        decision = self.book.open_decision(name)
        return decision.node if decision is not None and not decision.nominates else ""

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

    def _stamped(self, account: str) -> int | None:
        stamp = self.book.ledger.stamps.get(account)
        return stamp.revision if stamp is not None else None

    @property
    def policy(self) -> Policy:
        """By which nodes are rated for pods of our first scheduler name."""
        return policy_of(self.profiles.of(min(self.schedulers)).node_cost, self.solver.policy)

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

    def _storage_changed(self, change: StorageChange | None) -> None:
        if change is not None:
            self.happenings.changed(type(change.before or change.after).__name__, *change)

    @property
    def storage(self) -> StorageObjects:
        """Claims, volumes and what CSI drivers report."""
        return self.volumes.objects

    @property
    def storage_is_complete(self) -> bool:
        """Whether all of that was read to its end."""
        return self.volumes.is_complete

    @property
    def selecting(self) -> SelectingObjects:
        """Services and controllers."""
        return self.selectors.objects

    @property
    def selecting_is_complete(self) -> bool:
        """Whether all of those were read to their end."""
        return self.selectors.is_complete
