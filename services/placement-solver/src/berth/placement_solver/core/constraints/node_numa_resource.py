"""NodeNUMAResource: CPUs of its own for a pod, and the NUMA nodes that its CPUs, memory, hugepages and devices lie on
together.

Pods of the classes LSE and LSR ask for CPUs, an annotation of the pod or the node asks for NUMA nodes. Which policy
holds follows from both and from kubelet (`berth.rules.cpus.bind_policy`, `berth.rules.numa.policy`); what fits one node
is `berth.rules.numa.align`. The mask lets through what may fit by numbers: so many CPUs, so much of a NUMA node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import CPU
from berth.contracts.state import PodTemplate
from berth.placement_solver.core.cores import CoresAsked, Known, Placed, Verdict
from berth.placement_solver.core.cores.held import rivals_of
from berth.placement_solver.core.cores.smaller import Smaller, on_all, on_one
from berth.placement_solver.core.cores.store import KINDS
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import (
    Depends,
    Floats,
    Lacking,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
    Unusable,
    ZoneHinter,
)
from berth.placement_solver.core.words import amounts_listed, listed
from berth.resources.amounts import Amounts
from berth.rules.amplification import amplify
from berth.rules.cpus.available import FULL_PCPUS
from berth.rules.cpus.bind_policy import (
    CpuBinding,
    cpu_binding,
    format_resource_spec,
    read_resource_spec,
    unsupported_policy,
    with_resolved_policy,
)
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.kubelet import BEST_EFFORT, SINGLE_NUMA_NODE
from berth.rules.cpus.qos import LSE, LSR, priority_class_or_default, qos_class
from berth.rules.cpus.take import INSUFFICIENT, NOT_ENOUGH, take_cpus
from berth.rules.numa.align import align
from berth.rules.numa.amplified_cpu import INSUFFICIENT as TOO_LITTLE
from berth.rules.numa.amplified_cpu import amplified_uses, lacking_cpu
from berth.rules.numa.charges import total_charges
from berth.rules.numa.policy import NO_SPEC, read_numa_spec, zone_strategy
from berth.rules.numa.split import NodeZones, ZoneRequest, limited, zone_needs
from berth.rules.records.resource_status import cpus_of, own_milli, pinned_requests, zones_of
from berth.rules.scheduler_config import NumaArgs

UNKNOWN: Final = "node(s) hold pods with CPUs of their own of which nobody knows which"
UNCOUNTED: Final = "node(s) whose CPUs wait to be read by device-inventory"
WAIT: Final = "none is needed; if this lasts, see whether device-inventory and cluster-watcher work"
"""For who may fit once the CPUs are known."""
SINGLE, SEVERAL = 1, 2
PODS_MAX: Final = 1 << 20
"""More than this no node takes."""


NOT_CONCERNED: Final = Placed()


class NodeNUMAResource:
    """See the module. The query is what the pod asks for; where it asks for nothing a node may still give it some."""

    name = "NodeNUMAResource"
    depends = Depends.NODE | Depends.CAPACITY
    exact = False

    def __init__(
        self,
        nodes: Nodes,
        args: NumaArgs | None = None,
        *,
        beside_kubelet: bool = False,
        beside: Sequence[ZoneHinter] = (),
    ) -> None:
        """`beside_kubelet`: own CPUs are given out also where kubelet's CPU manager gives them out itself. `beside` are
        the constraints whose things lie on NUMA nodes together with CPUs and memory."""
        args = args or NumaArgs()
        self._nodes = nodes
        self._cores = nodes.cores
        self._default_bind = args.default_cpu_bind_policy
        self._strategy = args.numa_scoring_strategy.type
        self._weights = args.numa_scoring_strategy.weights
        self._beside_kubelet = beside_kubelet
        self._beside = beside

    # --- pods --------------------------------------------------------------------------------------------------------

    def notes_of(self, template: PodTemplate) -> dict[str, str]:
        """What of a pod the query depends on beside its request and its QoS class; nothing for most pods."""
        annotations, labels = template.annotations, template.labels
        notes = {}
        if names.ANNOTATION_NUMA_SPEC in annotations:
            notes[names.ANNOTATION_NUMA_SPEC] = annotations[names.ANNOTATION_NUMA_SPEC]
        if labels.get(names.LABEL_QOS) in (LSE, LSR):
            notes[names.ANNOTATION_RESOURCE_SPEC] = annotations.get(names.ANNOTATION_RESOURCE_SPEC, "")
            notes[names.LABEL_PRIORITY_CLASS] = priority_class_or_default(labels, template.priority, "")
        is_imposed = self._cores.imposes
        if (notes or is_imposed) and template.overhead:
            notes["overhead"] = str(template.overhead.get(names.CPU, 0))
        if is_imposed:
            notes["imposed"] = ""
        return notes

    def prefilter(self, spec: Spec) -> CoresAsked | Unusable | None:
        """See `Constraint`."""
        template = spec.template
        if not any(amount > 0 for amount in template.requests.values()):
            return None
        milli = own_milli(template)
        binding: CpuBinding | Problem | None = CpuBinding(milli // 1000)
        if qos_class(template.labels) in (LSE, LSR):
            requests = pinned_requests(template)
            binding = cpu_binding(
                template.labels, template.annotations, template.priority, requests, default=self._default_bind
            )
            if isinstance(binding, CpuBinding) and (problem := _unsupported(template)) is not None:
                return Unusable((problem,))
        wish = read_numa_spec(template.annotations) if names.ANNOTATION_NUMA_SPEC in template.annotations else NO_SPEC
        problems = tuple(each for each in (binding, wish) if isinstance(each, Problem))
        if problems:
            return Unusable(problems)
        if not isinstance(binding, CpuBinding) or isinstance(wish, Problem):
            return None
        if not (binding.bound or wish.policy or self._cores.imposes):
            return None
        # What they cannot use they say themselves.
        asked = ((each, each.prefilter(spec)) for each in self._beside)
        beside = tuple(each for each in asked if not isinstance(each[1], Unusable | Rejection | None))
        return CoresAsked(template.requests, milli, binding, wish, beside, self._beside_kubelet)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def mask(self, query: CoresAsked, rows: Rows) -> Mask:
        """See `Constraint`."""
        cores = self._cores
        cores.follow()
        codes = cores.make[rows]
        verdicts = cores.verdicts(query)
        outline = query.outline()
        if not outline.concerns:
            return np.ones(codes.shape, np.bool_)
        if (alike := outline.alike) is not None:
            enough: Mask = outline.giving(codes)
            enough &= ~cores.uncounted[rows]
            enough &= cores.blocked[rows] == 0
            if alike.own:
                enough &= cores.free[_kind(alike)][rows] >= alike.own
            if alike.policy:
                enough &= self._zone_mask_alike(query, alike, rows)
            return enough | outline.aside[codes] if outline.aside.any() else enough
        concerned = np.array([each.concerns for each in verdicts], np.bool_)[codes]
        refused = np.array([bool(each.reason) for each in verdicts], np.bool_)[codes]
        own = np.array([each.own for each in verdicts], np.int64)[codes]
        kind = np.array([_kind(each) for each in verdicts], np.intp)[codes]
        policy = np.array([_policy(each) for each in verdicts], np.intp)[codes]
        places = np.array([each.places for each in verdicts], np.bool_)[codes]
        amplified = np.array([each.amplified for each in verdicts], np.bool_)[codes]
        at = _indices(rows, codes.size)
        ok: Mask = ~refused & ~(places & (cores.uncounted[at] | (cores.blocked[at] > 0)))
        ok &= (own == 0) | (cores.free[kind, at] >= own)
        if amplified.any():
            ok &= ~amplified | (self._lacking_cpus(query, at, own) <= 0)
        if policy.any():
            by_zone = np.flatnonzero(ok & (policy > 0))
            if by_zone.size:
                ok[by_zone] &= self._zone_mask(query, at[by_zone], own[by_zone], kind[by_zone], policy[by_zone])
        return ok | ~concerned

    def _zone_mask_alike(self, query: CoresAsked, verdict: Verdict, rows: Rows) -> Mask:
        """What `_zone_mask` says of rows that are all judged alike, and show no more cpu than they have."""
        zones = self._cores.zone_columns
        there = zones.there[:, rows]
        needs = [
            (place, 1000 * verdict.own if name == names.CPU and verdict.own else amount)
            for name, amount in query.amounts.items()
            if amount > 0 and (place := zones.resources.get(name)) is not None
        ]
        if _policy(verdict) != SINGLE:
            together: Mask = np.ones(there.shape[1], np.bool_)
            for place, needed in needs:
                enough = np.where(there, zones.free[place][:, rows], 0).sum(axis=0) >= needed
                together &= enough | ~zones.reported[place, rows]
            return together
        fits: Mask = there & ~zones.shared[:, rows] if query.spec.is_exclusive else there
        if verdict.own:
            fits = fits & (zones.cpus[_kind(verdict)][:, rows] >= verdict.own)
        for place, needed in needs:
            has = zones.free[place][:, rows] >= needed
            reported = zones.reported[place, rows]
            if np.count_nonzero(reported) < reported.size:
                has |= ~reported
            fits = fits & has
        # Zone by zone, since there are few: numpy reduces a short axis slowly.
        found: Mask = np.zeros(there.shape[1], np.bool_)
        for zone in fits:
            found |= zone
        return found

    def _zone_mask(self, query: CoresAsked, at: RowArray, own: RowArray, kind: RowArray, policy: RowArray) -> Mask:
        """Which of these rows have as much on one NUMA node, or on all together, as their policy asks for."""
        cores = self._cores
        zones = cores.zone_columns
        ratios = cores.ratios[at]
        there = zones.there[:, at]
        fits = there & ~zones.shared[:, at] if query.spec.is_exclusive else there.copy()
        together = np.ones(at.shape, np.bool_)
        for name, amount in query.amounts.items():
            place = zones.resources.get(name)
            if place is None or amount <= 0:
                continue
            needed = least = np.full(at.shape, amount, np.int64)
            if name == names.CPU:
                pinned = np.ceil(1000 * own * ratios).astype(np.int64)
                needed, least = np.where(own > 0, pinned, needed), np.where(own > 0, 1000 * own, needed)
            unreported = ~zones.reported[place, at]
            free = zones.free[place][:, at]
            fits &= (free >= needed) | unreported
            # Rounding up zone by zone may add a little to each part.
            together &= (np.where(there, free, 0).sum(axis=0) >= least) | unreported
        counts = zones.cpus[:, :, at][kind, :, np.arange(at.size)].T
        fits &= (own == 0) | (counts >= own)
        single: Mask = policy == SINGLE
        return np.where(single, fits.any(axis=0), together)

    def _lacking_cpus(self, query: CoresAsked, at: RowArray, own: RowArray) -> RowArray:
        """How much cpu the pod lacks on each of these nodes, which show more than they have."""
        cores, nodes, column = self._cores, self._nodes, self._nodes.columns[names.CPU]
        ratios, owned = cores.ratios[at], 1000 * own
        need = query.amounts.get(names.CPU, 0) - owned + np.ceil(owned * ratios).astype(np.int64)
        whole = nodes.allocatable[column, at]
        lacking: RowArray = need - (whole - amplified_uses(whole - nodes.free[column, at], cores.pinned[at], ratios))
        return lacking

    def _lacking_cpu(self, query: CoresAsked, verdict: Verdict, target: Target) -> int:
        """What `_lacking_cpus` says of one node, under a hypothesis."""
        cores, row = self._cores, target.row
        return lacking_cpu(
            query.amounts.get(names.CPU, 0),
            allocatable_milli=self._allocatable_cpu(row),
            requested_milli=cores.requested(row, names.CPU, target.hypothesis),
            own_cpus=len(cores.pinned_cpus(row, target.hypothesis)),
            ratio=cores.ratio(row),
            own_milli=1000 * verdict.own,
        )

    def _allocatable_cpu(self, row: int) -> int:
        return int(self._nodes.allocatable[self._nodes.columns[names.CPU], row])

    def admits(self, query: CoresAsked, row: int) -> bool:
        """See `Constraint`."""
        cores = self._cores
        cores.follow()
        verdict = cores.verdicts(query)[cores.make[row]]
        if not verdict.places:
            return not verdict.amplified or self._lacking_cpu(query, verdict, Target(row)) == 0
        return bool(self.mask(query, np.array([row], np.intp))[0])

    def filter(self, query: CoresAsked, target: Target) -> Rejection | None:
        """See `Constraint`."""
        found = self.place(query, target)
        return found if isinstance(found, Rejection) else None

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
            _request(query, verdict, strategy, rivals, preferred),
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

    def rejections(self, query: CoresAsked, rows: RowArray) -> list[Rejected]:
        """See `Constraint`. Numbers of CPUs are compared for all rows at once; NUMA nodes are looked at one by one."""
        cores = self._cores
        cores.follow()
        verdicts = cores.verdicts(query)
        found: dict[tuple[str, bool], Mask] = {}

        def tell(reason: str, place: int, *, resolvable: bool) -> None:
            key = (reason, resolvable)
            if key not in found:
                found[key] = np.zeros(rows.shape, np.bool_)
            found[key][place] = True

        for place, (row, code) in enumerate(zip(rows.tolist(), cores.make[rows].tolist(), strict=True)):
            verdict = verdicts[code]
            if not verdict.concerns:
                continue
            reason = self._short(verdict, row)
            if reason:
                resolvable = not verdict.reason and verdict.own <= cores.ground(row).own_cpus
                tell(reason, place, resolvable=reason in (UNCOUNTED, UNKNOWN) or resolvable)
            elif verdict.policy or verdict.required or verdict.amplified:
                found_here = self.place(query, Target(row))
                for text in found_here.reasons if isinstance(found_here, Rejection) else ():
                    tell(text, place, resolvable=isinstance(found_here, Rejection) and found_here.resolvable)
        return [
            Rejected(reason, mask, resolvable, repair=WAIT if reason == UNCOUNTED else "")
            for (reason, resolvable), mask in found.items()
        ]

    # --- what has to become free -------------------------------------------------------------------------------------

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
                distance[place] += max(0, own - int(cores.free[_kind(verdict), row])) / verdict.own
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
        free = int(cores.free[_kind(verdict), row])
        short = count * verdict.own - free
        if count * verdict.own > cores.ground(row).own_cpus:
            return None
        if short <= 0:
            return None if isinstance(self.place(query, Target(row)), Rejection) else Lacking()
        less = f"{free} exclusive CPUs" if count == 1 and free > 1 else ""
        return Lacking(things=(_cpus(short, verdict),), less=less)

    def part(self, query: CoresAsked, rows: RowArray) -> Floats:
        """See `Reducible`."""
        return np.array([self._smaller(query, row).part for row in rows.tolist()])

    def at_most(self, query: CoresAsked, row: int) -> str:
        """See `Reducible`."""
        less = self._smaller(query, row).amounts
        verdict = self._verdict(query, row)
        if not less or not verdict.policy:
            return _cpus(less[names.CPU] // 1000, verdict) if less else ""
        where = "one NUMA node" if verdict.policy == SINGLE_NUMA_NODE else "its NUMA nodes"
        return f"{_missing(dict(less), verdict)} of {where}"

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
            needs = zone_needs(node, _request(query, verdict))
            return (on_one if verdict.policy == SINGLE_NUMA_NODE else on_all)(needs, node.zones)
        free = int(cores.free[_kind(verdict), row])
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
        needs = zone_needs(node, _request(query, verdict))
        whole = NodeZones(node.capacity, {}, node.ratio, node.layout, cores.all_cpus(row))
        offered = {need.name: need.offered for need in zone_needs(whole, _request(query, verdict))}
        together = {name: amount for name, amount in rejection.lacking.items() if amount > 0}
        if verdict.policy != SINGLE_NUMA_NODE and (together or not query.beside):
            is_enough = all(sum(offered[need.name].values()) >= need.amount for need in needs)
            words = f"{_missing(together, verdict)} of its NUMA nodes"
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
                things = [_missing(missing, verdict)] if missing else []
                best = (part, f"{listed([*things, *beside])} of NUMA node {zone}")
        return Lacking(things=(best[1],)) if best is not None else None

    def resource_spec(self, query: CoresAsked, row: int, annotations: Mapping[str, str]) -> str:
        """What a pod's annotation says once the bind policy that holds on a node is written out; empty where it says so
        already, or gets no CPUs of its own there."""
        verdict, spec = self._verdict(query, row), read_resource_spec(annotations)
        if not verdict.own or isinstance(spec, Problem):
            return ""
        resolved = with_resolved_policy(spec, verdict.bind, required=verdict.required)
        return format_resource_spec(resolved) if resolved != spec else ""

    # --- as sums -----------------------------------------------------------------------------------------------------

    def pods_at_most(self, query: CoresAsked, rows: RowArray) -> RowArray:
        """See `Summed`. Of a single NUMA node each as many as it has free of what they need."""
        cores = self._cores
        cores.follow()
        verdicts, codes = cores.verdicts(query), cores.make[rows]
        own = np.array([each.own for each in verdicts], np.int64)[codes]
        kind = np.array([_kind(each) for each in verdicts], np.intp)[codes]
        is_single = np.array([_policy(each) == SINGLE for each in verdicts], np.bool_)[codes]
        most = np.where(own > 0, cores.free[kind, rows] // np.maximum(own, 1), PODS_MAX)
        if is_single.any():
            zones = cores.zone_columns
            there = zones.there[:, rows]
            here = np.where(there, PODS_MAX, 0)
            here = np.where(
                own > 0, np.minimum(here, zones.cpus[:, :, rows][kind, :, range(rows.size)].T // own.clip(1)), here
            )
            for name, place in zones.resources.items():
                amount = query.amounts.get(name, 0)
                if amount > 0 and name != names.CPU:
                    fitting = zones.free[place][:, rows] // amount
                    here = np.where(zones.reported[place, rows], np.minimum(here, fitting), here)
            most = np.where(is_single, np.minimum(most, here.sum(axis=0)), most)
        found: RowArray = most
        return found

    def units(self, query: CoresAsked) -> int:
        """See `Summed`: CPUs of its own."""
        return query.binding.number if query.binding.bound else 0

    def units_left(self, rows: RowArray) -> RowArray:
        """See `Summed`."""
        self._cores.follow()
        left: RowArray = self._cores.free[0, rows]
        return left

    # --- within ------------------------------------------------------------------------------------------------------

    def _verdict(self, query: CoresAsked, row: int) -> Verdict:
        self._cores.follow()
        return self._cores.verdicts(query)[int(self._cores.make[row])]

    def _shown_cpu(self, query: CoresAsked, verdict: Verdict, row: int) -> int:
        """The pod's cpu in what a node shows."""
        own = 1000 * verdict.own
        return query.amounts.get(names.CPU, 0) - own + amplify(own, self._cores.ratio(row))

    def _lacking_for(self, query: CoresAsked, verdict: Verdict, row: int, count: int) -> int:
        """How much cpu so many pods lack on a node that shows more than it has."""
        cores = self._cores
        return lacking_cpu(
            count * query.amounts.get(names.CPU, 0),
            allocatable_milli=self._allocatable_cpu(row),
            requested_milli=cores.requested(row, names.CPU),
            own_cpus=len(cores.pinned_cpus(row)),
            ratio=cores.ratio(row),
            own_milli=count * 1000 * verdict.own,
        )

    def _too_little(self, query: CoresAsked, verdict: Verdict, row: int, lacking: int) -> Rejection:
        is_resolvable = self._shown_cpu(query, verdict, row) <= self._allocatable_cpu(row)
        return Rejection((TOO_LITTLE,), is_resolvable, {names.CPU: lacking})

    def _short(self, verdict: Verdict, row: int) -> str:
        """The reason that numbers alone give against a node; empty: none."""
        cores = self._cores
        if not verdict.places:
            return ""
        if cores.uncounted[row]:
            return UNCOUNTED
        if verdict.reason:
            return verdict.reason
        if cores.blocked[row]:
            return UNKNOWN
        if verdict.policy or verdict.amplified:
            return ""
        if cores.free[0, row] < verdict.own:
            return NOT_ENOUGH
        return INSUFFICIENT.format(verdict.bind) if cores.free[_kind(verdict), row] < verdict.own else ""


