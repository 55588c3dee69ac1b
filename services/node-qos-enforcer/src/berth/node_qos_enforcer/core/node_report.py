"""From what a look found to the node's report: bounded, in order, with what could not be read.

A report that says the same as the one before is the one before: it keeps its version, and nobody reads it anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berth.contracts.base import Problem
from berth.contracts.node_report import HeldByContainer, NodeReport, ReportedDevice, ReportedKubelet, ReportedLink
from berth.node_qos_enforcer.core.cpu_report import Cpus, socket_of_zones
from berth.node_qos_enforcer.core.device_health import DeviceKey, Health, judged, key_of
from berth.rules.cpus.kubelet import STATIC
from berth.vendors.devices import Found, FoundDevice, Place

DEVICES: Final = "devices"
CPUS: Final = "cpus"
KUBELET: Final = "kubelet"
HELD: Final = "held"
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    DEVICES: ("devices", "gpu_driver", "gpu_model"),
    CPUS: ("cores", "zones", "cpu"),
    KUBELET: ("kubelet",),
    HELD: ("held",),
}
"""The parts of a report, and the fields that each of them fills."""
DEVICES_MAX: Final = 1_024
FUNCTIONS_MAX: Final = 4_096
"""Virtual functions of all devices together."""
PROBLEMS_MAX: Final = 50
TEXT_MAX: Final = 256
MESSAGE_MAX: Final = 1_024
BYTES_MAX: Final = 448 * 1024
"""What is made of a report, a Device object, has to fit a message of the bus (1 MiB) as well."""
CUT: Final = ("devices", "held")
"""The lists of a report that may become too long, and may be cut."""


class Findings(NamedTuple):
    """What one look found. A part that is None was not looked at, or is in `unread`: it could not be read this time."""

    devices: Found | None = None
    cpus: Cpus | None = None
    kubelet: ReportedKubelet | None = None
    held: tuple[HeldByContainer, ...] | None = None
    unread: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


def report_of(
    node: str,
    findings: Findings,
    healths: Mapping[DeviceKey, Health],
    before: NodeReport | None,
    *,
    version_min: int,
) -> NodeReport:
    """The node's report: `before` where nothing else was found, else one of a version above it.

    `version_min` is that of the first one, and what a version is at least. `healths` has every device that was found.
    A part that could not be read is what it was before. CPUs are not reported while kubelet's pins, which are to be
    read from its checkpoint or from its PodResources, never were: they would pass for free.
    """
    problems = list(findings.problems)
    parts = _found(findings, healths, problems)
    for part in findings.unread:
        if before is not None and part in before.parts:
            parts[part] = {field: getattr(before, field) for field in PARTS[part]}
    if not _are_pins_known(findings, parts):
        parts.pop(CPUS, None)
    fields = {field: value for part in parts.values() for field, value in part.items()}
    report = _fitting(NodeReport(node=node, version=0, problems=_limited(problems), **fields))
    version = version_min if before is None else max(version_min, before.version + 1)
    report = replace(report, parts={part: _version(part, report, before, version) for part in PARTS if part in parts})
    if before is not None and replace(report, version=before.version) == before:
        return before
    return replace(report, version=version)


def _are_pins_known(findings: Findings, parts: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether it is known which CPUs kubelet has given out: by both of its words, where both are to be had. Its
    PodResources have nothing to add where its policy gives out none."""
    missing = {part for part in findings.unread if part not in parts}
    kubelet = parts[KUBELET]["kubelet"] if KUBELET in parts else None
    gives_none = kubelet is not None and kubelet.cpu_manager not in ("", STATIC)
    return KUBELET not in missing and (HELD not in missing or gives_none)


def _version(part: str, report: NodeReport, before: NodeReport | None, version: int) -> int:
    """The version of the part: that of before, where the part is what it was."""
    if before is None or part not in before.parts:
        return version
    is_same = all(getattr(report, field) == getattr(before, field) for field in PARTS[part])
    return before.parts[part] if is_same else version


