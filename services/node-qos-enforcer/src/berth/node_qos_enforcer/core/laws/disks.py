"""Which disk is behind a device, a volume group or a volume of a pod, as lsblk, vgs, lvs and findmnt tell it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from berth.node_qos_enforcer.core.malformed import Malformed, quoted

DEV: Final = "/dev/"
MAPPER: Final = "/dev/mapper/"
DEVICE: Final = "device"
VOLUME_GROUP: Final = "volumegroup"
POD_VOLUME: Final = "podvolume"
LINES_MAX: Final = 10_000
_PAIR: Final = re.compile(r'([A-Z:]+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\x([0-9a-f]{2})")
_MINORS: Final = 16
"""Minor numbers that a disk and its partitions share on drivers which number them in blocks."""


class Disks(NamedTuple):
    """What is known of a node's disks.

    Device of a disk -> its number `major:minor`; device of a partition -> that of its disk (empty: not found); volume
    group on one disk -> its device; logical volume -> volume group; mount point -> device.
    """

    disk_number: Mapping[str, str] = {}
    partition_disk: Mapping[str, str] = {}
    vg_disk: Mapping[str, str] = {}
    lv_vg: Mapping[str, str] = {}
    mount_device: Mapping[str, str] = {}

    def number_of_device(self, device: str) -> str | None:
        """The number of the disk that a disk, partition or logical volume is on; None: not known."""
        if device in self.lv_vg:
            return self.number_of_group(self.lv_vg[device])
        return self.disk_number.get(self.partition_disk.get(device, device))

    def number_of_group(self, name: str) -> str | None:
        """The number of the disk that a volume group is on."""
        return self.disk_number.get(self.vg_disk.get(name, ""))


NO_DISKS: Final = Disks()


def number_of(
    disks: Disks, kind: str, name: str, *, kubelet_root: str = "", pod_uid: str = "", volume: str = ""
) -> str | None:
    """The number of the disk behind an entry of a strategy; None: not known.

    Args:
        disks: what is known of the node's disks.
        kind: of the entry.
        name: of the device or the volume group.
        kubelet_root: where kubelet keeps its files.
        pod_uid: of the pod whose volume it is.
        volume: how kubelet names the volume's directory: by the PersistentVolume, or by the pod's own name for it.
    """
    if kind == DEVICE:
        return disks.number_of_device(name)
    if kind == VOLUME_GROUP:
        return disks.number_of_group(name)
    if kind != POD_VOLUME:
        return None
    mount = f"{kubelet_root}/pods/{pod_uid}/volumes/kubernetes.io~csi/{volume}/mount"
    device = disks.mount_device.get(mount)
    return None if device is None else disks.number_of_device(device)


def read_lsblk(text: str, parents: Mapping[str, str] | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """Disks and partitions from `lsblk -P -o NAME,TYPE,MAJ:MIN`. Raises Malformed.

    Args:
        text: what it printed.
        parents: the disk of each partition, by name, as /sys has it. Without it a partition is taken to lie on the disk
            whose minor number begins its block of 16, and that stands before it, as Koordinator has it; that is wrong
            of NVMe.
    """
    numbers: dict[str, str] = {}
    partitions: dict[str, str] = {}
    by_number: dict[str, str] = {}
    for line in _lines(text):
        values = _pairs("lsblk", line, ("NAME", "TYPE", "MAJ:MIN"))
        name, kind, number = DEV + values["NAME"], values["TYPE"], values["MAJ:MIN"]
        if kind == "disk":
            numbers[name] = number
            by_number[number] = name
        elif kind == "part" and parents is not None:
            disk = parents.get(values["NAME"], "")
            partitions[name] = DEV + disk if disk else ""
        elif kind == "part":
            major, _, minor = number.partition(":")
            if not minor.isdecimal():
                raise Malformed("lsblk", f"MAJ:MIN is no number: {quoted(number)}")
            partitions[name] = by_number.get(f"{major}:{int(minor) - int(minor) % _MINORS}", "")
    return numbers, partitions


def read_vgs(text: str, disk_of: Callable[[str], str]) -> dict[str, str]:
    """Volume groups that are on one disk, from `vgs --noheadings -o vg_name,pv_count,pv_name`. Raises Malformed.

    `disk_of` gives the disk of a device, empty when there is none.
    """
    found: dict[str, str] = {}
    for line in _lines(text):
        words = line.split()
        if len(words) != 3:
            raise Malformed("vgs", f"has {len(words)} words, not 3: {quoted(line)}")
        if words[1] == "1" and disk_of(words[2]):
            found[words[0]] = disk_of(words[2])
    return found


def read_lvs(text: str) -> dict[str, str]:
    """Logical volumes by their device, from `lvs --noheadings -o lv_name,vg_name`. Raises Malformed."""
    found: dict[str, str] = {}
    for line in _lines(text):
        words = line.split()
        if len(words) != 2:
            raise Malformed("lvs", f"has {len(words)} words, not 2: {quoted(line)}")
        volume, group = (word.replace("-", "--") for word in words)
        found[f"{MAPPER}{group}-{volume}"] = words[1]
    return found


def read_findmnt(text: str) -> dict[str, str]:
    """The device of each mount point, from `findmnt -P -o TARGET,SOURCE`. Raises Malformed."""
    values = (_pairs("findmnt", line, ("TARGET", "SOURCE")) for line in _lines(text))
    return {each["TARGET"]: each["SOURCE"] for each in values}


def disk_of_device(numbers: Mapping[str, str], partitions: Mapping[str, str], device: str) -> str:
    """The disk that a device is or lies on; empty: not known."""
    return device if device in numbers else partitions.get(device, "")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[:LINES_MAX] if line.strip()]


def _pairs(tool: str, line: str, names: tuple[str, ...]) -> dict[str, str]:
    found = {key: _ESCAPED.sub(lambda hit: chr(int(hit[1], 16)), value) for key, value in _PAIR.findall(line)}
    if tuple(found) != names:
        raise Malformed(tool, f"has not {', '.join(names)}: {quoted(line)}")
    return found
