"""Which of the free CPUs a pod with CPUs of its own gets.

The procedure is Koordinator's, so that both choose alike. FullPCPUs: whole cores of one zone, else of one socket, else
of the sockets with most of them, and what no whole core is left for (or needed) thread by thread. Every other policy:
one thread of each core first, in one zone, else in one socket, else thread by thread over all sockets. It differs where
Koordinator counts with averages: on a node whose cores differ in threads, zones and sockets are tried by what they
really have, whole cores are put together so that they come to the number asked for, if that can be, and never more than
that is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from berth.rules.cpus.available import FULL_PCPUS, SPREAD_BY_PCPUS, usable_cpus
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.layout import Core, CpuLayout

PCPU_LEVEL: Final = "PCPULevel"
"""Exclusive policy: no core is shared with a pod of the same exclusive policy, where that can be."""
NUMA_NODE_LEVEL: Final = "NUMANodeLevel"
"""Exclusive policy: no zone is shared with such a pod, where that can be."""
MOST_ALLOCATED: Final = "MostAllocated"
"""Strategy: the fuller place first."""
LEAST_ALLOCATED: Final = "LeastAllocated"
"""Strategy: the emptier place first; so does every other text."""

NOT_ENOUGH: Final = "not enough cpus available to satisfy request"
INSUFFICIENT: Final = "insufficient CPUs to satisfy required cpu bind policy {}"

_NO_REFERENCES: Final[Mapping[int, int]] = {}
_TRIES: Final = (True, False)
"""First without what conflicts with the exclusive policy, then with everything."""


class Taken(NamedTuple):
    """The CPUs, exactly as many as were asked for; or none and the `reason`."""

    cpus: frozenset[int] = NO_CPUS
    reason: str = ""


def take_cpus(
    layout: CpuLayout,
    free: Set[int],
    count: int,
    *,
    bind: str,
    required: bool = False,
    strategy: str = "",
    exclusive: str = "",
    rivals: Set[int] = NO_CPUS,
    preferred: Set[int] = NO_CPUS,
    references: Mapping[int, int] = _NO_REFERENCES,
) -> Taken:
    """Choose `count` of the CPUs that `available_cpus` names, or of those of some zones among them.

    Args:
        layout: the node's CPUs.
        free: what may be chosen; ids that the layout does not have are left out.
        count: how many; 0 or less takes none.
        bind: the bind policy; every text but FullPCPUs acts as SpreadByPCPUs.
        required: the policy must hold for all that is taken: whole cores, or one CPU of each core.
        strategy: MostAllocated or LeastAllocated, of the zones and sockets to begin with.
        exclusive: the pod's exclusive policy. It is followed where that can be, and never a reason to refuse.
        rivals: CPUs of pods with the same exclusive policy.
        preferred: of the free CPUs those to use up first: what a Reservation of the pod holds.
        references: how many hold each CPU already, where pods may share CPUs; cores with fewer go first.
    """
    if count <= 0:
        return Taken()
    pool = layout.all & free
    if len(pool) < count:
        return Taken(reason=NOT_ENOUGH)
    if required:
        # Of a core whose CPUs are partly preferred, SpreadByPCPUs may use a preferred one.
        favoured = usable_cpus(layout, pool & preferred, bind) if preferred else NO_CPUS
        pool = usable_cpus(layout, pool, bind) if not favoured else _usable_beside(layout, pool, favoured, bind)
        if len(pool) < count:
            return Taken(reason=INSUFFICIENT.format(bind))
    else:
        favoured = pool & preferred

    def choose(within: frozenset[int], number: int) -> frozenset[int]:
        choice = _Choice(layout, within, number, strategy, exclusive, rivals, references)
        return choice.run(whole=bind == FULL_PCPUS, uncut=required)

    chosen = NO_CPUS
    if favoured:
        number = min(count, len(favoured))
        if required and bind == FULL_PCPUS:
            number = sum(len(core.cpus) for core in _summing_to(_full(layout.cores, favoured), number))
        chosen = choose(favoured, number)
    if len(chosen) < count:
        # What was preferred is used up, but for whole cores that would have been too many.
        chosen |= choose(pool - chosen, count - len(chosen))
    if required and favoured and not _holds(layout, chosen, bind):
        chosen = choose(pool, count)
    if required and not _holds(layout, chosen, bind):
        return Taken(reason=INSUFFICIENT.format(bind))
    return Taken(chosen)


def whole_cores_sum_to(layout: CpuLayout, count: int) -> bool:
    """Whether some cores of the layout have exactly `count` CPUs together, so that FullPCPUs can hold at all.

    Where all cores have as many threads, any multiple of them, also one that exceeds the node.
    """
    if layout.even:
        return layout.threads == 0 or count % layout.threads == 0
    return _total(_summing_to(layout.cores, count)) == count


class _Choice:
    """One run over a pool. `left` is how many are still to be taken from what is still `free`."""

    def __init__(
        self,
        layout: CpuLayout,
        pool: frozenset[int],
        count: int,
        strategy: str,
        exclusive: str,
        rivals: Set[int],
        references: Mapping[int, int],
    ) -> None:
        self.layout = layout
        self.free = set(pool)
        self.left = count
        self.taken: list[int] = []
        self.sign = 1 if strategy == MOST_ALLOCATED else -1
        self.exclusive = exclusive
        self.rivals = rivals
        self.references = references

    def run(self, *, whole: bool, uncut: bool) -> frozenset[int]:
        """All that could be taken; `uncut`: rather whole cores of several places than a part of one in one place."""
        if self.left > 0 and (whole or self.layout.threads == 1):
            self._whole_cores(uncut)
        if self.left > 0 and not whole:
            self._spread_in_one_place()
        for is_exclusive in _TRIES:
            if self.left > 0:
                self._threads(is_exclusive)
        return frozenset(self.taken)

    def _take(self, cpus: Iterable[int]) -> None:
        for cpu in cpus:
            self.taken.append(cpu)
            self.free.discard(cpu)
            self.left -= 1

    # --- whole cores ---

    def _whole_cores(self, uncut: bool) -> None:
        shown_by_try = [self._shown(NUMA_NODE_LEVEL), self.free] if self._conflicts(NUMA_NODE_LEVEL) else [self.free]
        for shown in shown_by_try:
            if self._from_one_place(self._zones_of_whole_cores(shown), uncut):
                return
        sockets = [(self._in_order(_full(cores, self.free)), key) for key, cores in self.layout.sockets.items()]
        by_strategy = sorted(sockets, key=lambda place: (self.sign * _total(place[0]), place[1]))
        if self._from_one_place([cores for cores, _ in by_strategy], uncut):
            return
        by_size = sorted(sockets, key=lambda place: (-_total(place[0]), place[1]))
        self._from_several_sockets([cores for cores, _ in by_size])

    def _zones_of_whole_cores(self, shown: Set[int]) -> list[list[Core]]:
        socket_free = {socket: len(cpus & shown) for socket, cpus in self.layout.socket_cpus.items()}
        zones = []
        for zone, cores in self.layout.zones.items():
            full = self._in_order(_full(cores, shown))
            if full:
                place = (self.sign * _total(full), self.sign * socket_free[full[0].socket], zone)
                zones.append((place, full))
        return [full for _, full in sorted(zones, key=lambda entry: entry[0])]

    def _from_one_place(self, places: Sequence[list[Core]], uncut: bool) -> bool:
        """Take all from the first place that has it in whole cores, else from the first that has as many CPUs."""
        fitting = [cores for cores in places if _total(cores) >= self.left]
        for cores in fitting:
            whole = _summing_to(cores, self.left)
            if _total(whole) == self.left:
                self._take([cpu for core in whole for cpu in core.cpus])
                return True
        if uncut or not fitting:
            return False
        self._take([cpu for core in fitting[0] for cpu in core.cpus][: self.left])
        return True

    def _from_several_sockets(self, sockets: Sequence[list[Core]]) -> None:
        """Whole sockets while they fit, then whole cores from the smallest of the others."""
        if not self.layout.even:
            together = _summing_to([core for cores in sockets for core in cores], self.left)
            if _total(together) == self.left:
                self._take([cpu for core in together for cpu in core.cpus])
                return
        others: list[list[Core]] = []
        for cores in sockets:
            if _total(cores) <= self.left:
                self._take([cpu for core in cores for cpu in core.cpus])
            else:
                others.append(cores)
        rest = [core for cores in sorted(others, key=_total) for core in cores]
        self._take([cpu for core in _summing_to(rest, self.left) for cpu in core.cpus])

    def _in_order(self, cores: list[Core]) -> list[Core]:
        """Cores of one place, those that fewer hold first."""
        return sorted(cores, key=self._held) if self.references else cores

    def _held(self, core: Core) -> int:
        return sum(self.references.get(cpu, 0) for cpu in core.cpus if cpu in self.free)

    # --- one thread of each core first ---

    def _spread_in_one_place(self) -> None:
        for is_exclusive in _TRIES:
            shown = self._shown(PCPU_LEVEL, NUMA_NODE_LEVEL) if is_exclusive else self.free
            free_in_zone = {zone: len(cpus & shown) for zone, cpus in self.layout.zone_cpus.items()}
            free_in_socket = {socket: len(cpus & shown) for socket, cpus in self.layout.socket_cpus.items()}
            zones: list[tuple[tuple[int, ...], Set[int]]] = []
            for zone, cores in self.layout.zones.items():
                key = (self.sign * free_in_zone[zone], self.sign * free_in_socket[cores[0].socket], zone)
                zones.append((key, self.layout.zone_cpus[zone] & shown))
            if self._spread_over_first(zones, one_of_each=is_exclusive):
                return
        for is_exclusive in _TRIES:
            shown = self._shown(PCPU_LEVEL) if is_exclusive else self.free
            sockets: list[tuple[tuple[int, ...], Set[int]]] = []
            for socket, cpus in self.layout.socket_cpus.items():
                there = cpus & shown
                offered = len(self._first_of_each_core(there)) if is_exclusive else len(there)
                sockets.append(((self.sign * offered, socket), there))
            if self._spread_over_first(sockets, one_of_each=is_exclusive):
                return

    def _spread_over_first(self, places: Iterable[tuple[tuple[int, ...], Set[int]]], *, one_of_each: bool) -> bool:
        """Take all from the first place, in the order of the keys, that offers as many."""
        for _, there in sorted(places, key=lambda place: place[0]):
            if len(there) < self.left:
                continue
            offered = self._first_of_each_core(there) if one_of_each else self._by_turns(sorted(there))
            if len(offered) >= self.left:
                self._take(offered[: self.left])
                return True
        return False

    def _first_of_each_core(self, cpus: Iterable[int]) -> list[int]:
        first: dict[tuple[int, int], int] = {}
        for cpu in sorted(cpus):
            core = self.layout.core_of[cpu]
            first.setdefault((core.socket, core.id), cpu)
        return list(first.values())

    def _by_turns(self, cpus: Sequence[int]) -> list[int]:
        """One CPU of each core in turn, cores and their CPUs in the order given."""
        if len(cpus) <= self.layout.threads:
            return list(cpus)
        turns: list[list[int]] = []
        seen: dict[tuple[int, int], int] = {}
        for cpu in cpus:
            core = self.layout.core_of[cpu]
            key = (core.socket, core.id)
            turn = seen[key] = seen.get(key, -1) + 1
            if turn == len(turns):
                turns.append([])
            turns[turn].append(cpu)
        return [cpu for turn in turns for cpu in turn]

    # --- thread by thread ---

    def _threads(self, is_exclusive: bool) -> None:
        """Go on beside what is taken: its sockets first, of each the cores that are most used already."""
        shown = self._shown(PCPU_LEVEL, NUMA_NODE_LEVEL) if is_exclusive else set(self.free)
        taken = set(self.taken)
        near = {socket: -len(cpus & taken) for socket, cpus in self.layout.socket_cpus.items()}
        socket_free = {socket: self.sign * len(cpus & shown) for socket, cpus in self.layout.socket_cpus.items()}
        zone_free = {zone: self.sign * len(cpus & shown) for zone, cpus in self.layout.zone_cpus.items()}
        ranked = []
        for place, core in enumerate(self.layout.cores):
            cpus = [cpu for cpu in core.cpus if cpu in shown]
            if cpus:
                held = self._held(core) if self.references else 0
                key = (near[core.socket], socket_free[core.socket], zone_free[core.zone], len(cpus), core.socket)
                ranked.append((key, held, place, cpus))
        ranked.sort(key=lambda entry: entry[:3])
        self._take(self._by_turns([cpu for *_, cpus in ranked for cpu in cpus])[: self.left])

    # --- exclusive policy ---

    def _conflicts(self, *levels: str) -> bool:
        return self.exclusive in levels and bool(self.rivals or self.taken)

    def _shown(self, *levels: str) -> Set[int]:
        """The free CPUs but those that conflict with the exclusive policy, if it is one of these."""
        if not self._conflicts(*levels):
            return self.free
        holders = [self.layout.core_of[cpu] for cpu in (*self.rivals, *self.taken) if cpu in self.layout.core_of]
        if self.exclusive == PCPU_LEVEL:
            hidden = frozenset[int]().union(*(core.members for core in holders))
        else:
            hidden = frozenset[int]().union(*(self.layout.zone_cpus[core.zone] for core in holders))
        return self.free - hidden


def _full(cores: Iterable[Core], free: Set[int]) -> list[Core]:
    return [core for core in cores if core.members <= free]


def _total(cores: Iterable[Core]) -> int:
    return sum(len(core.cpus) for core in cores)


def _summing_to(cores: Sequence[Core], count: int) -> list[Core]:
    """Of these cores some with `count` CPUs together, the first ones in order where there is a choice; where no cores
    come to that, as many of the first ones as stay below it."""
    below = []
    left = count
    for core in cores:
        if len(core.cpus) <= left:
            below.append(core)
            left -= len(core.cpus)
    if left == 0 or len({len(core.cpus) for core in cores}) <= 1:
        return below
    # Bit n of `reached[i]`: some of the first i cores have n CPUs together.
    reached = [1]
    for core in cores:
        reached.append((reached[-1] | reached[-1] << len(core.cpus)) & ((2 << count) - 1))
    if not reached[-1] >> count & 1:
        return below
    exact = []
    left = count
    for place in range(len(cores) - 1, -1, -1):
        if not reached[place] >> left & 1:
            exact.append(cores[place])
            left -= len(cores[place].cpus)
    return exact[::-1]


def _usable_beside(layout: CpuLayout, pool: frozenset[int], favoured: frozenset[int], bind: str) -> frozenset[int]:
    """What a required policy can use together with favoured CPUs, which it can use themselves."""
    if bind != SPREAD_BY_PCPUS:
        return usable_cpus(layout, pool, bind)
    others = pool - {cpu for taken in favoured for cpu in layout.core_of[taken].cpus}
    return favoured | usable_cpus(layout, others, bind)


def _holds(layout: CpuLayout, cpus: frozenset[int], bind: str) -> bool:
    """Whether CPUs that were taken follow the policy."""
    touched = {(core.socket, core.id): core for core in (layout.core_of[cpu] for cpu in cpus)}
    if bind == FULL_PCPUS:
        return all(core.members <= cpus for core in touched.values())
    return bind != SPREAD_BY_PCPUS or len(touched) == len(cpus)
