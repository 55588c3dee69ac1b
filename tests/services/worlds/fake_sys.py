"""A sysfs tree in a folder: what the kernel shows of PCI functions, network interfaces and NUMA nodes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class FakeSys:
    """Files and links below `root`, as below /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, path: str, target: str) -> None:
        """A relative link, as the kernel has them."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(os.path.relpath(self.root / target, file.parent))

    def function(self, bus: str, *, vendor: str, kind: str, numa: str = "0", root: str = "pci0000:3a") -> str:
        """A PCI function behind a port of a root complex; its folder."""
        folder = f"devices/{root}/{root[3:]}:00.0/{bus}"
        for name, text in (("vendor", f"0x{vendor}"), ("device", "0x1"), ("class", kind), ("numa_node", numa)):
            self.write(f"{folder}/{name}", f"{text}\n")
        self.link(f"bus/pci/devices/{bus}", folder)
        return folder

    def nic(self, number: int, *, functions: int = 0, numa: str = "0") -> str:
        """A Mellanox interface with so many virtual functions; its PCI address."""
        bus = f"0000:{number + 16:02x}:00.0"
        folder = self.function(bus, vendor="15b3", kind="0x020000", numa=numa)
        (self.root / folder / f"infiniband/mlx5_{number}").mkdir(parents=True)
        self.port(number, "4: ACTIVE")
        self.write(f"{folder}/sriov_numvfs", f"{functions}\n")
        for function in range(functions):
            own = f"0000:{number + 16:02x}:00.{function + 1}"
            self.link(f"{folder}/virtfn{function}", self.function(own, vendor="15b3", kind="0x020000", numa=numa))
            self.link(f"bus/pci/devices/{own}/physfn", folder)
        return bus

    def port(self, number: int, state: str) -> None:
        """What the only port of an interface says."""
        self.write(f"class/infiniband/mlx5_{number}/ports/1/state", f"{state}\n")

    def unplug(self, number: int) -> None:
        """The interface is gone."""
        bus = f"0000:{number + 16:02x}:00.0"
        shutil.rmtree((self.root / f"bus/pci/devices/{bus}").resolve())
        (self.root / f"bus/pci/devices/{bus}").unlink()
