"""Groups of GPUs that NVLink joins, as a partition table has them.

GPUs on NVSwitch reach each other alike, and are one group. Those that are linked directly are a group where each has a
link to each. A group is halved for smaller requests, down to single GPUs, so that these break as few groups as can be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from berth.vendors.devices import Link

KIND: Final = "NVLink"
GROUPS_MAX: Final = 256
"""Groups that are not halves of others; machines have a dozen."""


def nvlinks(peers: Mapping[int, Collection[int]], switched: Collection[int]) -> dict[int, tuple[Link, ...]]:
    """The links of each GPU, by minor; nothing where no GPU has one.

    `peers` are the minors to which each GPU has direct links, as far as it says so; `switched` those on NVSwitch.
    """
    linked = _symmetric(peers)
    if len(switched) > 1:
        for minor in switched:
            linked.setdefault(minor, set()).update(set(switched) - {minor})
    if not any(linked.values()):
        return {}
    alone = [(minor,) for minor in sorted(peers)]
    groups = sorted({part for group in _cliques(linked) for part in _halved(group)} | set(alone))
    return {
        minor: tuple(
            Link(kind=KIND, peers=tuple(each for each in group if each != minor) or group)
            for group in groups
            if minor in group
        )
        for minor in sorted(peers)
    }


def _symmetric(peers: Mapping[int, Collection[int]]) -> dict[int, set[int]]:
    """A link joins both, whichever of them says so; one to a GPU that is not there joins nobody."""
    linked: dict[int, set[int]] = {minor: set() for minor in peers}
    for minor, others in peers.items():
        for other in others:
            if other in linked and other != minor:
                linked[minor].add(other)
                linked[other].add(minor)
    return linked


def _cliques(linked: Mapping[int, set[int]]) -> Iterator[tuple[int, ...]]:
    """The largest groups of more than one GPU in which each is linked to each (Bron and Kerbosch, with a pivot)."""
    found = 0
    waiting: list[tuple[frozenset[int], set[int], set[int]]] = [(frozenset(), set(linked), set())]
    while waiting and found < GROUPS_MAX:
        group, able, tried = waiting.pop()
        if not able and not tried:
            if len(group) > 1:
                found += 1
                yield tuple(sorted(group))
            continue
        pivot = max(sorted(able | tried), key=lambda minor: len(able & linked[minor]))
        for minor in sorted(able - linked[pivot]):
            waiting.append((group | {minor}, able & linked[minor], tried & linked[minor]))
            able = able - {minor}
            tried = tried | {minor}


def _halved(group: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    parts = [group]
    while parts:
        yield from parts
        parts = [half for part in parts if len(part) > 1 for half in (part[: len(part) // 2], part[len(part) // 2 :])]
