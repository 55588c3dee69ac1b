"""Facts that several invariants stand on: who holds what. Read from the objects here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple, Self

import msgspec

from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.contracts.grants import CPU, OWN_ROOT, ZONE, device, function, granted, one
from berth.contracts.ledger import Decision, Grant, Loan, PlanStatus
from berth.contracts.state import PodTemplate
from berth.invariants.world import World
from berth.resources.amounts import Amounts, parse_amounts
from berth.resources.pod_request import request_of
from berth.rules.bounded_json import read_annotation
from berth.rules.cpus.resource_status import read_resource_status
from berth.rules.gpu_request import FAMILY, WHOLE_CARDS
from berth.rules.records.explained_devices import devices_held
from berth.rules.records.registry import QUOTA
from berth.rules.records.resource_status import ResourceStatus
from berth.rules.reservation_take_over import TAKE_OVER

STEP: Final = 500
"""So many pods are joined in one step."""
ENDED = frozenset({"Succeeded", "Failed"})
BY_MINOR = frozenset(FAMILY) | {names.RDMA, names.FPGA}
"""Resources that are given out device by device."""


class _Function(kube.View, frozen=True, kw_only=True):
    bus: str = msgspec.field(name="busID")


class _Extension(kube.View, frozen=True, kw_only=True):
    vfs: list[_Function] | None = None
    template: str = msgspec.field(default="", name="gpuSharedResourceTemplate")


class _Device(kube.View, frozen=True, kw_only=True):
    minor: int
    uuid: str = msgspec.field(default="", name="id")
    resources: dict[str, str | int | float] = {}
    extension: _Extension = _Extension()


class _Reference(kube.View, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""


_DEVICES = msgspec.json.Decoder(dict[str, list[_Device]])  # made once: that costs more than most annotations
_PICKED = msgspec.json.Decoder(dict[str, list[int]])
DEVICES_LENGTH_MAX = 1 << 18


@dataclass(frozen=True)
class Seen:
    """A pod with everything of it that is asked for more than once."""

    pod: kube.Pod
    is_ours: bool

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return (self.pod.metadata.namespace, self.pod.metadata.name)

    @property
    def text(self) -> str:
        """How evidence names it."""
        return "/".join(self.key)

    @property
    def uid(self) -> str:
        """Its uid."""
        return self.pod.metadata.uid

    @property
    def node(self) -> str:
        """Where it is bound, or empty."""
        return self.pod.spec.node_name

    @property
    def is_live(self) -> bool:
        """It has not ended."""
        return self.pod.status.phase not in ENDED

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.pod.metadata.labels or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.pod.metadata.annotations or {}

    @property
    def plan(self) -> str:
        """The plan it was bound under, or empty."""
        return self.annotations.get(names.ANNOTATION_PLAN, "")

    @property
    def attempt(self) -> int:
        """How many of its decisions were withdrawn."""
        text = self.annotations.get(names.ANNOTATION_ATTEMPT, "0")
        return int(text) if text.isdecimal() and len(text) < 16 else 0

    @property
    def reservation(self) -> str:
        """Uid of the reservation that it uses, or empty."""
        return read_reservation_uid(self.annotations)

    @cached_property
    def amounts(self) -> Amounts:
        """Its scheduling request; of a bound pod that is being resized, the largest of wanted, granted and in force."""
        return request_of(self.pod.spec, status=self.pod.status if self.pod.spec.node_name else None)[0]

    @cached_property
    def devices(self) -> list[Grant]:
        """The devices, CPUs and shares of NUMA nodes it was given, as noted."""
        return [*read_devices(self.annotations), *read_cores(self.annotations)]

    @property
    def is_deleting(self) -> bool:
        """Its deletion was asked for."""
        return self.pod.metadata.deletion_timestamp is not None

    @cached_property
    def overhead(self) -> Amounts:
        """What of its request is its runtime class's."""
        return amounts_of(self.pod.spec.overhead)

    @property
    def holds_number(self) -> bool:
        """It asks for whole cards by a vendor's count, and no note says which it was given."""
        has_some = any(grant.kind == "gpu" for grant in self.devices)
        return not has_some and any(self.amounts.get(name, 0) > 0 for name in WHOLE_CARDS)

    @property
    def held_devices(self) -> list[Grant]:
        """Of what is noted what its request explains: anybody can write a note."""
        devices = devices_held(tuple(self.devices), self.amounts, self.annotations)
        return [*devices, *cores_held(self.pod, self.amounts).grants]


