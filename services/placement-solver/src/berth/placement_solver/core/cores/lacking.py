"""What has to become free, or what less to be asked for, before a pod fits a node."""

from __future__ import annotations

import numpy as np

from berth.contracts import names
from berth.placement_solver.core.cores import CoresAsked, Verdict
from berth.placement_solver.core.cores.by_numbers import ByNumbers
from berth.placement_solver.core.cores.judging import (
    cpus_in_words,
    kind_of,
    missing_in_words,
    request_on,
)
from berth.placement_solver.core.cores.placing import Placing
from berth.placement_solver.core.cores.smaller import Smaller, on_all, on_one
from berth.placement_solver.core.seams import (
    Floats,
    Lacking,
    Rejection,
    RowArray,
    Target,
)
from berth.placement_solver.core.words import listed
from berth.rules.cpus.kubelet import SINGLE_NUMA_NODE
from berth.rules.numa.split import NodeZones, zone_needs


class LackingCores(ByNumbers, Placing):
    """What NodeNUMAResource lacks."""

    def distance(self, query: CoresAsked, rows: RowArray, counts: RowArray) -> Floats:
        """See `Freeable`."""
        cores = self._cores
        admitted = self.mask(query, rows)
        verdicts = cores.verdicts(query)
        distance = np.zeros(rows.shape)
        for place, (row, code, count) in enumerate(
            zip(rows.tolist(), cores.make[rows].tolist(), counts.tolist(), strict=True)
        ):
            verdict = verdicts[code]
            if not verdict.concerns:
                continue
            own = count * verdict.own
            is_too_many = own > 0 and own > cores.ground(row).own_cpus
            if verdict.amplified:
                need = count * self._shown_cpu(query, verdict, row)
                is_too_many = is_too_many or need > self._allocatable_cpu(row)
                distance[place] = self._lacking_for(query, verdict, row, count) / need
            if verdict.reason or is_too_many or (verdict.places and cores.uncounted[row]):
                distance[place] = np.inf
                continue
            if not verdict.places:
                continue
            distance[place] += 1000.0 * bool(cores.blocked[row])
            if own:
                distance[place] += max(0, own - int(cores.free[kind_of(verdict), row])) / verdict.own
            if verdict.policy and not admitted[place]:
                distance[place] += 1.0
        return distance

    def lacking(self, query: CoresAsked, row: int, count: int) -> Lacking | None:
        """See `Freeable`."""
        cores = self._cores
        verdict = self._verdict(query, row)
        if not verdict.concerns:
            return Lacking()
        if verdict.reason or (verdict.places and cores.uncounted[row]):
            return None
        cpu = self._lacking_for(query, verdict, row, count) if verdict.amplified else 0
        if cpu:
            is_too_much = count * self._shown_cpu(query, verdict, row) > self._allocatable_cpu(row)
            return None if is_too_much else Lacking({names.CPU: cpu})
        if not verdict.places:
            return Lacking()
        if cores.blocked[row]:
            return Lacking(things=("the CPUs of pods that do not say which are theirs",))
        if verdict.policy:
            return self._lacking_zone(query, verdict, row) if count == 1 else None
        free = int(cores.free[kind_of(verdict), row])
        short = count * verdict.own - free
        if count * verdict.own > cores.ground(row).own_cpus:
            return None
        if short <= 0:
            return None if isinstance(self.place(query, Target(row)), Rejection) else Lacking()
        less = f"{free} exclusive CPUs" if count == 1 and free > 1 else ""
        return Lacking(things=(cpus_in_words(short, verdict),), less=less)

    def part(self, query: CoresAsked, rows: RowArray) -> Floats:
        """See `Reducible`."""
        return np.array([self._smaller(query, row).part for row in rows.tolist()])

    def at_most(self, query: CoresAsked, row: int) -> str:
        """See `Reducible`."""
        less = self._smaller(query, row).amounts
        verdict = self._verdict(query, row)
        if not less or not verdict.policy:
            return cpus_in_words(less[names.CPU] // 1000, verdict) if less else ""
        where = "one NUMA node" if verdict.policy == SINGLE_NUMA_NODE else "its NUMA nodes"
        return f"{missing_in_words(dict(less), verdict)} of {where}"

    def _smaller(self, query: CoresAsked, row: int) -> Smaller:
        """What of the request fits the node as it is."""
        cores = self._cores
        verdict = self._verdict(query, row)
        if not verdict.concerns:
            return Smaller(1.0)
        if verdict.reason or cores.uncounted[row] or cores.blocked[row] or (query.beside and verdict.policy):
            return Smaller(0.0)  # where devices lie nobody can ask less of
        if verdict.amplified and self._lacking_cpu(query, verdict, Target(row)) > 0:
            return Smaller(0.0)
        if verdict.policy:
            node = cores.zones(row)
            needs = zone_needs(node, request_on(query, verdict))
            return (on_one if verdict.policy == SINGLE_NUMA_NODE else on_all)(needs, node.zones)
        free = int(cores.free[kind_of(verdict), row])
        return Smaller(free / verdict.own, {names.CPU: 1000 * free}) if free < verdict.own else Smaller(1.0)

    def shares_node(self, query: CoresAsked) -> bool:
        """See `Freeable`."""
        return True

    def _lacking_zone(self, query: CoresAsked, verdict: Verdict, row: int) -> Lacking | None:
        """What all NUMA nodes together lack, or the one that lacks least."""
        rejection = self.place(query, Target(row))
        if not isinstance(rejection, Rejection):
            return Lacking()
        cores = self._cores
        node = cores.zones(row)
        needs = zone_needs(node, request_on(query, verdict))
        whole = NodeZones(node.capacity, {}, node.ratio, node.layout, cores.all_cpus(row))
        offered = {need.name: need.offered for need in zone_needs(whole, request_on(query, verdict))}
        together = {name: amount for name, amount in rejection.lacking.items() if amount > 0}
        if verdict.policy != SINGLE_NUMA_NODE and (together or not query.beside):
            is_enough = all(sum(offered[need.name].values()) >= need.amount for need in needs)
            words = f"{missing_in_words(together, verdict)} of its NUMA nodes"
            return Lacking(things=(words,)) if together and is_enough else None
        best: tuple[float, str] | None = None
        for zone in node.zones:
            missing = {need.name: need.amount - need.offered.get(zone, 0) for need in needs}
            missing = {name: amount for name, amount in missing.items() if amount > 0}
            if any(offered[need.name].get(zone, 0) < need.amount for need in needs):
                continue
            found = [each.lacking_on(asked, row, zone) for each, asked in query.beside]
            beside = [words for each in found for words in each or ()]
            if None in found or not (missing or beside):
                continue
            part = len(beside) + sum(missing[need.name] / need.amount for need in needs if need.name in missing)
            if best is None or part < best[0]:
                things = [missing_in_words(missing, verdict)] if missing else []
                best = (part, f"{listed([*things, *beside])} of NUMA node {zone}")
        return Lacking(things=(best[1],)) if best is not None else None
