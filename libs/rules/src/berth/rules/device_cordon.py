"""Devices of a node that nothing new is placed on, as an annotation of the node lists them.

`scheduling.berth.sh/device-cordon`: `gpu/3,rdma/0,GPU-8d2f6c1e`, or the same as a JSON list. Each entry is a kind and a
minor, or the id of a device. What is no entry is a problem, and the others count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_DEVICE_CORDON
from berth.rules.bounded_json import annotation_field, read_json
from berth.rules.numbers import parse_integer

ENTRIES_MAX: Final = 1_024
LENGTH_MAX: Final = 64 * 1024
ID_LENGTH_MAX: Final = 256
MINOR_MAX: Final = 65_535
KINDS: Final = ("fpga", "gpu", "rdma")
REASON: Final = "Cordoned"
"""What is said of a device that is kept out."""

_FIELD: Final = annotation_field(ANNOTATION_DEVICE_CORDON)


class DeviceCordon(NamedTuple):
    """Kinds and minors, and ids."""

    places: frozenset[tuple[str, int]] = frozenset()
    ids: frozenset[str] = frozenset()

    def covers(self, kind: str, minor: int, id: str) -> bool:  # noqa: A002 - what it is called everywhere
        """Whether nothing new is placed on this device."""
        return (kind, minor) in self.places or (bool(id) and id in self.ids)

    def unknown(self, devices: Iterable[tuple[str, int, str]]) -> tuple[Problem, ...]:
        """Entries that cover none of these devices, given as kind, minor and id: mistyped, or a device that is away."""
        places, ids = set(self.places), set(self.ids)
        for kind, minor, name in devices:
            places.discard((kind, minor))
            ids.discard(name)
        entries = sorted([*(f"{kind}/{minor}" for kind, minor in places), *ids])
        return tuple(Problem(field=_FIELD, message=f"{each[:60]!r} is no device of this node") for each in entries)


NOTHING: Final = DeviceCordon()


def read_device_cordon(annotations: Mapping[str, str]) -> tuple[DeviceCordon, tuple[Problem, ...]]:
    """What the annotation of a node lists, and what of it cannot be used."""
    text = annotations.get(ANNOTATION_DEVICE_CORDON, "").strip()
    if not text:
        return NOTHING, ()
    if text.startswith("["):
        entries = read_json(text, list[str], _FIELD, bytes_max=LENGTH_MAX)
        if isinstance(entries, Problem):
            return NOTHING, (entries,)
    elif len(text) > LENGTH_MAX:
        return NOTHING, (Problem(field=_FIELD, message=f"is too large (at most {LENGTH_MAX} bytes)"),)
    else:
        entries = text.split(",")
    problems = []
    if len(entries) > ENTRIES_MAX:
        problems.append(Problem(field=_FIELD, message=f"has {len(entries)} entries; only {ENTRIES_MAX} are read"))
    places: set[tuple[str, int]] = set()
    ids: set[str] = set()
    for position, entry in enumerate(each.strip() for each in entries[:ENTRIES_MAX]):
        kind, slash, minor_text = entry.partition("/")
        minor = parse_integer(minor_text) if slash else None
        if minor is not None and kind in KINDS and 0 <= minor <= MINOR_MAX:
            places.add((kind, minor))
        elif not slash and 0 < len(entry) <= ID_LENGTH_MAX:
            ids.add(entry)
        else:
            message = f"{entry[:60]!r} is neither a kind and a minor (`gpu/3`) nor the id of a device"
            problems.append(Problem(field=f"{_FIELD}[{position}]", message=message))
    return DeviceCordon(frozenset(places), frozenset(ids)), tuple(problems)
