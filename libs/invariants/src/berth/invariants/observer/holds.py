"""What one pod takes: by its object once it is bound, by its decision before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.grants import CPU, DEVICE_KINDS, VF, ZONE, granted
from berth.contracts.ledger import Decision, Grant
from berth.invariants.facts import BY_MINOR
from berth.invariants.observer.pods import Watched
from berth.invariants.things import GPU
from berth.rules.records.registry import QUOTA

Minor = tuple[str, str, str, str]
"""Node, kind, minor, resource."""
DEVICES: Final = DEVICE_KINDS | {VF}
CORES: Final = frozenset({CPU, ZONE})


class Hold(NamedTuple):
    """`quota` is the group that paid at the bind, `groups` those that are charged now, the one that pays first, and
    `charged` what they are charged; `named` is the group that the pod names. `overhead` is what of the amounts is the
    runtime class's, `surcharge` what is charged beyond them."""

    uid: str
    text: str
    node: str
    amounts: Mapping[str, int]
    devices: tuple[tuple[Minor, int], ...] = ()
    quota: str = ""
    named: str | None = None
    namespace: str = ""
    groups: tuple[str, ...] = ()
    is_non_preemptible: bool = False
    is_ours: bool = True
    is_bound: bool = False
    since_s: float = 0.0
    cut: frozenset[str] = frozenset()
    """The chips that it has a part of which is one of their sizes, by minor."""
    overhead: Mapping[str, int] = {}
    surcharge: Mapping[str, int] = {}
    is_deleting: bool = False
    charged: Mapping[str, int] = {}
    are_cores_unknown: bool = False
    """It has CPUs or shares of NUMA nodes, and nobody can say which."""

    @property
    def chips(self) -> frozenset[str]:
        """Cards and chips, by minor."""
        return frozenset(minor[2] for minor, _ in self.devices if minor[1] == GPU)

    @property
    def unknown(self) -> frozenset[str]:
        """The kinds of grants of which it holds some that nobody can name."""
        wants = any(amount > 0 and name in BY_MINOR for name, amount in self.amounts.items())
        devices = DEVICES if wants and not holds_devices(self) else frozenset[str]()
        return devices | CORES if self.are_cores_unknown else devices


def of_bound(pod: Watched) -> Hold:
    """By its object."""
    held = pod.held_devices
    return Hold(
        uid=pod.uid,
        text=pod.text,
        node=pod.node,
        amounts=pod.amounts,
        devices=minors_of(pod.node, held),
        cut=_cut(held),
        quota=pod.annotations.get(names.ANNOTATION_QUOTA, "").rpartition("/")[2],
        named=pod.labels.get(names.LABEL_QUOTA_NAME),
        namespace=pod.name[0],
        is_non_preemptible=pod.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false",
        is_ours=pod.is_ours,
        is_bound=True,
        since_s=pod.bound_s,
        are_cores_unknown=pod.are_cores_unknown,
        overhead=pod.overhead,
        surcharge=QUOTA.read_surcharge(pod.annotations),
        is_deleting=pod.is_deleting,
    )


def of_decided(decision: Decision, pod: Watched) -> Hold:
    """By its decision."""
    return Hold(
        uid=decision.uid,
        text=pod.text,
        node=decision.node,
        amounts=decision.allocation.amounts,
        devices=minors_of(decision.node, granted(decision.allocation)),
        cut=_cut(granted(decision.allocation)),
        quota=decision.quota.rpartition("/")[2],
        named=pod.labels.get(names.LABEL_QUOTA_NAME),
        namespace=pod.name[0],
        is_non_preemptible=decision.non_preemptible,
        overhead=pod.overhead,
        surcharge=decision.surcharge,
        is_deleting=pod.is_deleting,
    )


def minors_of(node: str, grants: Iterable[Grant]) -> tuple[tuple[Minor, int], ...]:
    """Grants in the form of a hold."""
    return tuple(
        ((node, grant.kind, grant.id, name), amount) for grant in grants for name, amount in grant.amounts.items()
    )


def _cut(grants: Iterable[Grant]) -> frozenset[str]:
    return frozenset(grant.id for grant in grants if grant.kind == GPU and grant.extension)


def holds_devices(hold: Hold) -> bool:
    """Whether it is known to hold a device, whatever else it was given."""
    return any(minor[1] in DEVICE_KINDS for minor, _ in hold.devices)
