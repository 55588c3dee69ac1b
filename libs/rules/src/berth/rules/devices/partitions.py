"""Groups of GPUs that share a fast link, or that nothing else may be cut to: a node's table, and the choice of one.

A table comes from an annotation of the Device object, else, for some models, it is known. What a choice keeps whole
for larger requests counts: of equal partitions that one is taken which leaves most untouched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.quantity import QuantityError, parse_units
from berth.rules.bounded_json import annotation_field, read_json
from berth.rules.devices.slots import NoCapacity
from berth.rules.numbers import parse_integer

HONOR: Final = "Honor"
PREFER: Final = "Prefer"
PARTITIONS_MAX: Final = 4096
"""Partitions of one table; all pairs, fours and eights of a machine of 16 cards that are in use are far fewer."""
NO_TABLE: Final = NoCapacity("node(s) missing GPU Partition Table", unresolvable=True)
NO_SIZE: Final = NoCapacity("node(s) Unsupported number of GPU requests", unresolvable=True)
NONE_FREE: Final = NoCapacity("Insufficient Partitioned GPU Devices")
WEIGHTS: Final[Mapping[int, int]] = {8: 10_000, 4: 100, 2: 1}
"""What a partition of so many cards is worth that stays whole, per point of its score."""

_FIELD: Final = annotation_field(names.ANNOTATION_GPU_PARTITIONS)
_HOPPER: Final = frozenset({"H100", "H800", "H20"})


class Partition(NamedTuple):
    """A group of cards. A higher `score` is better; `bandwidth` in bytes per second, 0: not known."""

    minors: tuple[int, ...]
    score: int = 0
    bandwidth: int = 0
    link: str = ""


Table: TypeAlias = Mapping[int, Sequence[Partition]]
"""Partitions by how many cards they have."""

BUILT_IN: Final[Table] = {
    size: tuple(Partition(tuple(range(first, first + size)), score=1, link="NVLink") for first in range(0, 8, size))
    for size in (1, 2, 4, 8)
}
"""Machines of eight cards on NVSwitch."""


class PartitionRules(NamedTuple):
    """What a node says: its table, if it has one, whether whole cards are given out by it alone, and what is wrong."""

    table: Table | None = None
    honors: bool = False
    problem: Problem | None = None


NO_RULES: Final = PartitionRules()


def policy_of(labels: Mapping[str, str]) -> str:
    """Honor or, for everything else, Prefer."""
    return HONOR if labels.get(names.LABEL_GPU_PARTITION_POLICY) == HONOR else PREFER


def partition_rules(
    node_labels: Mapping[str, str], device_labels: Mapping[str, str], device_annotations: Mapping[str, str]
) -> PartitionRules:
    """The rules of a node from its Node and its Device object.

    The policy stands on the object that the table comes from. A table that cannot be read counts as none.
    """
    text = device_annotations.get(names.ANNOTATION_GPU_PARTITIONS, "")
    if text:
        table = read_table(text)
        honors = policy_of(device_labels) == HONOR
        if isinstance(table, Problem):
            return PartitionRules(None, honors, table)
        return PartitionRules(table, honors)
    known = node_labels.get(names.LABEL_GPU_MODEL) in _HOPPER and node_labels.get(
        names.LABEL_GPU_VENDOR, ""
    ).lower() in ("", "nvidia")
    return PartitionRules(BUILT_IN if known else None, policy_of(node_labels) == HONOR)


def read_table(text: str) -> Table | Problem:
    """The table in the annotation's text.

    Two forms are read: a list of partitions for each number of cards, and one in which those of a link type stand
    under its name, with scores as text.
    """
    raw = read_json(text, dict[str, list[dict[str, Any]]], _FIELD)
    if isinstance(raw, Problem):
        return raw
    table: dict[int, list[Partition]] = {}
    count = 0
    for key, entries in raw.items():
        size = parse_integer(key)
        if size is None or size < 1:
            return Problem(field=_FIELD, message=f"{key[:80]!r} is no number of GPUs")
        for at, (entry, link) in enumerate(_flattened(entries)):
            found = _partition(entry, link, f"{_FIELD}[{size}][{at}]")
            if isinstance(found, Problem):
                return found
            table.setdefault(size, []).append(found)
            count += 1
            if count > PARTITIONS_MAX:
                return Problem(field=_FIELD, message=f"has more than {PARTITIONS_MAX} partitions")
    return table


def feasible(
    table: Table | None,
    count: int,
    *,
    able: Collection[int],
    used: Collection[int],
    preferred: Collection[int] = (),
    restricted: bool = False,
    bandwidth: int = 0,
) -> list[Partition] | NoCapacity:
    """The partitions that `count` cards may be taken as, the best first; NoCapacity where there is none.

    `able` are the minors that can give a whole card and may be taken, `used` those of which somebody holds a part.
    Better is a higher score, then more `preferred` minors (those of a reservation), then what stays whole.
    """
    if table is None:
        return NO_TABLE
    if not table.get(count):
        return NO_SIZE
    taken = frozenset(used)
    found: list[Partition] = []
    for _, group in groupby(sorted(table[count], key=_falling_score), key=_falling_score):
        fitting = [each for each in group if _fits(each, count, able, taken, bandwidth)]
        worth = {each: _kept(table, count, taken.union(each.minors)) for each in fitting}
        found += sorted(fitting, key=lambda each: (-sum(minor in preferred for minor in each.minors), -worth[each]))
        if restricted:
            break
    return found or NONE_FREE


def _falling_score(partition: Partition) -> int:
    return -partition.score


def _fits(partition: Partition, count: int, able: Collection[int], used: frozenset[int], bandwidth: int) -> bool:
    minors = partition.minors
    return (
        len(minors) == len(set(minors)) == count
        and all(minor in able for minor in minors)
        and used.isdisjoint(minors)
        and partition.bandwidth >= bandwidth
    )


def _kept(table: Table, count: int, used: frozenset[int]) -> int:
    """What the partitions are worth that stay whole."""
    return sum(
        weight * each.score
        for size, weight in WEIGHTS.items()
        if size >= count
        for each in table.get(size, ())
        if used.isdisjoint(each.minors)
    )


def _flattened(entries: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str]]:
    flat: list[tuple[Mapping[str, Any], str]] = []
    for entry in entries:
        if "minors" in entry:
            flat.append((entry, ""))
            continue
        for link, nested in entry.items():
            flat += [(each, link) for each in (nested if isinstance(nested, list) else [nested])]
    return flat


def _partition(entry: object, link: str, field: str) -> Partition | Problem:
    if not isinstance(entry, Mapping):
        return Problem(field=field, message="must be an object")
    minors = entry.get("minors")
    if not isinstance(minors, list) or not minors or not all(_is_minor(minor) for minor in minors):
        return Problem(field=f"{field}.minors", message="must be numbers of devices")
    score = entry.get("allocationScore", 0)
    if isinstance(score, str):
        score = parse_integer(score)
    if not isinstance(score, int) or isinstance(score, bool):
        return Problem(field=f"{field}.allocationScore", message="must be an integer")
    bandwidth = entry.get("ringBusBandwidth", 0)
    try:
        parsed = parse_units(bandwidth) if isinstance(bandwidth, str | int | float) else 0
    except QuantityError as error:
        return Problem(field=f"{field}.ringBusBandwidth", message=str(error))
    kind = entry.get("gpuLinkType", link)
    return Partition(tuple(minors), score, parsed, kind if isinstance(kind, str) else link)


def _is_minor(minor: object) -> bool:
    return isinstance(minor, int) and not isinstance(minor, bool) and minor >= 0
