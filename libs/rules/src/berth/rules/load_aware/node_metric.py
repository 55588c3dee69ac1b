"""From the status of a NodeMetric object, as the API server has it, to a report.

Another agent writes the object, so nothing in it is taken for granted: a usage that cannot be read is not known, and
named, and a report from the future is none at all, for it would not grow old. One without a time is too old.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.cpus.qos import PROD
from berth.rules.load_aware.metric import (
    AHEAD_MAX_S,
    REPORT_INTERVAL_S,
    HostApplicationReport,
    Metric,
    PodReport,
    Window,
)
from berth.rules.scheduler_config.load_aware import duration_s
from berth.rules.times import unix_of

WINDOWS_MAX: Final = 32
PODS_MAX: Final = 4096
HOST_APPLICATIONS_MAX: Final = 256
AGGREGATIONS: Final = ("avg", "p50", "p90", "p95", "p99")


class _Usage(msgspec.Struct, frozen=True, kw_only=True):
    resources: Any = None


class _Window(msgspec.Struct, frozen=True, kw_only=True):
    duration: str = ""
    usage: dict[str, _Usage | None] | None = None


class _Node(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_usage: _Usage | None = None
    system_usage: _Usage | None = None
    aggregated_node_usages: list[_Window] | None = None


class _Pod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str = ""
    name: str = ""
    priority: str = ""
    pod_usage: _Usage | None = None


class _HostApplication(msgspec.Struct, frozen=True, kw_only=True):
    usage: _Usage | None = None
    priority: str = ""


class _ProdReclaimable(msgspec.Struct, frozen=True, kw_only=True):
    resource: _Usage | None = None


class _Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    update_time: str | None = None
    node_metric: _Node | None = None
    pods_metric: list[_Pod] | None = None
    host_application_metric: list[_HostApplication] | None = None
    prod_reclaimable_metric: _ProdReclaimable | None = None


def read_node_metric(
    status: Mapping[str, Any], now_s: float, report_interval_s: float = REPORT_INTERVAL_S
) -> tuple[Metric | None, tuple[Problem, ...]]:
    """The report, None where it cannot be used at all, and what is wrong with it. Pods go by namespace and name.

    Args:
        status: `status` of the object.
        now_s: the time of the reader, in unix seconds.
        report_interval_s: what the object's policy says, in seconds.
    """
    try:
        read = msgspec.convert(status, _Status)
    except msgspec.ValidationError as error:
        return None, (Problem(field="status", message=f"is not readable: {error}"[:300]),)
    updated_s = unix_of(read.update_time) if read.update_time is not None else None
    if read.update_time is not None and updated_s is None:
        return None, (Problem(field="status.updateTime", message="is no time"),)
    if updated_s is not None and updated_s > now_s + AHEAD_MAX_S:
        message = f"is {updated_s - now_s:.0f} s in the future: the clock of the node is ahead"
        return None, (Problem(field="status.updateTime", message=message),)
    problems: list[Problem] = []
    if status and updated_s is None:
        problems.append(Problem(field="status.updateTime", message="is missing: nobody knows how old the report is"))
    node = read.node_metric
    metric = Metric(
        updated_s,
        None if node is None else _whole(node.node_usage, "status.nodeMetric.nodeUsage", problems),
        report_interval_s,
        _amounts(node.system_usage if node else None, "status.nodeMetric.systemUsage", problems),
        tuple(_windows(node.aggregated_node_usages or () if node else (), problems)),
        dict(_pods(read.pods_metric or (), problems)),
        tuple(_host_applications(read.host_application_metric or (), problems)),
        _reclaimable(read.prod_reclaimable_metric, problems),
    )
    return metric, tuple(problems)


def _windows(given: Iterable[_Window], problems: list[Problem]) -> Iterator[Window]:
    for at, each in enumerate(given):
        field = f"status.nodeMetric.aggregatedNodeUsages[{at}]"
        if at >= WINDOWS_MAX:
            problems.append(Problem(field=field, message=f"there are more than {WINDOWS_MAX}"))
            return
        length_s = duration_s(each.duration)
        if not length_s:
            problems.append(Problem(field=f"{field}.duration", message="is no duration such as 5m"))
            continue
        usage = {name: _whole((each.usage or {}).get(name), f"{field}.usage.{name}", problems) for name in AGGREGATIONS}
        yield Window(length_s, {name: amounts for name, amounts in usage.items() if amounts})


def _pods(given: Iterable[_Pod], problems: list[Problem]) -> Iterator[tuple[tuple[str, str], PodReport]]:
    for at, each in enumerate(given):
        field = f"status.podsMetric[{at}]"
        if at >= PODS_MAX:
            problems.append(Problem(field=field, message=f"there are more than {PODS_MAX}"))
            return
        usage = _amounts(each.pod_usage, f"{field}.podUsage", problems)
        yield (each.namespace, each.name), PodReport(usage, each.priority == PROD, sys.intern(each.priority))


def _host_applications(given: Iterable[_HostApplication], problems: list[Problem]) -> Iterator[HostApplicationReport]:
    for at, each in enumerate(given):
        field = f"status.hostApplicationMetric[{at}]"
        if at >= HOST_APPLICATIONS_MAX:
            problems.append(Problem(field=field, message=f"there are more than {HOST_APPLICATIONS_MAX}"))
            return
        yield HostApplicationReport(_amounts(each.usage, f"{field}.usage", problems), each.priority)


def _reclaimable(given: _ProdReclaimable | None, problems: list[Problem]) -> Amounts | None:
    """None where nothing was predicted; a part that cannot be read is nothing to lend."""
    if given is None or given.resource is None or given.resource.resources is None:
        return None
    return _amounts(given.resource, "status.prodReclaimableMetric.resource", problems)


def _whole(usage: _Usage | None, field: str, problems: list[Problem]) -> Amounts | None:
    """A usage of which all can be read, else None: a resource that cannot be read must not look unused."""
    before = len(problems)
    amounts = _amounts(usage, field, problems)
    return amounts if len(problems) == before else None


def _amounts(usage: _Usage | None, field: str, problems: list[Problem]) -> Amounts:
    """What can be read of a usage; a part that cannot is left out."""
    amounts, found = parse_amounts(usage.resources if usage is not None else None, f"{field}.resources")
    problems += (Problem(field=where, message=message) for where, message in found)
    return amounts
