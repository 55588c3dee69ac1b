"""When a node's message is news: after a while anyway, and at once when what it says has changed by much."""

from __future__ import annotations

from typing import Final

from berth.contracts.metrics import NodeMetrics, Usage

SHARE: Final = 0.1
"""Use has changed when it is so much more or less than what was told."""
FLOOR_SHARE: Final = 0.01
"""What is less than this part of the node is noise."""
_MEASURED: Final = frozenset(
    {
        *("measured_at", "interval_s", "node_usage", "system_usage", "by_qos", "pods", "windows", "prod_reclaimable"),
        *("cpu_pressure", "memory_pressure", "io_pressure", "pressure_by_group", "suppress_cpu_milli"),
        *("best_effort", "host_applications", "strategies"),
    }
)
"""Fields that differ in every look, or that follow from those that do."""


def is_news(told: NodeMetrics | None, now: NodeMetrics, *, since_s: float, interval_s: float) -> bool:
    """Whether a message is to be sent.

    It is, when the interval is over; when the use of the node, of a pod, or of an application outside of pods, or what
    best-effort pods may use, or what is predicted, has changed by a tenth of what was told, and by a hundredth of the
    node; when pods have come or gone, or a strategy begins or ceases to hold; and when anything changes that is no
    figure. The first message with a use is news as well.

    Args:
        told: the message that was sent last; None: none was.
        now: the newest.
        since_s: how long ago that was, by a clock that does not go back.
        interval_s: the longest time between two messages.
    """
    if told is None or since_s >= interval_s or bool(told.interval_s) != bool(now.interval_s):
        return True
    if any(
        getattr(told, name) != getattr(now, name) for name in NodeMetrics.__struct_fields__ if name not in _MEASURED
    ):
        return True
    if _standing(told) != _standing(now) or _policy(told) != _policy(now):
        return True
    floor = Usage(
        cpu_milli=int(now.cpu_total_milli * FLOOR_SHARE), memory_bytes=int(now.memory_total_bytes * FLOOR_SHARE)
    )
    before, after = _uses(told), _uses(now)
    if before.keys() != after.keys():
        return True
    return any(
        _differs(one.cpu_milli, after[name].cpu_milli, floor.cpu_milli)
        or _differs(one.memory_bytes, after[name].memory_bytes, floor.memory_bytes)
        for name, one in before.items()
    )


def _uses(message: NodeMetrics) -> dict[tuple[str, str], Usage]:
    found = {("node", ""): message.node_usage}
    found |= {("pod", each.uid): each.usage for each in message.pods}
    found |= {("application", each.name): each.usage for each in message.host_applications}
    if message.prod_reclaimable is not None:
        found["reclaimable", ""] = message.prod_reclaimable
    if message.suppress_cpu_milli >= 0:
        found["best-effort", ""] = Usage(cpu_milli=message.suppress_cpu_milli)
    return found


def _differs(told: int, now: int, floor: int) -> bool:
    change = abs(now - told)
    return change > 0 and change >= floor and change >= told * SHARE


def _standing(message: NodeMetrics) -> dict[str, bool]:
    """Which strategies hold anything: how many values is a figure."""
    return {name: words[:1].isdigit() for name, words in message.strategies.items()}


def _policy(message: NodeMetrics) -> tuple[str, bool] | None:
    held = message.best_effort
    return None if held is None else (held.policy, held.enforced)
