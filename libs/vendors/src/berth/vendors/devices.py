"""Devices of a node as a vendor finds them, before they become a Device object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from berth.contracts.base import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a device sits. `numa_node` and `socket` -1 and empty texts are unknown.

    `pcie` is the root complex (`pci0000:3a`), as the protocol has it; `switches` are the PCI addresses from there down
    to the device's own port, so that what hangs on one switch differs from what only shares a root.
    """

    numa_node: int = -1
    socket: int = -1
    pcie: str = ""
    bus: str = ""
    switches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is said of a device's health: a code and a sentence in the vendor's words."""

    healthy: bool
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A direct link to the devices of these minors, such as HCCS. One whose only peer is the device itself makes it a
    group of one in the partition table."""

    kind: str
    peers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDevice:
    """One device. Amounts are by resource name in base units.

    `status` None: nobody says anything about its health, and it counts as healthy. `module` is its slot. `functions`
    are the PCI addresses of its virtual functions. `has_links`: its vendor says how devices are linked, if only that
    this one is not.
    """

    kind: str
    minor: int
    id: str
    vendor: str = ""
    model: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)
    status: Status | None = None
    place: Place | None = None
    module: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    has_links: bool = False
    honors_partitions: bool = False

    @property
    def is_healthy(self) -> bool:
        """Whether something new may be placed on it."""
        return self.status is None or self.status.healthy


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is on a machine, and what of it could not be read.

    `driver` is the version of the accelerators' driver, `model` the model that the node may be called by, empty where
    they differ.
    """

    devices: tuple[FoundDevice, ...] = ()
    problems: tuple[Problem, ...] = ()
    driver: str = ""
    model: str = ""


def common_model(devices: Iterable[FoundDevice]) -> str:
    """The model, where all are of one."""
    models = {device.model for device in devices}
    return models.pop() if len(models) == 1 else ""
