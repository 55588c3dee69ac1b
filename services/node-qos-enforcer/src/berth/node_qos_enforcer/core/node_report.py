"""From what a look found to the node's report: bounded, in order, with what could not be read.

A report that says the same as the one before is the one before: it keeps its version, and nobody reads it anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berth.contracts.base import Problem
from berth.contracts.node_report import NodeReport, ReportedDevice, ReportedLink
from berth.node_qos_enforcer.core.device_health import DeviceKey, Health, judged, key_of
from berth.vendors.devices import Found, FoundDevice, Place

DEVICES: Final = "devices"
DEVICES_MAX: Final = 1_024
FUNCTIONS_MAX: Final = 4_096
"""Virtual functions of all devices together."""
PROBLEMS_MAX: Final = 50
TEXT_MAX: Final = 256
MESSAGE_MAX: Final = 1_024
BYTES_MAX: Final = 448 * 1024
"""What is made of a report, a Device object, has to fit a message of the bus (1 MiB) as well."""
FIELDS: Final = (DEVICES,)
"""The lists of a report that may become too long, the one that goes first at the end."""


class Findings(NamedTuple):
    """What one look found. A part that is None was not looked at."""

    devices: Found | None = None
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
    """
    problems = list(findings.problems)
    found = findings.devices
    report = NodeReport(node=node, version=before.version if before is not None else version_min)
    if found is not None:
        problems += found.problems
        report = replace(
            report,
            looks_at=[DEVICES],
            devices=_devices(found, healths, problems),
            gpu_driver=found.driver[:TEXT_MAX],
            gpu_model=found.model[:TEXT_MAX],
        )
    report = _fitting(replace(report, problems=_limited(problems)))
    if before is None or report == before:
        return report
    return replace(report, version=max(version_min, before.version + 1))


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
        field = max(FIELDS, key=lambda field: len(msgspec.json.encode(getattr(report, field))))
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
