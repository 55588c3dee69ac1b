"""Gangs in the network: as many members as can be, inside one domain of the layer that they must not leave, in as few
domains of each layer as will do.

A plan is made on upper bounds of what nodes take. What it places shows where a bound was too high; that node counts
with what it took, and the next plan knows. A plan that stands is the best one: with the true numbers no other could be
better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from berth.contracts.base import Reason
from berth.contracts.ledger import GangDomain, GangRef
from berth.placement_solver.core.constraints.network_topology import NAME, GatherQuery
from berth.placement_solver.core.gatherers.seam import Attempt, Choice, Gathered, Job
from berth.placement_solver.core.network import Network, RowTree
from berth.placement_solver.core.seams import Mask
from berth.placement_solver.core.tallies.relatives import Relatives
from berth.rules.network_topology.capacity import usable
from berth.rules.network_topology.distribute import Ground
from berth.rules.network_topology.gather import Scattered, gather
from berth.rules.network_topology.order import in_order
from berth.rules.network_topology.procedure import Counts, Wanted, filled, wanted_of
from berth.rules.network_topology.tree import Ints, Tree

if TYPE_CHECKING:
    from berth.placement_solver.core.plan import Candidate, Placement, Unit

PLANS_MAX: Final = 32
"""So many plans are made for one job, each by what the one before it has shown."""
DOMAINS_MAX: Final = 32
"""Members that ask for different things are tried in so many domains, one after the other."""
SHOWN_MAX: Final = 16
"""So many domains are named to people."""


class NetworkGatherer:
    """See `Gatherer`. `relatives` knows where pods of one selector are."""

    name = NAME

    def __init__(self, network: Network, relatives: Relatives) -> None:
        self._network = network
        self._relatives = relatives

    def jobs(self, unit: Unit) -> list[Job]:
        """See `Gatherer`."""
        found: dict[GatherQuery, list[Candidate]] = {}
        for each in unit.candidates:
            query = query_of(each)
            if query is not None and not each.refusals and not each.cls.refusals:
                found.setdefault(query, []).append(each)
        jobs = []
        for members in found.values():
            gangs = tuple(unit.gang_of[each.name] for each in members)
            needed = {gang: unit.needed.get(gang, 0) for gang in dict.fromkeys(gangs)}
            jobs.append(Job(tuple(members), gangs, needed))
        return jobs

    def alone(self, placement: Placement) -> GangRef | None:
        """See `Gatherer`."""
        query, gang = query_of(placement.candidate), self._network.gangs.gang_of(placement.candidate.name)
        domain = self._domain(query, placement) if query is not None else None
        if domain is None or gang is None:
            return None
        return GangRef(name=self._network.gangs.group_of(gang.id), size=1, strict=False, domain=domain)

    def gather(self, job: Job, attempt: Attempt) -> Gathered | Reason:
        """See `Gatherer`."""
        found = self._network.row_tree()
        query = query_of(job.members[0]) or GatherQuery(())
        wanted = self._wanted(query, len(job.members))
        slots = attempt.slots(job.members, found.rows)
        placed = self._planned(job, attempt, found, wanted, slots) if attempt.are_alike(job.members) else None
        if placed is None:
            placed = self._one_by_one(job, attempt, found, wanted, slots)
        if isinstance(placed, Reason):
            return placed
        return Gathered(tuple(placed), self._domain(query, placed[0]) if placed else None)

    def choices(self, job: Job, slots: Ints) -> list[list[Choice]]:
        """See `Gatherer`. Of the layers that a rule names the lowest come first."""
        found, query = self._network.row_tree(), query_of(job.members[0]) or GatherQuery(())
        tree, wanted = found.tree, self._wanted(query, len(job.members))
        top = tree.level_of(wanted.must_layer)
        if top is None or any(wanted.pods % each for each in wanted.multiples.values()):
            return []
        kept = usable(tree, slots[found.rows], wanted.multiples)
        existing = tree.sums(self._existing(job, found))
        named = {top, *(tree.level_of(rule.layer) or 0 for rule in query.rules)}
        choices = []
        for level in sorted((each for each in named if each >= top), reverse=True):
            able = np.flatnonzero(kept[level] >= wanted.pods)
            ordered = in_order(tree, level, able, existing=existing, slots=kept, fewest_first=True)
            choices.append([Choice(found.rows[tree.span(level, each, tree.depth)]) for each in ordered.tolist()])
        return choices

    def shared_out(self, job: Job, choice: Choice, slots: Ints) -> Ints | None:
        """See `Gatherer`: multiples say how many may be where."""
        found, query = self._network.row_tree(), query_of(job.members[0]) or GatherQuery(())
        wanted = self._wanted(query, len(job.members))
        if not wanted.multiples:
            return None
        inside = np.where(np.isin(found.rows, choice.rows), slots[found.rows], 0)
        shared = np.zeros(len(slots), np.int64)
        plan = gather(found.tree, inside, wanted, wanted.pods, self._existing(job, found))
        for node, count in plan.counts if not isinstance(plan, Scattered) else ():
            shared[found.rows[node]] = count
        return shared

    def considered(self, job: Job, attempt: Attempt) -> list[str]:
        """What each domain that they may go into takes of the members, in words."""
        query = query_of(job.members[0])
        if query is None:
            return []
        found = self._network.row_tree()
        wanted = self._wanted(query, len(job.members))
        kept = usable(found.tree, attempt.slots(job.members, found.rows), wanted.multiples)
        level = found.tree.level_of(wanted.must_layer)
        return [] if level is None else _listed(found.tree, level, kept[level])

    def _wanted(self, query: GatherQuery, pods: int) -> Wanted:
        return wanted_of(pods, query.rules, self._network.names)

    def _planned(
        self, job: Job, attempt: Attempt, found: RowTree, wanted: Wanted, slots: Ints
    ) -> list[Placement] | Reason | None:
        """By plans of numbers alone; None: nodes take less than those say, time and again."""
        slots = slots.copy()
        existing = self._existing(job, found)
        for _ in range(PLANS_MAX):
            plan = gather(found.tree, slots, wanted, job.at_least, existing)
            if isinstance(plan, Scattered):
                return _nowhere(wanted, found.tree, slots)
            placed = self._try(job, attempt, found, plan.counts, slots)
            if placed is not None:
                return placed
        return None

    def _try(self, job: Job, attempt: Attempt, found: RowTree, counts: Counts, slots: Ints) -> list[Placement] | None:
        """Place by a plan; None: a node takes less than its slots, which are put right."""
        nodes = filled(counts)
        placed: list[Placement] = []
        taken: dict[int, int] = {}
        for candidate, node in zip(job.first(len(nodes)), nodes, strict=True):
            placement = attempt.place_on(candidate, int(found.rows[node]))
            if placement is None:
                slots[node] = taken.get(node, 0)
                attempt.take_back()
                return None
            taken[node] = taken.get(node, 0) + 1
            placed.append(placement)
        return placed

    def _one_by_one(
        self, job: Job, attempt: Attempt, found: RowTree, wanted: Wanted, slots: Ints
    ) -> list[Placement] | Reason:
        """Members that differ: one after the other inside a domain, the smallest that may take them first."""
        tree, multiples = found.tree, wanted.multiples
        top = tree.level_of(wanted.must_layer)
        kept = usable(tree, slots, {})
        existing = tree.sums(self._existing(job, found))
        ground = Ground(tree, kept, existing)
        tried = 0
        if top is None or any(len(job.members) % each for each in multiples.values()):
            return _nowhere(wanted, tree, slots)
        for level in range(tree.depth, top - 1, -1):
            able = np.flatnonzero(kept[level] >= job.at_least)
            ordered = in_order(tree, level, able, existing=existing, slots=ground.slots, fewest_first=True)
            for domain in ordered.tolist()[: DOMAINS_MAX - tried]:
                tried += 1
                placed = self._inside(job, attempt, found, tree.span(level, domain, tree.depth), wanted)
                if placed:
                    return placed
        return _nowhere(wanted, tree, slots)

    def _inside(self, job: Job, attempt: Attempt, found: RowTree, span: slice, wanted: Wanted) -> list[Placement]:
        """Those who are placed inside some nodes, if they are enough; else nobody. The largest choose first."""
        mask: Mask = np.zeros(len(self._network.in_tree()), np.bool_)
        mask[found.rows[span]] = True
        placed: list[Placement] = []
        missing = dict(job.needed)
        members = zip(job.members, job.gangs, strict=True)
        sizes = _sizes(job.members)
        for candidate, gang in sorted(members, key=lambda each: -sizes[each[0].cls.index]):
            placement = attempt.place_within(candidate, mask)
            if placement is not None:
                placed.append(placement)
                missing[gang] = missing.get(gang, 0) - 1
        if any(each > 0 for each in missing.values()) or not self._multiples_hold(placed, wanted):
            attempt.take_back()
            return []
        return placed

    def _multiples_hold(self, placed: list[Placement], wanted: Wanted) -> bool:
        for depth, layer in enumerate(self._network.names, 1):
            multiple = wanted.multiples.get(layer, 1)
            if multiple > 1:
                counts: dict[object, int] = {}
                for each in placed:
                    path = (self._network.path(each.claim.node) or ())[:depth]
                    counts[path] = counts.get(path, 0) + 1
                if any(count % multiple for count in counts.values()):
                    return False
        return True

    def _existing(self, job: Job, found: RowTree) -> Ints:
        existing: Ints = self._relatives.counts(job.members[0].spec.template)[found.rows]
        return existing

    def _domain(self, query: GatherQuery, placement: Placement) -> GangDomain | None:
        path = self._network.path(placement.claim.node)
        if not query.depth or path is None:
            return None
        layers = self._network.layers
        return GangDomain(
            layer=query.layer,
            path=list(path[: query.depth]),
            label_keys=[list(each.label_keys) for each in layers[: query.depth]],
            is_lowest=query.depth >= len(layers),
        )


def query_of(candidate: Candidate) -> GatherQuery | None:
    """What a candidate asks of the network."""
    return next((query for constraint, query in candidate.asked if constraint.name == NAME), None)


def _sizes(members: Sequence[Candidate]) -> dict[int, float]:
    """By class how much its pods ask for, each resource as a part of the most that a member asks."""
    classes = {each.cls.index: each.cls for each in members}.values()
    most: dict[str, int] = {}
    for cls in classes:
        for name, amount in cls.requests.items():
            most[name] = max(most.get(name, 1), amount)
    return {cls.index: sum(amount / most[name] for name, amount in cls.requests.items()) for cls in classes}


def _nowhere(wanted: Wanted, tree: Tree, slots: Ints) -> Reason:
    kept = usable(tree, slots, wanted.multiples)
    level = tree.level_of(wanted.must_layer)
    listed = _listed(tree, level, kept[level]) if level is not None else []
    message = f"no candidate topology nodes can accommodate job, desiredOfferSlot: {wanted.pods}"
    message += f", topology topologyNode {';'.join(listed[:SHOWN_MAX])}"
    if len(listed) > SHOWN_MAX:
        message += f" and {len(listed) - SHOWN_MAX} more"
    if wanted.multiples:
        multiples = ", ".join(f"{layer}={multiple}" for layer, multiple in sorted(wanted.multiples.items()))
        message += f"; podCountMultiple constraints: {multiples}"
    return Reason(code=NAME, message=message)


def _listed(tree: Tree, level: int, slots: Ints) -> list[str]:
    """The domains of a level by name, each with what it takes."""
    layer = tree.levels[level].layer
    return sorted(f"{layer}/{'/'.join(tree.path(level, at))}: {count}" for at, count in enumerate(slots.tolist()))
