"""The figures of groups as series of Koordinator's metrics `scheduler_elastic_quota_spec` and `..._status`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from berth.quota_manager.core.forest import Group

LABELS: Final = ("name", "resource", "tree", "is_parent", "parent", "field")
GROUPS_MAX: Final = 1_000
"""So many groups have series, by name: monitoring holds each for a long time."""

Row: TypeAlias = tuple[tuple[str, ...], float]


def spec_rows(groups: Mapping[str, Group]) -> Iterator[Row]:
    """What the objects say: `min` and `max`. Amounts are in base units, cpu in thousandths."""
    for group in _shown(groups):
        yield from _rows(group, {"min": group.spec.min, "max": group.spec.max})


def status_rows(groups: Mapping[str, Group]) -> Iterator[Row]:
    """The figures as they are, in fields called as in the annotations of the object."""
    for group in _shown(groups):
        figures = {
            "runtime": group.runtime,
            "request": group.request,
            "child-request": group.child_request,
            "used": group.used,
            "non-preemptible-request": group.np_request,
            "non-preemptible-used": group.np_used,
        }
        if group.guarantees:
            figures |= {"guaranteed": group.guaranteed, "allocated": group.allocated}
        yield from _rows(group, figures)


def _shown(groups: Mapping[str, Group]) -> Iterable[Group]:
    return islice((groups[name] for name in sorted(groups)), GROUPS_MAX)


def _rows(group: Group, figures: Mapping[str, Mapping[str, int]]) -> Iterator[Row]:
    is_parent = "true" if group.children or group.spec.is_parent else "false"
    for field, amounts in figures.items():
        for resource, amount in amounts.items():
            yield (group.name, resource, group.tree, is_parent, group.spec.parent, field), float(amount)
