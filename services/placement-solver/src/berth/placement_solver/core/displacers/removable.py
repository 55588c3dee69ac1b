"""Who might have to leave some nodes, and who leaves only together: strict gangs that can spare nobody (E9, E10)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core.displacers.seam import Ground
from berth.placement_solver.core.groups import Gang
from berth.rules.preemption import Budgets, importance, never_leaves, why_protected
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Claim


class Leaver(NamedTuple):
    """A pod that might leave, and the claim that goes with it."""

    pod: Pod
    claim: Claim


class LeavingUnit(NamedTuple):
    """Who leaves together or stays together: a pod, or all members of a gang that run, wherever they are. `along` are
    those members that the gang could spare: they leave with it, or by themselves."""

    leavers: tuple[Leaver, ...]
    along: tuple[Leaver, ...] = ()

    @property
    def everybody(self) -> tuple[Leaver, ...]:
        """All who leave with the unit."""
        return (*self.leavers, *self.along)


class Removable:
    """Whom one beneficiary might make leave, at one moment.

    `priority` is that of its lowest member, `about_to_leave` the uids of the victims of nominations that stand: a gang
    cannot spare another one for each of them.
    """

    def __init__(
        self, ground: Ground, priority: int, refused: Collection[str], now_s: float, about_to_leave: Collection[str]
    ) -> None:
        self._ground = ground
        self._priority = priority
        self._refused = refused
        self._now_s = now_s
        self._about_to_leave = about_to_leave
        self._gangs: dict[str, tuple[LeavingUnit | None, frozenset[str]]] = {}

    def units_on(self, nodes: Iterable[str]) -> list[LeavingUnit]:
        """The units that have somebody on these nodes."""
        found: dict[str, LeavingUnit] = {}
        for node in nodes:
            for claim in self._ground.book.claims_on(node):
                leaver = self._leaver(claim)
                if leaver is None:
                    continue
                gang = self._ground.gangs.strict_gang_of(leaver.pod)
                if gang is None:
                    if not self._ground.gangs.is_in_strict(leaver.pod):
                        found[leaver.pod.uid] = LeavingUnit((leaver,))
                    continue
                whole, spared = self._of_gang(gang)
                if leaver.pod.uid in spared:
                    found[leaver.pod.uid] = LeavingUnit((leaver,))
                elif whole is not None:
                    found[f"gang {gang.id}"] = whole
        return list(found.values())

    def _leaver(self, claim: Claim) -> Leaver | None:
        pod = self._ground.book.pods.get(claim.name)
        # Who draws on a reservation stays: its capacity is the reservation's.
        if pod is None or not claim.is_bound or claim.reservation or claim.uid != pod.uid:
            return None
        if pod.template.priority >= self._priority or why_protected(pod):
            return None
        if pod.uid in self._refused or never_leaves(pod, self._now_s):
            return None
        return Leaver(pod, claim)

    def _of_gang(self, gang: Gang) -> tuple[LeavingUnit | None, frozenset[str]]:
        """The gang as a unit, None if it cannot leave whole; and the uids of the members that it can spare."""
        known = self._gangs.get(gang.id)
        if known is not None:
            return known
        book = self._ground.book
        there = [seen for name in sorted(gang.children) if (seen := book.seen(name)) is not None and seen.node]
        there = [seen for seen in there if seen.phase not in FINISHED_PHASES]
        running = [seen for seen in there if isinstance(seen, Pod)]
        # A Reservation counts, but leaves for nobody: a gang that has one on a node does not leave whole.
        kept = sum(1 for seen in there if isinstance(seen, Reservation) and not seen.deleting)
        staying = [pod for pod in running if not pod.deleting and pod.uid not in self._about_to_leave]
        leavers: dict[str, Leaver] = {}
        for pod in running:
            for claim in book.claims_of((pod.namespace, pod.name)):
                leaver = self._leaver(claim)
                if leaver is not None:
                    leavers[pod.uid] = leaver
        minimum = gang.config.min_member if gang.config is not None else None
        spare = max(0, len(staying) + kept - minimum) if minimum is not None else 0
        dispensable = sorted((pod for pod in staying if pod.uid in leavers), key=importance, reverse=True)[:spare]
        spared = frozenset(pod.uid for pod in dispensable)
        can_go = len(leavers) == len(there) and gang.placed <= gang.bound
        whole = None
        if can_go:
            needed = tuple(leavers[uid] for uid in sorted(leavers.keys() - spared))
            whole = LeavingUnit(needed, tuple(leavers[uid] for uid in sorted(spared)))
        self._gangs[gang.id] = whole, spared
        return whole, spared


def protected_by_budgets(units: Iterable[LeavingUnit], budgets: Budgets) -> frozenset[str]:
    """The uids of those whom a disruption budget protects, if the less important leave first."""
    pods = sorted({each.pod.uid: each.pod for unit in units for each in unit.everybody}.values(), key=importance)
    protected, _ = budgets.split(reversed(pods))
    return frozenset(pod.uid for pod in protected)
