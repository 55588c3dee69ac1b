"""The seam: what a vendor says about itself. A vendor is a subclass in a file of its own and a line in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.vendor_limits import Limit
from berth.rules.gpu_request import ACCEPTED
from berth.vendors.devices import Found
from berth.vendors.probe import Probe

WHOLE: Final = 100
"""Percent of one device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One device that a pod was given.

    Amounts are by resource name in base units, `template` is the name of a fixed share (an Ascend vNPU), `functions`
    are the PCI addresses of virtual functions.
    """

    kind: str
    minor: int
    id: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)
    template: str = ""
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A pod that is about to be bound, with its accelerators. `time_ns` is the bind's time, Unix nanoseconds."""

    node: str
    namespace: str
    pod: str
    time_ns: int
    given: tuple[Given, ...]
    model: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOff:
    """What is written at the bind so that a device plugin takes the devices that were chosen.

    `lock` is the node's annotation that has to carry this pod's lock first; empty: none.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    lock: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container that is about to be created, and how this node isolates shared GPUs."""

    pod_uid: str
    name: str
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    library: str = "/usr/local/vgpu/libvgpu.so"
    monitors: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A bind mount of the host's `source`, with its submounts (`rbind`)."""

    source: str
    destination: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A device file that the container gets under the host's path, mode 0666."""

    path: str
    major: int
    minor: int
    is_block: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What a container gets. `folders` are the host's, to be made afresh with mode 0777 before it starts."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PciMatch:
    """PCI functions that are this vendor's accelerators: four hexadecimal digits, products that are none left out."""

    vendor: str
    but: frozenset[str] = frozenset()


def accepted_of(*resources: str) -> tuple[frozenset[str], ...]:
    """The combinations of request names that Koordinator's scheduler accepts and that consist of these."""
    return tuple(each for each in ACCEPTED if each <= frozenset(resources))


class Vendor:
    """What is common. A subclass says its name and overrides what differs.

    `name` is the value of `node.koordinator.sh/gpu-vendor` for accelerators, and the kind for what is no accelerator.
    `summed` are the names that a node publishes as a sum over healthy devices; `doubled` maps a further name to the one
    whose sum it repeats; `fixed` are names published with this much for each healthy device, whatever it reports.
    `keeps_whole`: names beside which admission adds no `koordinator.sh/gpu.shared`. `hands_off`: whether the hand-off
    is on unless a setting says otherwise; `limit` is what choices it can express. `pci`: by what an accelerator is
    known that only device files describe.
    """

    name: str
    kind: str = "gpu"
    aliases: frozenset[str] = frozenset()
    request_sets: tuple[frozenset[str], ...] = ()
    summed: tuple[str, ...] = (names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO)
    doubled: Mapping[str, str] = {}
    fixed: Mapping[str, int] = {}
    keeps_whole: frozenset[str] = frozenset()
    hands_off: bool = False
    limit: Limit | None = None
    pci: PciMatch | None = None

    def serves(self, asked: frozenset[str]) -> bool:
        """Whether a request of exactly these names can be met by this vendor's devices."""
        return asked in self.request_sets

    def discover(self, probe: Probe) -> Found:
        """The devices of this vendor beside those that device files describe."""
        return Found()

    def hand_off(self, bind: Bind) -> HandOff | Problem:
        """What this vendor's device plugin wants beside what all get; a problem keeps the pod from being bound."""
        return HandOff()

    def edits(self, container: Container, given: tuple[Given, ...], probe: Probe) -> Edits | Problem:
        """What the container gets for these devices; a problem keeps it from being created.

        Empty where the vendor's device plugin or runtime prepares the container by itself.
        """
        return Edits()


def given_field(device: Given, rest: str) -> str:
    """How problems name a field of what a pod was given."""
    return f"metadata.annotations[{names.ANNOTATION_DEVICE_ALLOCATED}].{device.kind}[minor {device.minor}].{rest}"
