"""What the verifier reads: holders and messages as they came in, nothing that the solver has worked out of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from berth.contracts.inventory import NodeInventory
from berth.contracts.network import NetworkLayers, NodeDomains
from berth.contracts.quota import PodCharge, QuotaGroup
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.slo import NodeOffer
from berth.contracts.state import Node, PodGroup
from berth.contracts.topology import NodeTopology
from berth.rules.devices.templates import Templates
from berth.rules.gang_config import GangConfig
from berth.rules.load_aware.reports import LoadReports
from berth.rules.pod_selectors import SelectingObjects
from berth.rules.scheduler_config import Profile
from berth.rules.storage import Storage
from berth.transaction.book import Book
from berth.transaction.claims import Claim, Name


class NodeTable(Protocol):
    """STATE's nodes and INVENTORY, by row; what SLO says that they lend, by name."""

    @property
    def rows(self) -> Mapping[str, int]: ...
    @property
    def states(self) -> Sequence[Node | None]: ...
    @property
    def inventories(self) -> Sequence[NodeInventory | None]: ...
    @property
    def topologies(self) -> Sequence[NodeTopology | None]: ...
    @property
    def offers(self) -> Mapping[str, NodeOffer]: ...


class QuotaTable(Protocol):
    """QUOTA, by tree and name. `version` is another one whenever a group is."""

    @property
    def groups(self) -> Mapping[tuple[str, str], QuotaGroup]: ...
    @property
    def version(self) -> int: ...


class ChargeTable(Protocol):
    """QUOTA's word of what hooks say, by class of pods."""

    @property
    def known(self) -> Mapping[str, PodCharge]: ...


class PayerTable(Protocol):
    """Where that is kept."""

    @property
    def surcharges(self) -> ChargeTable: ...


class KnownCapacity(Protocol):
    """One message of RESERVATION."""

    @property
    def capacity(self) -> ReservedCapacity: ...


class ReservationTable(Protocol):
    """RESERVATION, by uid."""

    @property
    def known(self) -> Mapping[str, KnownCapacity]: ...


class GangRecord(Protocol):
    """Who belongs to a gang, what its settings are, and whether it has begun at some time."""

    @property
    def config(self) -> GangConfig | None: ...
    @property
    def children(self) -> set[Name]: ...
    @property
    def has_begun(self) -> bool: ...


class GangTable(Protocol):
    """Gangs by `namespace/name`."""

    @property
    def gangs(self) -> Mapping[str, GangRecord]: ...


class LoadView(Protocol):
    """Reports, and what time it is by the clock of the bus, in unix seconds."""

    @property
    def reports(self) -> LoadReports: ...
    @property
    def now_s(self) -> float: ...


class NetworkTable(Protocol):
    """INVENTORY's layers of the network, and where each node lies."""

    @property
    def message(self) -> NetworkLayers | None: ...
    @property
    def domains(self) -> Mapping[str, NodeDomains]: ...


class View(Protocol):
    """A solver's view, as far as the verifier looks at it."""

    @property
    def book(self) -> Book: ...
    @property
    def nodes(self) -> NodeTable: ...
    @property
    def quotas(self) -> QuotaTable: ...
    @property
    def payers(self) -> PayerTable: ...
    @property
    def reservations(self) -> ReservationTable: ...
    @property
    def gangs(self) -> GangTable: ...
    @property
    def network(self) -> NetworkTable: ...
    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def storage_is_complete(self) -> bool: ...
    @property
    def selecting(self) -> SelectingObjects: ...
    @property
    def selecting_is_complete(self) -> bool: ...
    @property
    def loads(self) -> LoadView: ...
    @property
    def pod_groups(self) -> Mapping[str, PodGroup]: ...

    def profile_of(self, scheduler: str) -> Profile:
        """What holds for the objects that name this scheduler."""

    def npu_templates_of(self, profile: Profile) -> Templates:
        """The sizes that virtual NPUs may have for the objects of a profile, by model."""

    def observe(self, observer: Callable[[Claim, bool], None]) -> None:
        """Called for every claim that comes (True) or goes (False)."""
