"""For whom pods are made to leave, as the API shows them: a pod, or a Reservation (its namespace is empty)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.contracts import names
from berth.invariants.facts import ENDED
from berth.rules.reservation_displaces import BORROWERS, LOWER_PRIORITY, NOBODY
from berth.rules.reservation_window import window_of

Json = Mapping[str, Any]
HIGHEST: Final = 2**31 - 1
"""The priority of a Reservation that says nothing of it."""


def node_of(data: Json) -> str:
    """The node that it has; empty: none."""
    return str((data.get("spec") or {}).get("nodeName") or (data.get("status") or {}).get("nodeName") or "")


def is_over(data: Json) -> bool:
    """It waits no more: it is on a node, leaves, or has ended."""
    has_ended = (data.get("status") or {}).get("phase") in ENDED
    return bool(node_of(data)) or has_ended or bool(data["metadata"].get("deletionTimestamp"))


def priority_of(data: Json) -> int:
    """Its priority."""
    spec = data.get("spec") or {}
    if "template" not in spec:
        return int(spec.get("priority") or 0)
    said = _said(data)
    return HIGHEST if said is None else said


def why_nobody_leaves(waiting: Json, victim: Json) -> str:
    """Why a pod of lower priority must not be made to leave for this one; empty: it may be."""
    if "template" not in (waiting.get("spec") or {}):
        return ""
    window = window_of(waiting["metadata"].get("annotations") or {})
    whom = LOWER_PRIORITY if window is None else window.displaces or NOBODY
    if whom == LOWER_PRIORITY:
        return "" if _said(waiting) is not None else "has no priority that anybody has set"
    if whom != BORROWERS:
        return "displaces nobody"
    labels = victim["metadata"].get("labels") or {}
    return "" if labels.get(names.LABEL_RESERVATION_IGNORED) == "true" else "displaces borrowers alone"


def _said(reservation: Json) -> int | None:
    """The priority that its author has set, in the template or by label."""
    pod = (reservation["spec"]["template"] or {}).get("spec") or {}
    if pod.get("priority") is not None:
        return int(pod["priority"])
    text = str((reservation["metadata"].get("labels") or {}).get(names.LABEL_PRIORITY) or "")
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= len(str(HIGHEST)) and abs(int(text)) <= HIGHEST else None
