"""Accelerators as device daemons write them into files, each a JSON array whose numbers are texts.

`{vendor, model, uuid, minor, resources, topology {p2pLinks [{peerMinor, type}], mustHonorPartition, socketID, nodeID,
pcieID, busID}, status {healthy, errCode, errMessage}}`. What is wrong with one device leaves that one out; a field that
nobody knows is reported and passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.rules.bounded_json import read_json
from berth.rules.numbers import parse_integer
from berth.vendors.devices import Found, FoundDevice, Link, Place, Status
from berth.vendors.label_value import label_value
from berth.vendors.pci import NUMA_MAX
from berth.vendors.probe import Probe
from berth.vendors.vendor import WHOLE

FOLDER: Final = "/var/run/koordlet/xpu-device-infos"
FILES_MAX: Final = 64
BYTES_MAX: Final = 1 << 20
ENTRIES_MAX: Final = 256
MINOR_MAX: Final = 65_535
AMOUNT_MAX: Final = 1 << 50
LINKS_MAX: Final = 64
PERCENTS: Final = (names.GPU_CORE, names.GPU_MEMORY_RATIO, names.NPU_DVPP)
TEXT_MAX: Final = 256
STATUS_MAX: Final = 1024
_BARE: Final = {"gpu-core": names.GPU_CORE, "gpu-memory": names.GPU_MEMORY}
_FIELDS: Final = {
    "": frozenset({"vendor", "model", "uuid", "minor", "resources", "topology", "status"}),
    "topology": frozenset({"p2pLinks", "mustHonorPartition", "socketID", "nodeID", "pcieID", "busID"}),
    "status": frozenset({"healthy", "errCode", "errMessage"}),
}


class _UnreadableError(Exception):
    """What keeps a device from being read."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(field=field, message=message)


def read_files(probe: Probe, folder: str = FOLDER) -> Found:
    """The devices in all files of the folder, by the files' names."""
    listed = sorted(probe.names(folder) or ())
    problems: list[Problem] = []
    if len(listed) > FILES_MAX:
        problems.append(Problem(field=folder, message=f"has {len(listed)} files; only {FILES_MAX} are read"))
    devices: list[FoundDevice] = []
    for name in listed[:FILES_MAX]:
        # A daemon writes beside the file and renames; what begins with a dot is not finished.
        if name.startswith("."):
            continue
        found = read_file(probe.read(f"{folder}/{name}"), f"{folder}/{name}")
        devices += found.devices
        problems += found.problems
    # The first one's, as Koordinator has it.
    return Found(devices=tuple(devices), problems=tuple(problems), model=devices[0].model if devices else "")


def read_file(text: str | None, path: str) -> Found:
    """The devices in one file's text; None: it could not be read."""
    if text is None:
        return Found(problems=(Problem(field=path, message="cannot be read"),))
    entries = read_json(text, list[msgspec.Raw], path, bytes_max=BYTES_MAX)
    if isinstance(entries, Problem):
        return Found(problems=(entries,))
    problems: list[Problem] = []
    if len(entries) > ENTRIES_MAX:
        problems.append(Problem(field=path, message=f"has {len(entries)} devices; only {ENTRIES_MAX} are read"))
    devices = []
    for at, raw in enumerate(entries[:ENTRIES_MAX]):
        field = f"{path}[{at}]"
        entry = read_json(bytes(raw).decode(errors="replace"), dict[str, Any], field, bytes_max=BYTES_MAX)
        if isinstance(entry, Problem):
            problems.append(entry)
            continue
        try:
            devices.append(_device(entry, field, problems))
        except _UnreadableError as error:
            problems.append(error.problem)
    return Found(devices=tuple(devices), problems=tuple(problems))


def _device(entry: Mapping[str, Any], field: str, problems: list[Problem]) -> FoundDevice:
    _tell_unknown(entry, "", field, problems)
    minor = _integer(entry.get("minor"), f"{field}.minor", 0, MINOR_MAX)
    if minor is None:
        raise _UnreadableError(f"{field}.minor", "must not be empty")
    topology = _object(entry, "topology", field, problems)
    status = _object(entry, "status", field, problems)
    return FoundDevice(
        kind="gpu",
        minor=minor,
        id=_text(entry, "uuid", field),
        vendor=label_value(_text(entry, "vendor", field)),
        model=label_value(_text(entry, "model", field)),
        amounts=_amounts(entry.get("resources"), f"{field}.resources"),
        status=_status(status, f"{field}.status") if status is not None else None,
        place=_place(topology, f"{field}.topology") if topology is not None else None,
        links=_links(topology or {}, f"{field}.topology.p2pLinks", problems),
        has_links=bool((topology or {}).get("p2pLinks")),
        honors_partitions=_flag(topology or {}, "mustHonorPartition", f"{field}.topology"),
    )


