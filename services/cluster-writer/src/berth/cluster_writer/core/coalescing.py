"""Which of the requests for one object still matter while several wait: the newest of those that say the same fields.

A request that shows a phase, or a condition, stands for a moment of its object's life: it gives way only to one that
shows the same phase and the same conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.contracts.command import Command, PatchObject

Line = tuple[str, str, str]
"""API path, namespace and name: patches of one object are carried out one after the other."""


def line_of(command: Command) -> Line | None:
    """The object whose requests keep their order; None: they need none, or keep it by a revision of their own."""
    return (command.api, command.namespace, command.name) if isinstance(command, PatchObject) else None


def covers(newer: Command, older: Command) -> bool:
    """Whether nothing is lost when the older of two requests is never carried out, and the newer one is."""
    if not isinstance(newer, PatchObject) or not isinstance(older, PatchObject):
        return False
    if (newer.uid, newer.status_subresource) != (older.uid, older.status_subresource):
        return False
    if not (older.annotations.keys() <= newer.annotations.keys() and older.labels.keys() <= newer.labels.keys()):
        return False
    if older.status is None:
        return True
    if newer.status is None or _moment(newer.status) != _moment(older.status):
        return False
    return _names_all(newer.status, older.status)


def is_of_figures(command: Command, phase: str | None) -> bool:
    """Whether it only says how much of something there is, so that it may wait for binds. `phase` is what the object
    shows; None: nobody knows."""
    if not isinstance(command, PatchObject) or command.status is None:
        return False
    return "phase" not in command.status or command.status["phase"] == phase


def _moment(status: Mapping[str, Any]) -> tuple[object, list[tuple[object, ...]]]:
    """The phase, and what its conditions say, without times and texts."""
    conditions = status.get("conditions") or []
    if not isinstance(conditions, list):
        return status.get("phase"), [(conditions,)]
    listed = [each if isinstance(each, dict) else {} for each in conditions]
    return status.get("phase"), [(each.get("type"), each.get("status"), each.get("reason")) for each in listed]


def _names_all(newer: Mapping[str, Any], older: Mapping[str, Any]) -> bool:
    """Whether a merge of the newer leaves nothing as the older would have it."""
    for name, value in older.items():
        if name not in newer:
            return False
        other = newer[name]
        if isinstance(value, dict) and isinstance(other, dict) and not _names_all(other, value):
            return False
        if isinstance(value, dict) is not isinstance(other, dict):
            return False
    return True