class CoresHeld(NamedTuple):
    """`is_unknown`: it holds some of a kind of which nobody can say which."""

    grants: tuple[Grant, ...] = ()
    is_unknown: bool = False


class Holder(NamedTuple):
    """Who holds capacity: a bound pod, or a pod with a decision that still counts."""

    text: str
    uid: str
    key: tuple[str, str]
    node: str
    amounts: Amounts
    devices: list[Grant]
    labels: Mapping[str, str]
    quota: str
    reservation: str
    is_ours: bool
    is_bound: bool
    overhead: Amounts = {}
    """What of the amounts is the runtime class's."""
    surcharge: Amounts = {}
    """What its quota group is charged beyond the amounts."""
    is_deleting: bool = False


@dataclass
class Facts:
    """The world, joined."""

    world: World
    pods: dict[tuple[str, str], Seen] = field(default_factory=dict)
    holders: list[Holder] = field(default_factory=list)
    on_node: dict[str, list[Holder]] = field(default_factory=dict)
    taken_over: set[tuple[str, str]] = field(default_factory=set)
    """Uids of Reservations, and of the pods that their decisions take over."""
    _picked: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World) -> Self:
        """All of it at once."""
        found = cls(world)
        for _ in found.join():
            pass
        return found

    def join(self) -> Iterator[None]:
        """Join, in steps of some milliseconds each, for whoever does something else in between."""
        self._picked = _picked_by_kubelet(self.world.devices)
        for pod in self.world.pods:
            seen = Seen(pod, pod.spec.scheduler_name in self.world.schedulers)
            self.pods[seen.key] = seen
        yield
        for holder in chain(self._bound(), self._decided()):
            self.holders.append(holder)
            self.on_node.setdefault(holder.node, []).append(holder)
            if not len(self.holders) % STEP:
                yield
        for held in self.world.ledger.decisions.values():
            taken = (step.pod_uid for step in held.decision.before if step.action == TAKE_OVER)
            self.taken_over.update((held.decision.uid, uid) for uid in taken)

    def is_current(self, decision: Decision) -> bool:
        """Its pod lives unbound, uid and attempt are still the same, and its plan was not given up."""
        seen = self.pods.get((decision.namespace, decision.name))
        status = self.world.ledger.plan_status(decision.plan)
        return (
            decision.kind == "pod"
            and status is not PlanStatus.ABORTED
            and seen is not None
            and seen.is_live
            and not seen.node
            and seen.uid == decision.uid
            and seen.attempt == decision.attempt
        )

    def picked(self, seen: Seen) -> list[Grant]:
        """The whole cards that kubelet says it has picked for a pod which holds a number of them."""
        minors = self._picked.get((seen.node, seen.uid), ()) if seen.holds_number else ()
        return [device("gpu", minor, {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}) for minor in minors]

    def _bound(self) -> Iterator[Holder]:
        for seen in self.pods.values():
            if seen.node and seen.is_live:
                yield Holder(
                    text=seen.text,
                    uid=seen.uid,
                    key=seen.key,
                    node=seen.node,
                    amounts=seen.amounts,
                    devices=[*seen.held_devices, *self.picked(seen)],
                    labels=seen.labels,
                    quota=seen.annotations.get(names.ANNOTATION_QUOTA, ""),
                    reservation=seen.reservation,
                    is_ours=seen.is_ours,
                    is_bound=True,
                    overhead=seen.overhead,
                    surcharge=QUOTA.read_surcharge(seen.annotations),
                    is_deleting=seen.is_deleting,
                )

    def _decided(self) -> Iterator[Holder]:
        for key, held in self.world.ledger.decisions.items():
            decision = held.decision
            # A nomination takes nothing yet: its victims are still there.
            if self.is_current(decision) and not decision.nominates:
                yield Holder(
                    text=f"{'/'.join(key)} (decided)",
                    uid=decision.uid,
                    key=key,
                    node=decision.node,
                    amounts=decision.allocation.amounts,
                    devices=list(granted(decision.allocation)),
                    labels=self.pods[key].labels,
                    quota=decision.quota,
                    reservation=decision.reservation_uid,
                    is_ours=True,
                    is_bound=False,
                    overhead=self.pods[key].overhead,
                    surcharge=decision.surcharge,
                    is_deleting=self.pods[key].is_deleting,
                )


