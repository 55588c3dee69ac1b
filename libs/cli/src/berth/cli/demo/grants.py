"""Which GPUs bound pods hold, read from their allocation annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from berth.cli.load.pods import Fate
from berth.contracts import names


class Grant(NamedTuple):
    """A share of one minor; 100 is all of it."""

    pod: str
    node: str
    minor: int
    percent: int


def grants_of(name: str, fate: Fate) -> list[Grant]:
    """The GPU grants of a pod; empty without any."""
    text = fate.annotations.get(names.ANNOTATION_DEVICE_ALLOCATED)
    if not text or not fate.node or fate.gone:
        return []
    try:
        gpus = msgspec.json.decode(text, type=dict[str, list[dict[str, Any]]]).get("gpu", [])
        return [Grant(name, fate.node, int(g["minor"]), int(g["resources"][names.GPU_CORE])) for g in gpus]
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError):
        return []


def percent_held(fates: Mapping[str, Fate]) -> int:
    """Percent of GPU compute in all hands; 100 is one card."""
    return sum(grant.percent for name, fate in fates.items() for grant in grants_of(name, fate))


def shared_minor(fates: Mapping[str, Fate], first: str) -> tuple[Grant, Grant] | None:
    """Two pods on one minor, one of them `first` if there is such a pair; None when no minor is shared."""
    by_minor: dict[tuple[str, int], list[Grant]] = {}
    for name, fate in fates.items():
        for grant in grants_of(name, fate):
            by_minor.setdefault((grant.node, grant.minor), []).append(grant)
    pairs = [sorted(found, key=lambda grant: grant.pod != first)[:2] for found in by_minor.values() if len(found) > 1]
    pairs.sort(key=lambda pair: pair[0].pod != first)
    return (pairs[0][0], pairs[0][1]) if pairs else None


def used_reservation(annotations: dict[str, str]) -> str:
    """The Reservation that a pod draws on; empty: none."""
    text = annotations.get(names.ANNOTATION_RESERVATION_ALLOCATED, "")
    try:
        return str(msgspec.json.decode(text).get("name", "")) if text else ""
    except (msgspec.DecodeError, AttributeError):
        return ""
