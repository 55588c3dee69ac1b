"""One encode per message, within bounds.

Nearly every message is small and goes out as it is. A large one loses the texts that are longer than any reader needs;
one that is larger than the bus takes, or holds what JSON cannot carry, keeps only who it is, where it is and
what it holds. Both are named in its problems. What has no place for problems is refused instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.kube import NodeSelector
from berth.contracts.state import Pod, PodTemplate
from berth.rules.reading.findings import PROBLEMS_MAX, Found, problems_of

EASY_BYTES: Final = 32 << 10
"""A message up to this size holds nothing worth cutting."""
TEXT_LENGTH_MAX: Final = 32 << 10
MESSAGE_BYTES_MAX: Final = 512 << 10

_ENCODER: Final = msgspec.json.Encoder()
_CUT: Final = ("labels", "annotations", "node_selector")
_OF_METADATA: Final = frozenset({"labels", "annotations", "uid", "name", "namespace"})
_FIELDS: Final = {
    "node": "nodeName",
    "node_selector": "nodeSelector",
    "scheduler": "schedulerName",
    "priority_class": "priorityClassName",
    "preemption_policy": "preemptionPolicy",
    "storage_class": "storageClassName",
    "volume": "volumeName",
    "volume_mode": "volumeMode",
    "claim": "claimRef",
    "handle": "csi.volumeHandle",
}
_KEPT: Final = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "version",
        "node",
        "required_node",
        "phase",
        "created",
        "deleting",
        "attempt",
        "plan",
        "min",
        "max",
        "used",
        "allocatable",
        "allocated",
        "started",
        "deletes_at",
        "disruption",
        "nominated",
        "volume",
        "is_bound",
        "claim",
        "claim_uid",
        "owner_uid",
        "selected_node",
        "driver",
        "handle",
        "problems",
    }
)
_KEPT_OF_TEMPLATE: Final = ("requests", "scheduler", "priority")


class Packed(NamedTuple):
    """`value`: what goes on the bus; None for a message that cannot be made to fit. `cut`: what had to be left out."""

    value: bytes | None
    cut: Sequence[tuple[str, str]] = ()


def pack(message: msgspec.Struct) -> Packed:
    """The bytes of a message, within the limits."""
    data = _encoded(message)
    if data is not None and len(data) <= EASY_BYTES:
        return Packed(data)
    why = "holds what JSON cannot carry" if data is None else f"is too large ({len(data)} bytes)"
    if not hasattr(message, "problems"):
        fits = data is not None and len(data) <= MESSAGE_BYTES_MAX
        return Packed(data) if fits else Packed(None, [("", f"the object {why}")])
    found: Found = []
    cut = _cut(message, "", found)
    data = _encoded(_with_problems(cut, found))
    if data is not None and len(data) <= MESSAGE_BYTES_MAX:
        return Packed(data, found)
    found.insert(0, ("", f"the object {why}; only what identifies it and what it holds is kept"))
    data = _encoded(_with_problems(_bare(cut), found))
    return Packed(data if data is not None and len(data) <= MESSAGE_BYTES_MAX else None, found)


def _encoded(message: msgspec.Struct) -> bytes | None:
    try:
        return _ENCODER.encode(message)
    except (OverflowError, ValueError, TypeError, RecursionError):
        return None


def _cut(message: msgspec.Struct, path: str, found: Found) -> msgspec.Struct:
    """The message without overlong texts in its own fields, labels and annotations, and those of its template.

    `path` is where the part stands in the object: empty, or `spec.template.` in a Reservation.
    """
    changes: dict[str, Any] = {}
    for field in message.__struct_fields__:
        value = getattr(message, field)
        where = f"{path}metadata.{field}" if field in _OF_METADATA else f"{path}spec.{_FIELDS.get(field, field)}"
        if isinstance(value, str):
            changes[field] = _cut_text(value, where, found)
        elif field in _CUT and isinstance(value, dict):
            changes[field] = {
                _cut_text(name, where, found): _cut_text(text, f"{where}[{name[:200]}]", found)
                for name, text in value.items()
            }
        elif isinstance(value, PodTemplate):
            changes[field] = _cut(value, "" if isinstance(message, Pod) else "spec.template.", found)
    return msgspec.structs.replace(message, **changes)


def _cut_text(text: str, where: str, found: Found) -> str:
    if len(text) <= TEXT_LENGTH_MAX:
        return text
    found.append((where, f"has {len(text)} characters; cut off after {TEXT_LENGTH_MAX}"))
    return text[:TEXT_LENGTH_MAX]


def _bare(message: msgspec.Struct) -> msgspec.Struct:
    kept = {field: getattr(message, field) for field in message.__struct_fields__ if field in _KEPT}
    template = getattr(message, "template", None)
    if isinstance(template, PodTemplate):
        kept["template"] = PodTemplate(**{field: getattr(template, field) for field in _KEPT_OF_TEMPLATE})
    if "taints" in message.__struct_fields__ and "template" not in message.__struct_fields__:
        kept["allocatable"] = {}  # a node without its taints and labels must take nothing
    if "node_affinity" in message.__struct_fields__:
        kept["node_affinity"] = NodeSelector()  # a volume without its rule must be reached from nowhere
    return type(message)(**kept)


def _with_problems(message: msgspec.Struct, found: Found) -> msgspec.Struct:
    if not found:
        return message
    problems: list[Problem] = [*problems_of(found), *getattr(message, "problems", ())]
    return msgspec.structs.replace(message, problems=problems[:PROBLEMS_MAX])
