"""The vendors there are. A new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from berth.vendors.amd import Amd
from berth.vendors.ascend import Ascend
from berth.vendors.cambricon import Cambricon
from berth.vendors.fpga import Fpga
from berth.vendors.hygon import Hygon
from berth.vendors.kunlun import Kunlun
from berth.vendors.metax import Metax
from berth.vendors.nvidia import Nvidia
from berth.vendors.rdma import Rdma
from berth.vendors.vendor import Vendor

ACCELERATOR: Final = "gpu"
"""The kind whose devices several vendors make: the node's vendor label says whose they are."""


@dataclass(frozen=True, slots=True)
class Registry:
    """Vendors in the order in which their devices are looked for. `unlabelled` is whose GPUs a Device without a vendor
    label has: agents older than the label knew no other."""

    vendors: tuple[Vendor, ...]
    unlabelled: str = Nvidia.name

    def __iter__(self) -> Iterator[Vendor]:
        """Each vendor."""
        return iter(self.vendors)

    def of(self, kind: str, label: str = "") -> Vendor | None:
        """Whose devices of a kind are: accelerators by their vendor label, the others by their kind."""
        own = [vendor for vendor in self.vendors if vendor.kind == kind]
        if kind != ACCELERATOR:
            return own[0] if own else None
        name = (label or self.unlabelled).lower()
        return next((vendor for vendor in own if name == vendor.name or name in vendor.aliases), None)


REGISTRY: Final = Registry(
    (Nvidia(), Ascend(), Cambricon(), Kunlun(), Metax(), Amd(), Hygon(), Rdma(), Fpga()),
)