def _picked_by_kubelet(devices: Iterable[kube.Device]) -> dict[tuple[str, str], list[int]]:
    """The minors that kubelet has picked by the word of each Device, by node and uid."""
    return {
        (each.metadata.name, uid): minors
        for each in devices
        for uid, minors in read_picked(each.metadata.annotations or {}).items()
    }


def read_picked(annotations: Mapping[str, str]) -> dict[str, list[int]]:
    """The minors that kubelet has picked by the word of a Device, by uid; none where it cannot be read."""
    text = annotations.get(names.ANNOTATION_KUBELET_CARDS)
    if not text or len(text) > DEVICES_LENGTH_MAX:
        return {}
    try:
        return _PICKED.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}


def read_devices(annotations: Mapping[str, str]) -> list[Grant]:
    """The devices in the annotation of a bind, and their virtual functions; empty when it is absent or cannot be
    read."""
    found: list[Grant] = []
    for kind, each in _devices(annotations):
        template = each.extension.template if kind == "gpu" else ""
        found.append(device(kind, each.minor, parse_amounts(each.resources, "resources")[0], template))
        found += (function(one.bus, kind, each.minor) for one in each.extension.vfs or ())
    return found


def read_device_names(annotations: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """What the devices in that annotation are called, by kind and minor; those that it does not call anything are left
    out."""
    return {(kind, str(each.minor)): each.uuid for kind, each in _devices(annotations) if each.uuid}


def _devices(annotations: Mapping[str, str]) -> Iterator[tuple[str, _Device]]:
    text = annotations.get(names.ANNOTATION_DEVICE_ALLOCATED)
    if not text or len(text) > DEVICES_LENGTH_MAX:
        return
    try:
        read = _DEVICES.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return
    for kind, devices in sorted(read.items()):
        for each in devices:
            yield kind, each


def read_cores(annotations: Mapping[str, str]) -> list[Grant]:
    """The CPUs and shares of NUMA nodes in the annotation of a bind; empty when it is absent or cannot be read."""
    if not annotations.get(names.ANNOTATION_RESOURCE_STATUS):
        return []
    status = read_resource_status(annotations)
    if isinstance(status, Problem):
        return []
    shares = [Grant(kind=ZONE, id=str(each.zone), amounts=each.amounts) for each in status.zones]
    return [*(one(CPU, str(cpu)) for cpu in sorted(status.cpus)), *shares]


def cores_held(pod: kube.Pod, amounts: Amounts) -> CoresHeld:
    """Of what is noted of CPUs and NUMA nodes what the request explains."""
    annotations = pod.metadata.annotations or {}
    if not annotations.get(names.ANNOTATION_RESOURCE_STATUS):
        return CoresHeld()
    template = PodTemplate(
        requests=amounts,
        overhead=amounts_of(pod.spec.overhead),
        labels=pod.metadata.labels or {},
        annotations=annotations,
        priority=pod.spec.priority or 0,
    )
    record = ResourceStatus()
    grants = record.held(tuple(read_cores(annotations)), template)
    return CoresHeld(grants, not grants and record.asks(template))


def read_reservation_uid(annotations: Mapping[str, str]) -> str:
    """Uid of the reservation in the annotation of a bind; empty when there is none or it cannot be read."""
    read = read_annotation(annotations, names.ANNOTATION_RESERVATION_ALLOCATED, _Reference)
    return read.uid if isinstance(read, _Reference) else ""


def read_loans(annotations: Mapping[str, str]) -> list[Loan]:
    """What a pod borrows of Reservations by the annotation of its bind; nothing when it cannot be read."""
    read = read_annotation(annotations, names.ANNOTATION_BORROWED, list[Loan])
    return read if isinstance(read, list) else []


def amounts_of(mapping: Mapping[str, kube.Quantity] | None) -> Amounts:
    """A resource list as integers; unreadable entries are left out."""
    return parse_amounts(mapping, "")[0]


def dumped(grants: Iterable[Grant]) -> str:
    """Grants in one form, for comparing and for evidence. How CPUs and PCIe roots are exclusive the pod says, and not
    its record."""
    rows = sorted(
        (
            grant.kind,
            grant.id,
            sorted(grant.amounts.items()),
            "" if grant.kind == CPU or grant.extension == OWN_ROOT else grant.extension,
        )
        for grant in grants
    )
    return msgspec.json.encode(rows).decode()