def _amounts(resources: Any, field: str) -> dict[str, int]:
    """The amounts under the protocol's names, and all of the memory in percent."""
    amounts, problems = parse_amounts(resources, field)
    if problems:
        raise _UnreadableError(*problems[0])
    renamed = {_BARE.get(name, name): amount for name, amount in amounts.items()}
    for name, amount in renamed.items():
        most = WHOLE if name in PERCENTS else AMOUNT_MAX
        if amount > most:
            raise _UnreadableError(f"{field}[{name}]", f"{amount} must lie between 0 and {most}")
    return renamed | {names.GPU_MEMORY_RATIO: WHOLE}


def _place(topology: Mapping[str, Any], field: str) -> Place:
    node = _integer(topology.get("nodeID"), f"{field}.nodeID", -1, NUMA_MAX)
    pcie, bus = _text(topology, "pcieID", field), _text(topology, "busID", field)
    return Place(numa_node=-1 if node is None else node, pcie=pcie, bus=bus)


def _status(status: Mapping[str, Any], field: str) -> Status:
    # What is said of a fault may be long; cutting it is better than losing the device.
    code, message = (_text(status, name, field, BYTES_MAX)[:STATUS_MAX] for name in ("errCode", "errMessage"))
    return Status(healthy=_flag(status, "healthy", field), code=code, message=message)


def _links(topology: Mapping[str, Any], field: str, problems: list[Problem]) -> tuple[Link, ...]:
    """The links; peers that are no numbers are reported and left out, and so are links without a type or peers."""
    given = topology.get("p2pLinks") or []
    if not isinstance(given, list) or len(given) > LINKS_MAX:
        problems.append(Problem(field=field, message=f"must be a list of at most {LINKS_MAX} links"))
        return ()
    links = []
    for at, link in enumerate(given):
        if not isinstance(link, dict):
            problems.append(Problem(field=f"{field}[{at}]", message="must be an object"))
            continue
        kind, text = link.get("type"), link.get("peerMinor")
        if not isinstance(kind, str) or not isinstance(text, str) or not kind or not text:
            continue
        parts = [part.strip() for part in text[:4096].split(",")]
        peers = {part: parse_integer(part, bits=32) for part in parts}
        bad = [part for part, peer in peers.items() if peer is None or not 0 <= peer <= MINOR_MAX]
        if bad:
            problems.append(Problem(field=f"{field}[{at}].peerMinor", message=f"{bad[0][:40]!r} is no minor"))
        minors = [peer for part, peer in peers.items() if peer is not None and part not in bad]
        if minors:
            links.append(Link(kind=kind[:TEXT_MAX], peers=tuple(sorted(set(minors)))))
    return tuple(links)


def _object(entry: Mapping[str, Any], name: str, field: str, problems: list[Problem]) -> Mapping[str, Any] | None:
    value = entry.get(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _UnreadableError(f"{field}.{name}", "must be an object")
    _tell_unknown(value, name, f"{field}.{name}", problems)
    return value


def _tell_unknown(entry: Mapping[str, Any], what: str, field: str, problems: list[Problem]) -> None:
    unknown = sorted(entry.keys() - _FIELDS[what])
    if unknown:
        problems.append(Problem(field=f"{field}.{unknown[0][:80]}", message="is no field of a device, and is not read"))


def _integer(value: Any, field: str, least: int, most: int) -> int | None:
    """A number, mostly written as text; None when it is empty or not there."""
    if value is None or value == "":
        return None
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str):
        number = parse_integer(value)
    if number is None or not least <= number <= most:
        raise _UnreadableError(field, f"{str(value)[:40]!r} must be a number between {least} and {most}")
    return number


def _text(entry: Mapping[str, Any], name: str, field: str, length_max: int = TEXT_MAX) -> str:
    value = entry.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > length_max:
        raise _UnreadableError(f"{field}.{name}", f"must be a text of at most {length_max} characters")
    return value


def _flag(entry: Mapping[str, Any], name: str, field: str) -> bool:
    value = entry.get(name, False)
    if not isinstance(value, bool):
        raise _UnreadableError(f"{field}.{name}", "must be true or false")
    return value