def _found(
    findings: Findings, healths: Mapping[DeviceKey, Health], problems: list[Problem]
) -> dict[str, dict[str, Any]]:
    """The fields of each part that was read."""
    parts: dict[str, dict[str, Any]] = {}
    found, cpus = findings.devices, findings.cpus
    if found is not None:
        problems += found.problems
        sockets = socket_of_zones(cpus.cores) if cpus is not None else {}
        devices = [_in_socket(each, sockets) for each in _devices(found, healths, problems)]
        parts[DEVICES] = {
            "devices": devices,
            "gpu_driver": found.driver[:TEXT_MAX],
            "gpu_model": found.model[:TEXT_MAX],
        }
    if cpus is not None:
        parts[CPUS] = {"cores": list(cpus.cores), "zones": list(cpus.zones), "cpu": cpus.cpu}
    if findings.kubelet is not None:
        parts[KUBELET] = {"kubelet": findings.kubelet}
    if findings.held is not None:
        parts[HELD] = {"held": list(findings.held)}
    return parts


def _in_socket(device: ReportedDevice, sockets: Mapping[int, int]) -> ReportedDevice:
    """The device with the socket that its zone lies in, where the CPUs say it."""
    return replace(device, socket=sockets[device.numa_node]) if device.numa_node in sockets else device


def _devices(found: Found, healths: Mapping[DeviceKey, Health], problems: list[Problem]) -> list[ReportedDevice]:
    devices = found.devices[:DEVICES_MAX]
    if len(found.devices) > DEVICES_MAX:
        message = f"there are {len(found.devices)}; only the first {DEVICES_MAX} are reported"
        problems.append(Problem(field=DEVICES, message=message))
    left = FUNCTIONS_MAX
    reported = []
    for device in devices:
        health = healths[key_of(device)]
        functions = device.functions[:left]
        if len(functions) < len(device.functions):
            field = f"devices[{device.kind} {device.minor}].functions"
            message = f"there are {len(device.functions)}; only {len(functions)} are reported"
            problems.append(Problem(field=field, message=message))
        left -= len(functions)
        reported.append(_device(judged(device, health), functions, health.since_s))
    return reported


def _device(device: FoundDevice, functions: Sequence[str], since_s: float) -> ReportedDevice:
    status, place = device.status, device.place or Place()
    is_ill = status is not None and not status.healthy
    return ReportedDevice(
        kind=device.kind,
        minor=device.minor,
        id=device.id[:TEXT_MAX],
        vendor=device.vendor[:TEXT_MAX],
        model=device.model[:TEXT_MAX],
        healthy=not is_ill,
        reason=(status.code or "Unknown")[:TEXT_MAX] if is_ill and status is not None else "",
        message=status.message[:MESSAGE_MAX] if is_ill and status is not None else "",
        since=since_s,
        amounts=dict(device.amounts),
        labels=dict(device.labels),
        numa_node=place.numa_node,
        socket=place.socket,
        pcie=place.pcie[:TEXT_MAX],
        switches=list(place.switches),
        bus=place.bus[:TEXT_MAX],
        module=device.module,
        functions=list(functions),
        links=[ReportedLink(kind=link.kind[:TEXT_MAX], peers=list(link.peers)) for link in device.links],
        has_links=device.has_links,
        honors_partitions=device.honors_partitions,
    )


def _fitting(report: NodeReport) -> NodeReport:
    """The report within `BYTES_MAX`: the longest of its lists loses its second half until it is."""
    while len(msgspec.json.encode(report)) > BYTES_MAX:
        field = max(CUT, key=lambda field: len(msgspec.json.encode(getattr(report, field))))
        listed = getattr(report, field)
        if not listed:
            return report
        kept = listed[: len(listed) // 2]
        message = f"the report is larger than {BYTES_MAX} bytes; only the first {len(kept)} are in it"
        report = replace(
            report, **{field: kept}, problems=_limited([Problem(field=field, message=message), *report.problems])
        )
    return report


def _limited(problems: Sequence[Problem]) -> list[Problem]:
    kept = [Problem(field=each.field[:TEXT_MAX], message=each.message[:TEXT_MAX]) for each in problems[:PROBLEMS_MAX]]
    if len(problems) > PROBLEMS_MAX:
        kept[-1] = Problem(field="problems", message=f"{len(problems) - PROBLEMS_MAX + 1} more")
    return kept
