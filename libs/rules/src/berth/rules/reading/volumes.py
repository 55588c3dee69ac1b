"""The volumes of a pod that may tie it to nodes, and those of which nobody knows whether they do.

Rules: kube-scheduler's VolumeRestrictions (which disk it is), NodeVolumeLimits and VolumeBinding (which claim).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from berth.contracts.kube import ClaimSource, DiskSource, ISCSISource, RBDSource
from berth.contracts.state import VolumeUse
from berth.rules.reading.findings import NAME_LENGTH_MAX, Found
from berth.rules.salvage import read_value

VOLUMES_MAX: Final = 1024
LIMITED_MAX: Final = 64
MONITORS_MAX: Final = 64
DISK_LENGTH_MAX: Final = 1024

FREE_VOLUMES: Final = frozenset(
    {
        "name",
        "azureFile",
        "cephfs",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "gitRepo",
        "glusterfs",
        "hostPath",
        "image",
        "nfs",
        "projected",
        "secret",
    }
)
"""Volume sources that any node can mount (and the volume's name): kube-scheduler has no rule for them, an inline `csi`
included. Every other one, known or not, may tie a pod to nodes, or allow only so many per node."""

S = TypeVar("S", bound=msgspec.Struct)


class Volumes(NamedTuple):
    """`uses`: what is known of volumes that may tie the pod to nodes. `unknown`: paths of sources with other rules."""

    uses: list[VolumeUse]
    unknown: list[str]


def volumes_of(volumes: Sequence[dict[str, Any]], path: str, found: Found) -> Volumes:
    """The volumes of a specification; `path` is where they stand. One that does not say which it is, is a problem."""
    uses: list[VolumeUse] = []
    unknown: list[str] = []
    if len(volumes) > VOLUMES_MAX:
        found.append((path, f"has {len(volumes)} entries, at most {VOLUMES_MAX} are accepted"))
        return Volumes(uses, unknown)
    for position, volume in enumerate(volumes):
        for source, value in volume.items():
            if source in FREE_VOLUMES or value is None:
                continue
            field = f"{path}[{position}].{source}"
            read = _READERS.get(source)
            if read is None:
                unknown.append(field)
                continue
            use = read(source, value, volume.get("name"), field, found)
            if use is not None:
                uses.append(use)
    return Volumes(uses, unknown)


def limited_volumes(volumes: Sequence[dict[str, Any]], pod: str) -> dict[str, str]:
    """The claim of each volume of a pod that may have a disk of its own, by its name; empty for an inline CSI volume.

    What cannot be read is left out: `volumes_of` names it.
    """
    found: dict[str, str] = {}
    for volume in volumes[:LIMITED_MAX]:
        name = volume.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX:
            continue
        claim = volume.get("persistentVolumeClaim")
        source = claim.get("claimName") if isinstance(claim, dict) else None
        if isinstance(source, str) and 0 < len(source) <= NAME_LENGTH_MAX:
            found[name] = source
        elif volume.get("ephemeral") is not None:
            found[name] = f"{pod}-{name}"
        elif volume.get("csi") is not None:
            found[name] = ""
    return found


_Reader = Callable[[str, object, object, str, Found], VolumeUse | None]


def _claim(source: str, value: object, _name: object, field: str, found: Found) -> VolumeUse | None:
    claim = _read(value, ClaimSource, field, found)
    if claim is None or not _is_name(claim.claim_name, f"{field}.claimName", NAME_LENGTH_MAX, found):
        return None
    return VolumeUse(source=source, claim=claim.claim_name, read_only=claim.read_only)


def _ephemeral(source: str, _value: object, name: object, field: str, found: Found) -> VolumeUse | None:
    claim = name if isinstance(name, str) else ""
    if not _is_name(claim, field.removesuffix(source) + "name", NAME_LENGTH_MAX, found):
        return None
    return VolumeUse(source=source, claim=claim)


def _gce(source: str, value: object, _name: object, field: str, found: Found) -> VolumeUse | None:
    disk = _read(value, DiskSource, field, found)
    if disk is None or not _is_name(disk.pd_name, f"{field}.pdName", DISK_LENGTH_MAX, found):
        return None
    return VolumeUse(source=source, disk=[disk.pd_name], read_only=disk.read_only)


def _aws(source: str, value: object, _name: object, field: str, found: Found) -> VolumeUse | None:
    disk = _read(value, DiskSource, field, found)
    if disk is None or not _is_name(disk.volume_id, f"{field}.volumeID", DISK_LENGTH_MAX, found):
        return None
    return VolumeUse(source=source, disk=[disk.volume_id], read_only=disk.read_only)


def _iscsi(source: str, value: object, _name: object, field: str, found: Found) -> VolumeUse | None:
    disk = _read(value, ISCSISource, field, found)
    if disk is None or not _is_name(disk.iqn, f"{field}.iqn", DISK_LENGTH_MAX, found):
        return None
    return VolumeUse(source=source, disk=[disk.iqn], read_only=disk.read_only)


def _rbd(source: str, value: object, _name: object, field: str, found: Found) -> VolumeUse | None:
    disk = _read(value, RBDSource, field, found)
    if disk is None:
        return None
    monitors = disk.monitors or []
    if not 1 <= len(monitors) <= MONITORS_MAX:
        found.append((f"{field}.monitors", f"has {len(monitors)} entries, between 1 and {MONITORS_MAX} are accepted"))
        return None
    named = {"image": disk.image, "pool": disk.pool} | {f"monitors[{i}]": each for i, each in enumerate(monitors)}
    if not all(_is_name(text, f"{field}.{part}", DISK_LENGTH_MAX, found) for part, text in named.items()):
        return None
    return VolumeUse(source=source, disk=[disk.pool, disk.image, *monitors], read_only=disk.read_only)


_READERS: Final[dict[str, _Reader]] = {
    "persistentVolumeClaim": _claim,
    "ephemeral": _ephemeral,
    "gcePersistentDisk": _gce,
    "awsElasticBlockStore": _aws,
    "iscsi": _iscsi,
    "rbd": _rbd,
}


def _read(value: object, kind: type[S], field: str, found: Found) -> S | None:
    known = len(found)
    source = read_value(value, kind, field, found)
    return source if len(found) == known else None


def _is_name(text: str, field: str, length_max: int, found: Found) -> bool:
    if not text:
        found.append((field, "is missing"))
    elif len(text) > length_max:
        found.append((field, f"has {len(text)} characters, at most {length_max} are accepted"))
    return 0 < len(text) <= length_max
