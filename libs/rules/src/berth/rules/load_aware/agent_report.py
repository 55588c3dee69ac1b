"""From what Berth's own agent measures (METRICS) to a report.

Its time is the one at which the bus stored it, since clocks of nodes differ. The agent does not know who is a prod pod;
the reader does, so the report leaves that to it. That a pod is in the best-effort group is all that it says of its
class.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.metrics import NodeMetrics, Usage
from berth.contracts.names import CPU, MEMORY
from berth.resources.amounts import Amounts
from berth.rules.cpus.qos import BATCH
from berth.rules.load_aware.metric import REPORT_INTERVAL_S, HostApplicationReport, Metric, PodReport, Window
from berth.rules.load_aware.node_metric import AGGREGATIONS, HOST_APPLICATIONS_MAX, PODS_MAX, WINDOWS_MAX

_BEST_EFFORT: Final = "besteffort"


def read_agent_report(message: NodeMetrics, stored_s: float) -> tuple[Metric | None, tuple[Problem, ...]]:
    """The report, None where it does not say what the node uses, and what is wrong with it. Pods go by uid.

    An agent that has just started has measured nothing yet, which is no problem. A pod counts with its estimate for as
    long as by another agent's usual interval, however often this one looks: what has begun a moment ago is not idle.

    Args:
        message: as it was read.
        stored_s: when the bus stored it, unix seconds.
    """
    if message.interval_s <= 0 or message.memory_total_bytes <= 0:
        return None, ()
    problems: list[Problem] = []
    node, system = message.node_usage, message.system_usage
    if _is_negative(node):
        return None, (Problem(field="node_usage", message="is negative"),)
    if _is_negative(system):
        problems.append(Problem(field="system_usage", message="is negative"))
    metric = Metric(
        stored_s,
        amounts_of(node),
        max(message.interval_s, REPORT_INTERVAL_S),
        {} if _is_negative(system) else amounts_of(system),
        tuple(_windows(message, problems)),
        dict(_pods(message, problems)),
        tuple(_host_applications(message, problems)),
        prod_reclaimable=_reclaimable(message, problems),
    )
    return metric, tuple(problems)


def _reclaimable(message: NodeMetrics, problems: list[Problem]) -> Amounts | None:
    found = message.prod_reclaimable
    if found is None or not _is_negative(found):
        return None if found is None else amounts_of(found)
    problems.append(Problem(field="prod_reclaimable", message="is negative"))
    return None


def amounts_of(usage: Usage) -> Amounts:
    """As amounts of resources."""
    return {CPU: usage.cpu_milli, MEMORY: usage.memory_bytes}


def _windows(message: NodeMetrics, problems: list[Problem]) -> Iterator[Window]:
    for at, each in enumerate(message.windows):
        usages = {name: getattr(each, name) for name in AGGREGATIONS}
        if at >= WINDOWS_MAX:
            problems.append(Problem(field=f"windows[{at}]", message=f"there are more than {WINDOWS_MAX}"))
            return
        if each.duration_s <= 0:
            problems.append(Problem(field=f"windows[{at}].duration_s", message="is not above 0"))
        elif any(map(_is_negative, usages.values())):
            problems.append(Problem(field=f"windows[{at}]", message="has a negative usage"))
        else:
            yield Window(float(each.duration_s), {name: amounts_of(usage) for name, usage in usages.items()})


def _pods(message: NodeMetrics, problems: list[Problem]) -> Iterator[tuple[str, PodReport]]:
    for at, each in enumerate(message.pods):
        if at >= PODS_MAX:
            problems.append(Problem(field=f"pods[{at}]", message=f"there are more than {PODS_MAX}"))
            return
        if _is_negative(each.usage):
            problems.append(Problem(field=f"pods[{at}].usage", message="is negative"))
        else:
            priority_class = BATCH if each.qos == _BEST_EFFORT else ""
            yield each.uid, PodReport(amounts_of(each.usage), is_prod=True, priority_class=priority_class)


def _host_applications(message: NodeMetrics, problems: list[Problem]) -> Iterator[HostApplicationReport]:
    for at, each in enumerate(message.host_applications):
        if at >= HOST_APPLICATIONS_MAX:
            problems.append(
                Problem(field=f"host_applications[{at}]", message=f"there are more than {HOST_APPLICATIONS_MAX}")
            )
            return
        if _is_negative(each.usage):
            problems.append(Problem(field=f"host_applications[{at}].usage", message="is negative"))
        else:
            yield HostApplicationReport(amounts_of(each.usage), each.priority_class, each.name, each.qos)


def _is_negative(usage: Usage) -> bool:
    return usage.cpu_milli < 0 or usage.memory_bytes < 0
