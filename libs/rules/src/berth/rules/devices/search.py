"""Devices of several types at the same places, exactly: where the greedy choice fails, this finds one if there is one.

The devices of a type that can serve are alike to the rule, which is about places alone. So the search goes over sets
of places, the smallest first, and asks of each how many devices of each type lie there; which ones is then chosen as
the greedy choice would. Sets that cannot reach the counts any more are cut, and of places with the same counts only
the first is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.rules.devices.candidates import Candidates
from berth.rules.devices.columns import GPU
from berth.rules.devices.joint import Chosen, places_of
from berth.rules.devices.ordering import by_place
from berth.rules.devices.partitions import Partition
from berth.rules.devices.topology import NUMA_NODE, PCIE

STEPS_MAX: Final = 20_000
"""Sets of places that are looked at. Sixteen places of which no two are alike have 65,535, most of them cut."""


class Rule(NamedTuple):
    """How the cards of the request must lie: as one of these partitions if there are any (`bound`: as no other way),
    and under one scope of this level.
    """

    partitions: Sequence[Partition] = ()
    bound: bool = False
    level: int = 0


class _Place(NamedTuple):
    """A place, the NUMA node of its cards, whether something there is in use, and how many of each type can serve."""

    name: str
    zone: int
    in_use: bool
    counts: tuple[int, ...]


@dataclass
class _Steps:
    left: int


def search(
    types: Sequence[str], parts: Mapping[str, Candidates], scope: str, rule: Rule, steps: int = STEPS_MAX
) -> Chosen | None:
    """Devices of all these types at the same places, as many as asked for and one at each place at least.

    The first type has exactly as many as it asks for, and so have cards; of others there is one more for each place
    that has none yet. None: there is no such choice, or it was not found within so many steps.
    """
    where = {kind: places_of(parts[kind], scope) for kind in types}
    budget = _Steps(steps)
    if GPU.name in types:
        for partition in rule.partitions:
            budget.left -= 1
            if budget.left < 0:
                return None
            there = where[GPU.name]
            near = {there.get(minor, "") for minor in partition.minors}
            partitioned = _only(parts, GPU.name, partition.minors)
            if "" not in near and _hold(types, partitioned, where, near):
                return _pick(types, partitioned, where, near)
        if rule.bound:
            return None
    for narrowed in _scopes(types, parts, rule.level):
        for near in _sets(types, narrowed, where, budget):
            return _pick(types, narrowed, where, near)
    return None


def _scopes(types: Sequence[str], parts: Mapping[str, Candidates], level: int) -> Iterator[Mapping[str, Candidates]]:
    """The candidates with the cards under one scope of the level, for each such scope."""
    if GPU.name not in types or level < NUMA_NODE:
        yield parts
        return
    scopes: dict[tuple[int, str], list[int]] = {}
    for slot in parts[GPU.name].slots:
        if slot.minor in parts[GPU.name].offers and slot.pcie:
            scopes.setdefault((slot.numa, slot.pcie if level >= PCIE else ""), []).append(slot.minor)
    for minors in scopes.values():
        yield _only(parts, GPU.name, minors)


def _only(parts: Mapping[str, Candidates], kind: str, minors: Sequence[int]) -> dict[str, Candidates]:
    mine = parts[kind]
    offers = {minor: mine.offers[minor] for minor in minors}
    return {**parts, kind: mine._replace(offers=offers, listed=frozenset(minors))}


def _sets(
    types: Sequence[str],
    parts: Mapping[str, Candidates],
    where: Mapping[str, Mapping[int, str]],
    budget: _Steps,
) -> Iterator[set[str]]:
    """Sets of places that hold the request: the fewest places first, within one NUMA node before across several."""
    places = _places(types, parts, where)
    exact = [kind == types[0] or kind == GPU.name for kind in types]
    wanted = [parts[kind].want.instances for kind in types]
    most = min([each for each, is_exact in zip(wanted, exact, strict=True) if is_exact], default=0)
    pools = [[place for place in places if place.zone == zone] for zone in dict.fromkeys(p.zone for p in places)]
    if len(pools) > 1:
        pools.append(places)
    for size in range(1, min(most, len(places)) + 1):
        needs = [each if is_exact else max(each, size) for each, is_exact in zip(wanted, exact, strict=True)]
        for pool in pools:
            yield from _subsets(pool, size, needs, budget)


def _places(
    types: Sequence[str], parts: Mapping[str, Candidates], where: Mapping[str, Mapping[int, str]]
) -> list[_Place]:
    """The places at which every type has a device that can serve, those in use first."""
    zones: dict[str, int] = {}
    busy: set[str] = set()
    for kind in types:
        for slot in parts[kind].slots:
            place = where[kind].get(slot.minor)
            if place is not None:
                zones.setdefault(place, slot.numa)
                if any(slot.used):
                    busy.add(place)
    counted: dict[str, list[int]] = {}
    for at, kind in enumerate(types):
        for minor in parts[kind].offers:
            place = where[kind].get(minor)
            if place is not None:
                counted.setdefault(place, [0] * len(types))[at] += 1
    found = [_Place(name, zones[name], name in busy, tuple(counts)) for name, counts in counted.items() if all(counts)]
    return sorted(found, key=lambda place: (not place.in_use, place.zone, place.name))


def _subsets(pool: Sequence[_Place], size: int, needs: Sequence[int], budget: _Steps) -> Iterator[set[str]]:
    if len(pool) < size:
        return
    kinds = range(len(needs))
    # The most that so many of the places from here on can add, by type.
    tops = [
        [_sums(sorted([place.counts[kind] for place in pool[start:]], reverse=True), size) for kind in kinds]
        for start in range(len(pool) + 1)
    ]

    def extend(start: int, chosen: tuple[str, ...], missing: tuple[int, ...]) -> Iterator[set[str]]:
        left = size - len(chosen)
        if not left:
            if max(missing) <= 0:
                yield set(chosen)
            return
        skipped: set[tuple[int, ...]] = set()
        for at in range(start, len(pool) - left + 1):
            budget.left -= 1
            if budget.left < 0 or any(tops[at][kind][left] < missing[kind] for kind in kinds):
                return
            place = pool[at]
            if place.counts in skipped:
                continue
            skipped.add(place.counts)
            yield from extend(
                at + 1,
                (*chosen, place.name),
                tuple(need - count for need, count in zip(missing, place.counts, strict=True)),
            )

    yield from extend(0, (), tuple(needs))


def _sums(falling: Sequence[int], size: int) -> list[int]:
    sums = [0]
    for at in range(size):
        sums.append(sums[-1] + (falling[at] if at < len(falling) else 0))
    return sums


def _hold(
    types: Sequence[str],
    parts: Mapping[str, Candidates],
    where: Mapping[str, Mapping[int, str]],
    near: set[str],
) -> bool:
    """Whether each type has a device at each of the places, and as many there as it needs."""
    for at, kind in enumerate(types):
        there = [where[kind].get(minor, "") for minor in parts[kind].offers]
        mine = [place for place in there if place in near]
        need = parts[kind].want.instances
        if at and kind != GPU.name:
            need = max(need, len(near))
        elif len(near) > need:
            return False
        if set(mine) != near or len(mine) < need:
            return False
    return True


def _pick(
    types: Sequence[str],
    parts: Mapping[str, Candidates],
    where: Mapping[str, Mapping[int, str]],
    near: set[str],
) -> Chosen:
    """At these places, which hold the request: one device at each, then the best of the rest."""
    chosen: Chosen = {}
    for at, kind in enumerate(types):
        mine = parts[kind]
        count = mine.want.instances if at == 0 or kind == GPU.name else max(mine.want.instances, len(near))
        there = [
            each for each in mine.ranked() if each.minor in mine.offers and where[kind].get(each.minor, "") in near
        ]
        # A preferred device must not take the turn of a place that has none else, so it is preferred within its place.
        order = by_place(
            [each._replace(score=each.score + (1000 if each.minor in mine.preferred else 0)) for each in there],
            where[kind],
            near,
        )
        chosen[kind] = mine.grants([each.minor for each in order[:count]])
    return chosen
