"""From the view of a solver to numbers that can be played with (`core.estimates.ground`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from berth.contracts.grants import percent
from berth.contracts.ledger import Grant
from berth.contracts.state import Pod
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.estimates.ground import Arrives, Floats, Ground, Runs, Waits, Want
from berth.placement_solver.core.estimates.stays import cards_of, kind_of
from berth.placement_solver.core.nodes import PODS
from berth.placement_solver.core.queue import Waiting
from berth.placement_solver.core.quotas import UNLIMITED
from berth.rules.devices.columns import GPU
from berth.rules.times import unix_of
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Claim

UNITS_MAX: Final = 200
"""So many are estimated, first ones first; others are too far behind to say anything of."""


class Gathering:
    """Numbers of one view at one moment (`now_s`: unix time)."""

    def __init__(self, cluster: ClusterView, now_s: float) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._groups: dict[tuple[str, str], int] = {}
        self._resources: dict[str, int] = {}
        self._places: dict[tuple[int, str], int] = {}

    def ground(self) -> Ground:
        """All of it."""
        cluster = self._cluster
        size = len(cluster.nodes)
        waits = self._waits()
        arrives = self._arrivals()
        cards = self._cards(size)
        runs = self._runs(cards)
        free = cluster.nodes.free[:, :size].astype(np.float64)
        free[:, ~cluster.nodes.alive[:size]] = -1.0
        return Ground(free, cards, self._room(), runs, waits, arrives)

    def _waits(self) -> list[Waits]:
        cluster = self._cluster
        found: dict[str, Waits] = {}
        ordered = sorted(cluster.queue.waiting.values(), key=lambda each: each.order)
        for waiting in ordered:
            if len(found) == UNITS_MAX:
                break
            obj = waiting.object
            if not isinstance(obj, Pod) or not waiting.reasons:
                continue
            unit, count = self._unit(waiting)
            if unit in found or not count:
                continue
            cls = cluster.classes.of(obj.template, list(obj.problems))
            if cls.refusals:
                continue
            payer = cluster.payers.of(obj)
            found[unit] = Waits(
                unit, self._want(cls, obj, payer), count, kind_of(obj, payer), self._rows(cls), obj.template.priority
            )
        return list(found.values())

    def _unit(self, waiting: Waiting) -> tuple[str, int]:
        """What starts together with it, and how many those are; 0: that cannot be said."""
        if not waiting.group:
            return unit_of(waiting), 1
        gangs = self._cluster.gangs
        readiness = gangs.readiness(waiting.group)
        if not readiness.ready:
            return unit_of(waiting), 0
        if readiness.satisfied:
            return "/".join(waiting.name), 1
        return waiting.group, sum(gangs.needed(each) for each in gangs.members_of_group(waiting.group))

    def _arrivals(self) -> list[Arrives]:
        """Those that have arrived lately. Since the last one nobody has: that gap is the first one's."""
        arrivals = self._cluster.stays.arrivals
        if not arrivals:
            return []
        times = np.array([at for at, _ in arrivals])
        gaps = np.maximum(np.diff(times, prepend=times[0]), 0.0)
        gaps[0] = max(self._now_s - times[-1], 1.0)
        return [self._arrives(pod, gap_s) for (_, pod), gap_s in zip(arrivals, gaps.tolist(), strict=True)]

    def _arrives(self, pod: Pod, gap_s: float) -> Arrives:
        cluster = self._cluster
        cls = cluster.classes.of(pod.template, list(pod.problems))
        payer = cluster.payers.of(pod)
        return Arrives(self._want(cls, pod, payer), kind_of(pod, payer), self._rows(cls), pod.template.priority, gap_s)

    def _rows(self, cls: PodClass) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        rows = self._cluster.solver.costs.suitable(cls)[: len(self._cluster.nodes)]
        return None if bool(rows.all()) else rows.copy()

    def _want(self, cls: PodClass, pod: Pod, payer: tuple[str, str] | None) -> Want:
        cards, part = cards_of(pod.template.requests)
        amounts = ((PODS, 1.0), *((column, float(amount)) for column, amount in cls.demand.wants))
        line = self._line(payer)
        return Want(amounts, cards, part, line, self._charged(cls.requests) if line else ())

    def _line(self, payer: tuple[str, str] | None) -> tuple[int, ...]:
        quotas = self._cluster.quotas
        if payer is None or payer not in quotas.groups:
            return ()
        return tuple(self._groups.setdefault(each, len(self._groups)) for each in quotas.line(payer))

    def _charged(self, amounts: dict[str, int] | object) -> tuple[tuple[int, float], ...]:
        items = amounts.items() if isinstance(amounts, dict) else ()
        return tuple((self._resources.setdefault(name, len(self._resources)), float(a)) for name, a in items if a)

    def _room(self) -> Floats:
        quotas = self._cluster.quotas
        room = np.full((max(len(self._groups), 1), max(len(self._resources), 1)), np.inf)
        for key, number in self._groups.items():
            group = quotas.groups.get(key)
            if group is None:
                continue
            used = quotas.used(key)
            limits = group.max if group.is_parent else group.runtime
            for name, limit in limits.items():
                if name in self._resources and limit < UNLIMITED:
                    room[number, self._resources[name]] = limit - used.get(name, 0)
        return room

    def _cards(self, size: int) -> Floats:
        nodes = self._cluster.nodes
        cards = np.full((size, max(int(nodes.most_gpus), 1)), -1.0)
        for row in np.flatnonzero(nodes.gpu_count[:size] > 0).tolist():
            inventory = nodes.inventory(nodes.names[row])
            healthy = [each for each in inventory.devices if each.kind == GPU.name] if inventory is not None else []
            for place, device in enumerate(healthy[: cards.shape[1]]):
                self._places[row, str(device.minor)] = place
                cards[row, place] = 1.0 if device.healthy else -1.0
        return cards

    def _runs(self, cards: Floats) -> list[Runs]:
        """Who runs, with what it gives back; what they hold of cards is taken from them."""
        cluster, found = self._cluster, list[Runs]()
        for claim in cluster.book.claims():
            row = cluster.nodes.rows.get(claim.node)
            if row is None:
                continue
            held = self._held(row, claim.grants)
            if not held and (whole := cards_of(dict(claim.amounts))[0]):
                held = tuple((int(place), 1.0) for place in np.flatnonzero(cards[row] >= 1.0)[:whole])
            for place, part in held:
                cards[row, place] -= part
            pod = cluster.book.pods.get(claim.name)
            began = unix_of(pod.scheduled or pod.created) if pod is not None and pod.uid == claim.uid else None
            if pod is None or began is None or not _ends(pod):
                continue
            found.append(Runs(row, max(self._now_s - began, 0.0), self._kind(pod, claim), self._gives(claim), held))
        return found

    def _kind(self, pod: Pod, claim: Claim) -> tuple[str, ...]:
        tree, slash, group = claim.quota.rpartition("/")
        return tuple(map(str, kind_of(pod, (tree, group) if slash else None)))

    def _gives(self, claim: Claim) -> Want:
        columns = self._cluster.nodes.columns
        amounts = [(columns[name], float(amount)) for name, amount in claim.amounts.items() if name in columns]
        tree, slash, group = claim.quota.rpartition("/")
        line = self._line((tree, group)) if slash else ()
        return Want(((PODS, 1.0), *amounts), groups=line, charged=self._charged(dict(claim.charged)) if line else ())

    def _held(self, row: int, grants: Iterable[Grant]) -> tuple[tuple[int, float], ...]:
        return tuple(
            (self._places[row, grant.id], percent(grant) / 100)
            for grant in grants
            if grant.kind == GPU.name and (row, grant.id) in self._places
        )


def unit_of(waiting: Waiting) -> str:
    """Its gang group, or itself."""
    return waiting.group or "/".join(waiting.name)


def _ends(pod: Pod) -> bool:
    """Whether it is one that ends by itself, some time."""
    is_of_node = pod.mirror or any(owner.controller and owner.kind == "DaemonSet" for owner in pod.owners)
    return not is_of_node and bool(pod.node) and pod.phase not in FINISHED_PHASES
