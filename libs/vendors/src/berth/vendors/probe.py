"""What a vendor may ask of a machine. Who implements it does the I/O; a vendor only reads answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlGpu:
    """One GPU as NVIDIA's library describes it.

    `bus` is its PCI address in any notation, `memory` its total in bytes, `module` its slot. `xids` are the critical
    events that still count against it; `tells_health` is false where the driver cannot register for events.
    `is_split`: it is in MIG mode, and programs reach its instances alone. `peers` are the PCI addresses of the GPUs to
    which its active NVLinks lead, `is_switched` says that some lead to an NVSwitch.
    """

    uuid: str
    minor: int
    memory: int
    bus: str = ""
    name: str = ""
    module: int | None = None
    xids: tuple[int, ...] = ()
    tells_health: bool = True
    is_split: bool = False
    peers: tuple[str, ...] = ()
    is_switched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlFacts:
    """What NVIDIA's library says; `stray_xids` are critical events that name no known GPU."""

    gpus: tuple[NvmlGpu, ...] = ()
    driver: str = ""
    stray_xids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNumbers:
    """A device file: its numbers, and whether it is of blocks."""

    major: int
    minor: int
    is_block: bool = False


class Probe(Protocol):
    """The machine, read. Nothing raises: what is not there, or cannot be read, is None."""

    def read(self, path: str) -> str | None:
        """The text of a file."""

    def names(self, path: str) -> tuple[str, ...] | None:
        """The names in a folder, in any order."""

    def resolve(self, path: str) -> str | None:
        """The absolute path with every link followed."""

    def device(self, path: str) -> DeviceNumbers | None:
        """The numbers of a device file."""

    def nvml(self) -> NvmlFacts | None:
        """What NVIDIA's library says; None where there is none."""
