"""Reservations that are placed and ask for more get it in place, by decisions of their own.

Between two rounds, so that nothing is tried meanwhile. One plan for each, so that one that does not fit, or meets
another solver at its node's account, keeps no other from growing.
"""

from __future__ import annotations

import random as randomness
from typing import Final

from berth.bus.port import Clock
from berth.contracts.base import Reason
from berth.contracts.state import Reservation
from berth.placement_solver import metrics
from berth.placement_solver.between_rounds import commit_alone, new_plan, tell_rejected
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.committing import Committer
from berth.placement_solver.core.decide import Basis, growth_decision
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.event_publisher import EventPublisher
from berth.placement_solver.mishaps import told
from berth.placement_solver.readiness import Readiness
from berth.transaction.claims import Name

LOOK_EVERY_S: Final = 0.2
AT_ONCE: Final = 16
"""So many are tried between two rounds; others come in later ones."""
PAUSE_FIRST_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0


class Growing:
    """Those of one solver. `readiness` says whether its views may be planned on."""

    def __init__(
        self,
        cluster: ClusterView,
        verifier: Verifier,
        committer: Committer,
        readiness: Readiness,
        events: EventPublisher,
        clock: Clock,
        random: randomness.Random,
    ) -> None:
        self._cluster = cluster
        self._verifier = verifier
        self._committer = committer
        self._readiness = readiness
        self._events = events
        self._clock = clock
        self._random = random
        self._looked_at = float("-inf")
        self._pauses: dict[Name, tuple[float, float]] = {}
        """When each that was refused is tried again, and after which pause then."""
        self._told: dict[Name, tuple[str, str]] = {}

    async def look(self) -> None:
        """Try those whose time has come."""
        asking, now = self._cluster.growths.asking, self._clock.monotonic()
        if not (asking or self._pauses) or now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        self._pauses = {name: pause for name, pause in self._pauses.items() if name in asking}
        self._told = {name: told for name, told in self._told.items() if name in asking}
        # Those of other solvers, or that are still growing, take nobody's turn.
        due = [
            name
            for name, each in asking.items()
            if self._pauses.get(name, (0.0, 0.0))[0] <= now and self._is_its_turn(each)
        ]
        for name in sorted(due, key=lambda name: (self._pauses.get(name, (0.0, 0.0))[0], name))[:AT_ONCE]:
            if not self._readiness.may_plan():
                return
            reservation = asking.get(name)
            if reservation is not None and self._is_its_turn(reservation):
                await self._grow(name, reservation)

    def _is_its_turn(self, reservation: Reservation) -> bool:
        cluster = self._cluster
        is_mine = cluster.is_ours(reservation) and cluster.is_mine(reservation.uid)
        return is_mine and cluster.growths.is_free(reservation)

    async def _grow(self, name: Name, reservation: Reservation) -> None:
        cluster = self._cluster
        plan = new_plan(self._random)
        try:
            claim = cluster.growths.place(reservation, plan)
            problems = [] if isinstance(claim, Reason) else self._verifier.check_growth(claim)
        except Exception as error:
            claim, problems = told(error, reservation=reservation.name).reason, []
        if isinstance(claim, Reason):
            self._pause(name)
            await self._tell(name, reservation, claim)
            return
        if problems:
            tell_rejected("that a Reservation grows", plan, problems)
            self._pause(name)
            return
        complete = cluster.book.complete
        basis = Basis(complete["pods"].version, complete["reservations"].version, cluster.now_ms)
        profile = cluster.profile_of(reservation.template.scheduler)
        decision = growth_decision(claim, reservation, basis, cluster.nodes, profile)
        stamps = dict.fromkeys(decision.accounts, 0)
        outcome = await commit_alone(cluster, self._committer, self._readiness, decision, stamps)
        if outcome.status == "committed":
            metrics.GROWN.inc()
        self._pause(name)

    def _pause(self, name: Name) -> None:
        _, pause_s = self._pauses.get(name, (0.0, PAUSE_FIRST_S))
        self._pauses[name] = (self._clock.monotonic() + pause_s, min(2 * pause_s, PAUSE_MAX_S))

    async def _tell(self, name: Name, reservation: Reservation, reason: Reason) -> None:
        """Once for each reason: it waits for room, or cannot grow."""
        if self._told.get(name) != (reservation.uid, reason.message):
            self._told[name] = (reservation.uid, reason.message)
            await self._events.stays(reservation, reason)
