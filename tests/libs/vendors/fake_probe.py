"""A machine of dictionaries."""

from __future__ import annotations

from collections.abc import Mapping

from berth.vendors.probe import DeviceNumbers, NvmlFacts


class FakeProbe:
    """Files by path, links by path (of folders, too), device files by path. Folders follow from what is in them."""

    def __init__(
        self,
        files: Mapping[str, str] = {},
        links: Mapping[str, str] = {},
        devices: Mapping[str, tuple[int, int]] = {},
        nvml: NvmlFacts | None = None,
    ) -> None:
        self.files, self.links, self.devices = dict(files), dict(links), dict(devices)
        self.facts = nvml

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def names(self, path: str) -> tuple[str, ...] | None:
        inside = {
            known[len(path) + 1 :].partition("/")[0]
            for known in (*self.files, *self.links, *self.devices)
            if known.startswith(path + "/")
        }
        return tuple(sorted(inside, reverse=True)) or None

    def resolve(self, path: str) -> str | None:
        if path in self.links:
            return self.links[path]
        return path if path in self.files or self.names(path) else None

    def device(self, path: str) -> DeviceNumbers | None:
        numbers = self.devices.get(path)
        return DeviceNumbers(major=numbers[0], minor=numbers[1]) if numbers else None

    def nvml(self) -> NvmlFacts | None:
        return self.facts


def function(
    bus: str, *, vendor: str, product: str = "1", kind: str = "0x020000", numa: str = "0", root: str = "pci0000:3a"
) -> FakeProbe:
    """A PCI function behind a port of a root complex."""
    folder = f"/sys/bus/pci/devices/{bus}"
    files = {"vendor": f"0x{vendor}\n", "device": f"0x{product}\n", "class": f"{kind}\n", "numa_node": f"{numa}\n"}
    return FakeProbe(
        {f"{folder}/{name}": text for name, text in files.items()},
        {folder: f"/sys/devices/{root}/{root[3:]}:00.0/{bus}"},
    )


def together(*probes: FakeProbe, nvml: NvmlFacts | None = None) -> FakeProbe:
    """One machine of several parts."""
    whole = FakeProbe(nvml=nvml)
    for probe in probes:
        whole.files |= probe.files
        whole.links |= probe.links
        whole.devices |= probe.devices
    return whole
