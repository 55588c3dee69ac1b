"""Which CPUs the best-effort group gets when it is held by a cpuset.

Whole physical cores first, spread over NUMA nodes and sockets, so that best-effort work shares as few cores as
possible with services; growth is slow and shrinking instant. Stateless as in Koordinator: the same inputs give the same
CPUs, whichever were chosen before.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from berth.node_qos_enforcer.core.topology import Processor

MIN_CPUS = 2
"""The group always keeps two CPUs."""


def choose_cpus(
    *,
    target_milli: int,
    processors: Sequence[Processor],
    current: Collection[int],
    reserved: Collection[int] = (),
    exclusive_system: Collection[int] = (),
    lsr: Collection[int] = (),
    lse: Collection[int] = (),
) -> list[int]:
    """Choose the best-effort CPUs of a node for a target.

    Args:
        target_milli: the target of `suppress_target`.
        processors: all logical CPUs that are online.
        current: the group's CPUs now; growth is limited from here.
        reserved: CPUs of the node's reservation annotation.
        exclusive_system: CPUs that system processes have for themselves.
        lsr: CPUs of pods of class LSR. They and the others give in proportion to how many there are of each.
        lse: CPUs of pods of class LSE, which are never used.

    Returns:
        CPU ids in pick order, those of LSR pods first. Empty: change nothing (fewer are left than the target is worth).
        Of two pools one may be too small for its part: the other gives its own part alone.
    """
    wanted = _wanted(target_milli, current=len(current), logical=len(processors))
    excluded = {*reserved, *exclusive_system, *lse}
    left = [row for row in processors if row.cpu not in excluded]
    of_lsr = [row for row in left if row.cpu in lsr]
    shared = [row for row in left if row.cpu not in lsr]
    from_lsr = wanted * len(of_lsr) // len(left) if left else 0
    return choose_from_pool(from_lsr, of_lsr) + choose_from_pool(wanted - from_lsr, shared)


def choose_from_pool(wanted: int, pool: Sequence[Processor]) -> list[int]:
    """Take CPUs from one pool: whole cores in turn from each (NUMA node, socket), then single CPUs.

    Groups take turns, larger ones first, then those with the smaller first CPU; a turn gives one physical core (both
    siblings) as long as more than one CPU is needed, and singles go on from the group whose turn it is.

    Returns:
        Exactly `wanted` distinct CPU ids in pick order, or nothing when the pool is smaller than that.
    """
    groups = _groups(pool)
    if wanted <= 0 or sum(map(len, groups)) < wanted:
        return []
    taken: list[int] = []
    turn, needed_at_round = 0, -1
    while wanted - len(taken) > 1:
        if turn == 0:
            if needed_at_round == len(taken):
                break
            needed_at_round = len(taken)
        taken.extend(_take_core(groups[turn]))
        turn = (turn + 1) % len(groups)
    while len(taken) < wanted:
        if groups[turn]:
            taken.append(groups[turn].pop(0).cpu)
        turn = (turn + 1) % len(groups)
    return taken


def _wanted(target_milli: int, *, current: int, logical: int) -> int:
    wanted = max(-(-target_milli // 1000), MIN_CPUS)
    return min(wanted, current + -(-logical // 10))


def _groups(pool: Sequence[Processor]) -> list[list[Processor]]:
    by_place: dict[tuple[int, int], list[Processor]] = {}
    for row in sorted({row.cpu: row for row in pool}.values(), key=lambda row: (row.core, row.cpu)):
        by_place.setdefault((row.node, row.socket), []).append(row)
    return sorted(by_place.values(), key=lambda group: (-len(group), group[0].cpu))


def _take_core(group: list[Processor]) -> list[int]:
    """Remove the first two siblings of one core from the group, if it still has such a core."""
    for first, second in itertools.pairwise(group):
        if first.core == second.core:
            group.remove(first)
            group.remove(second)
            return [first.cpu, second.cpu]
    return []
