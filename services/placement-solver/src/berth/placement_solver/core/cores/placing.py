"""One node: which CPUs and shares of NUMA nodes a pod gets there, or why none."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from berth.contracts import names
from berth.contracts.grants import CPU
from berth.placement_solver.core.cores import CoresAsked, Known, Placed, Verdict
from berth.placement_solver.core.cores.held import rivals_of
from berth.placement_solver.core.cores.judging import (
    Judging,
    request_on,
)
from berth.placement_solver.core.seams import (
    Rejection,
    Target,
)
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.kubelet import BEST_EFFORT
from berth.rules.cpus.take import take_cpus
from berth.rules.numa.align import align
from berth.rules.numa.charges import total_charges
from berth.rules.numa.policy import zone_strategy
from berth.rules.numa.split import limited
from berth.rules.records.resource_status import cpus_of, zones_of

UNKNOWN: Final = "node(s) hold pods with CPUs of their own of which nobody knows which"
UNCOUNTED: Final = "node(s) whose CPUs wait to be read by device-inventory"
NOT_CONCERNED: Final = Placed()


class Placing(Judging):
    """The choice of NodeNUMAResource."""

    def place(self, query: CoresAsked, target: Target) -> Placed | Rejection:
        """What the pod gets on a node. What is said of a node as it is, is kept until the node changes."""
        if target.hypothesis.gone or target.hypothesis.there or target.reservation:
            return self._place(query, target)
        cores, row = self._cores, target.row
        verdict = self._verdict(query, row)
        zones = cores.zones(row) if verdict.policy else None
        known, key = query.known.get(row), self._key(query, verdict, row)
        if known is None or known.key != key or known.zones is not zones:
            query.known[row] = known = Known(key, zones, self._place(query, target))
        return known.found

    def _key(self, query: CoresAsked, verdict: Verdict, row: int) -> object:
        """Equal as long as the node is, for this pod."""
        cores = self._cores
        beside = tuple([each.version(row) for each, _ in query.beside]) if verdict.policy else ()
        cpu = (self._allocatable_cpu(row), cores.requested(row, names.CPU)) if verdict.amplified else ()
        state = (cores.changes(row), cores.ratio(row), bool(cores.blocked[row]), bool(cores.uncounted[row]))
        return (verdict, cores.make_of(row), state, beside, cpu)

    def _place(self, query: CoresAsked, target: Target) -> Placed | Rejection:
        cores, row, hypothesis = self._cores, target.row, target.hypothesis
        verdict = self._verdict(query, row)
        lacking = self._lacking_cpu(query, verdict, target) if verdict.amplified else 0
        if not verdict.places:
            return NOT_CONCERNED if not lacking else self._too_little(query, verdict, row, lacking)
        if cores.uncounted[row]:
            return Rejection((UNCOUNTED,))
        if verdict.reason:
            return Rejection((verdict.reason,), resolvable=False)
        if cores.unknown(row, hypothesis) > 0:
            return Rejection((UNKNOWN,))
        if lacking:
            return self._too_little(query, verdict, row, lacking)
        ground, holders = cores.ground(row), cores.holders(row, hypothesis)
        left = [claim.grants for claim in hypothesis.gone if target.reservation and claim.uid == target.reservation]
        preferred = NO_CPUS.union(*(cpus_of(grants) for grants in left))
        free = cores.free_cpus(row, hypothesis)
        if names.CPU in target.restricted and any(grant.kind == CPU for grant in target.held):
            free &= preferred
        rivals = rivals_of(holders, query.binding.exclusive)
        strategy = zone_strategy(cores.make_of(row).by_name, self._strategy)
        if not verdict.policy:
            if ground.layout is None:
                return NOT_CONCERNED
            taken = take_cpus(
                ground.layout,
                free,
                verdict.own,
                bind=verdict.bind,
                required=verdict.required,
                strategy=strategy,
                exclusive=query.binding.exclusive,
                rivals=rivals,
                preferred=preferred,
            )
            if taken.reason:
                return Rejection((taken.reason,), resolvable=verdict.own <= ground.own_cpus)
            return Placed(taken.cpus)
        node = cores.zones(row, hypothesis)
        if target.restricted:
            of_zones = {name for amounts in zones_of(target.held).values() for name in amounts}
            shares = total_charges(zones_of(grants) for grants in left)
            node = limited(replace(node, free_cpus=free), shares, of_zones & target.restricted)
        is_strict = verdict.policy != BEST_EFFORT
        others = [each.hints(asked, target, only_smallest=is_strict) for each, asked in query.beside]
        found = align(
            node,
            request_on(query, verdict, strategy, rivals, preferred),
            policy=verdict.policy,
            exclusive=query.spec.exclusive,
            status=cores.status(row, hypothesis),
            others=others,
            strategy=strategy,
            weights=self._weights,
        )
        if found.reasons:
            return Rejection(found.reasons, lacking=dict(found.lacking))
        # BestEffort that comes to all NUMA nodes binds nothing: what lies on none of them may be taken as well.
        is_bound = is_strict or found.zones != node.zones
        return Placed(found.allocation.cpus, found.allocation.zones, found.zones if is_bound else None)
