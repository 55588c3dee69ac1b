"""How much has to be released: by the use of the node, and by the requests of pods that live on what it lends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from berth.contracts.names import CPU
from berth.resources.amounts import Amounts


def usage_percent(capacity: int, used: int) -> int:
    """Use in whole percent, cut off; 0 without capacity."""
    return used * 100 // capacity if capacity > 0 else 0


def release_by_usage(capacity: int, used: int, *, threshold_percent: int, lower_percent: int) -> int:
    """What has to be released, in the unit of the capacity, once use is at the threshold; 0: nothing."""
    percent = usage_percent(capacity, used)
    if capacity <= 0 or percent < threshold_percent:
        return 0
    return max(capacity * (percent - lower_percent) // 100, 0)


def release_by_allocatable(
    resource: str,
    requests: Iterable[tuple[str, int]],
    allocatable: Mapping[str, int],
    *,
    threshold_percent: int,
    lower_percent: int,
) -> Amounts:
    """What has to be released of each resource of which more is requested than the node has left.

    Args:
        resource: cpu or memory, which is cut to whole units in ways of their own.
        requests: of each pod that may leave, by the name of its class.
        allocatable: what the node offers; of what is missing, or 0, everything is released.
        threshold_percent: of allocatable, above which pods leave.
        lower_percent: of allocatable, what is to be left.
    """
    total: Amounts = {}
    for name, amount in requests:
        total[name] = total.get(name, 0) + amount
    found = {
        name: _release(resource, amount, allocatable.get(name, 0), threshold_percent / 100, lower_percent / 100)
        for name, amount in total.items()
    }
    return {name: amount for name, amount in found.items() if amount > 0}


def _release(resource: str, requested: int, allocatable: int, threshold: float, lower: float) -> int:
    if allocatable <= 0:
        return requested
    if requested / allocatable <= threshold:
        return 0
    if resource == CPU:
        return int(requested - lower * allocatable)
    return int((requested / allocatable - lower) * allocatable)