def _unsupported(template: PodTemplate) -> Problem | None:
    spec = read_resource_spec(template.annotations)
    return spec if isinstance(spec, Problem) else unsupported_policy(spec)


def _kind(verdict: Verdict) -> int:
    """Which of `KINDS` counts."""
    return KINDS.index(verdict.bind) if verdict.required else 0


def _policy(verdict: Verdict) -> int:
    return 0 if not verdict.policy else SINGLE if verdict.policy == SINGLE_NUMA_NODE else SEVERAL


def _indices(rows: Rows, size: int) -> RowArray:
    return np.arange(rows.start or 0, (rows.start or 0) + size) if isinstance(rows, slice) else rows


def _request(
    query: CoresAsked,
    verdict: Verdict,
    strategy: str = "",
    rivals: frozenset[int] = NO_CPUS,
    preferred: frozenset[int] = NO_CPUS,
) -> ZoneRequest:
    return ZoneRequest(
        amounts=query.amounts,
        own_cpus=verdict.own,
        bind=verdict.bind,
        required=verdict.required,
        exclusive=query.binding.exclusive,
        rivals=rivals,
        preferred=preferred,
        strategy=strategy,
    )


def _cpus(count: int, verdict: Verdict) -> str:
    number = "1 exclusive CPU" if count == 1 else f"{count} exclusive CPUs"
    return f"{number} of whole cores" if verdict.required and verdict.bind == FULL_PCPUS else number


def _missing(amounts: Amounts, verdict: Verdict) -> str:
    """In words; of CPUs of its own the number."""
    cpus = amounts.get(names.CPU, 0) // 1000 if verdict.own else 0
    plain = {name: amount for name, amount in amounts.items() if not (cpus and name == names.CPU)}
    parts = [_cpus(cpus, verdict)] if cpus else []
    return listed([*parts, *amounts_listed(plain)]) if parts or plain else ""
