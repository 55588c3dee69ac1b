"""A plan made again: a view brought to where its solver's was, and the same question asked once more.

No I/O and no clock. What a solver read of time and chance stands in the plan and its decisions.
"""

from __future__ import annotations

import random as randomness
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from berth.bus.port import Entry
from berth.contracts.base import Reason
from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Decision, Plan
from berth.contracts.round import Answer, Ground, Round
from berth.contracts.state import Reservation
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.decide import Basis, growth_decision
from berth.placement_solver.core.displacers.seam import Proposal, Refused
from berth.placement_solver.core.joint.expand import joint_solution
from berth.placement_solver.core.plan import Solution, Unit
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.origins.answers import advice_in, kept_in, nodes_in, parted
from berth.placement_solver.origins.prices import prices_in
from berth.placement_solver.preempting import Preempting
from berth.placement_solver.revoking import revocation_decision
from berth.placement_solver.verified import VerifiedSolver
from berth.placement_solver.written import decisions_on
from berth.recording.grounds import Known
from berth.transaction.claims import Name, of_decision
from berth.transaction.revocations import KIND, name_of_group

NOT_WAITING: Final = "does not wait in what was read"
NO_PLAN: Final = Solution((), ())


class NotMadeError(Exception):
    """It cannot be made again, and why."""


class _Drawn(randomness.Random):
    """Chance, as it was."""

    def __init__(self, drawn: int) -> None:
        super().__init__()
        self._drawn = drawn

    def randrange(self, *_: object, **__: object) -> int:
        """What was drawn."""
        return self._drawn


class Remaker:
    """The view of one solver on one ground."""

    def __init__(self, solver: str, known: Known) -> None:
        ground = known.ground
        namespace, _, name = ground.config_map.partition("/")
        self.cluster = ClusterView(
            ground.schedulers,
            solver,
            config_map=(namespace, name) if name else None,
            is_configured=ground.configuration is not None,
            handed_off=frozenset(ground.hand_off),
        )
        self._verifier = Verifier(self.cluster)
        self._ground = ground
        for node in known.nodes:
            self.cluster.nodes.row(node)
        if ground.configuration is not None:
            self.cluster.configuration.read(ground.configuration)
        self._price(ground)

    def suits(self, known: Known) -> bool:
        """Whether it has come to what a plan of that ground was made on; prices and what is kept follow."""
        settings = _settings(known.ground)
        if settings != _settings(self._ground) or tuple(self.cluster.nodes.names) != known.nodes:
            return False
        ground, before = known.ground, self._ground
        self._ground = ground
        if _prices(ground) != _prices(before):
            self._price(ground)
        return True

    def read(self, bucket: str, entry: Entry) -> None:
        """Take in one message of a bucket; one that cannot be read is left out, as by the solver."""
        self.cluster.now = max(self.cluster.now, entry.stored_s)
        self.cluster.loads.tell_time(entry.stored_s)
        try:
            self.cluster.read(bucket, entry)
        except (InvalidMessage, ValueError):
            return

    def end_of_state(self) -> None:
        """The end of STATE was seen here."""
        self.cluster.end_of_state()

    def remake(self, plan: Plan, origin: Round, decided: Sequence[Decision]) -> list[Decision]:
        """The decisions that it makes now, under the plan's id. Raises NotMadeError.

        The times of the decisions are those that were decided, and so are the versions through which the view was
        complete, which depend on what was replaced since; all else is made anew.
        """
        cluster = self.cluster
        cluster.now_ms = decided[0].decided_ms
        cluster.now = max(cluster.now, cluster.now_ms / 1_000)
        if origin.heard_s:
            cluster.loads.now_s = origin.heard_s
        solvers = tuple(origin.solvers) or (cluster.me,)
        if solvers != cluster.solvers:
            cluster.resharded(solvers)
        _complete_through(cluster, decided[0])
        cluster.payers.settle(cluster.book)
        cluster.moment += 1
        self._keep(origin)
        if origin.kind == "batch":
            made = self._batch(plan.id, self._units(origin, decided), origin.answer)
        elif origin.kind == "preemption":
            made = self._preemption(plan.id, origin, self._units(origin, decided))
        elif origin.kind == "growth":
            made = [self._growth(plan.id, decided[0])]
        elif origin.kind == "revocation":
            made = [self._revocation(plan.id, decided[0])]
        else:
            raise NotMadeError(f"nobody knows how to make a plan of the kind {origin.kind}")
        times = {(each.namespace, each.name): (each.seen_ms, each.trace) for each in decided}
        made = [replace(each, prices=decided[0].prices) for each in made]  # only the number of what the ground tells
        return [_timed(each, *times.get((each.namespace, each.name), (0, ""))) for each in made]

    # --- kinds of plans ----------------------------------------------------------------------------------------------

    def _units(self, origin: Round, decided: Sequence[Decision]) -> list[Unit]:
        """Those that were placed, in the order in which they were tried. Who was refused between them took nothing."""
        found: list[Unit] = []

        def group_of(each: Decision) -> str:
            return each.gang.name if each.gang is not None and each.gang.name in origin.groups else ""

        for group, members in groupby(decided, group_of):
            names = [_name(each) for each in members]
            for name in names[:1] if group else names:
                unit = self.cluster.unit_of(name, group)
                if unit is None:
                    raise NotMadeError(f"{'/'.join(filter(None, name))} {NOT_WAITING}")
                found.append(_as_taken(unit, origin, group) if group else unit)
        return found

    def _keep(self, origin: Round) -> None:
        """As much is kept as was."""
        capacity = self.cluster.capacity
        capacity.release_held()
        if not origin.kept:
            return
        try:
            listed = kept_in(self._ground.kept)
            capacity.hold([of_decision(listed[at]) for at in origin.kept])
        except (ValueError, IndexError) as error:
            raise NotMadeError(f"what was kept for others cannot be read: {error}") from error

    def _batch(self, plan: str, units: Sequence[Unit], answer: Answer | None) -> list[Decision]:
        cluster = self.cluster
        with Trial(cluster.capacity) as trial:
            if answer is None:
                solution = cluster.solver.solve(units, trial, plan)
            else:
                solution = joint_solution(nodes_in(answer), units, NO_PLAN, cluster.solver, trial, plan)
            return decisions_on(cluster, solution.placements, plan)[0]

    def _preemption(self, plan: str, origin: Round, units: Sequence[Unit]) -> list[Decision]:
        cluster = self.cluster
        preempting = Preempting(
            cluster,
            self._verifier,
            VerifiedSolver(cluster, self._verifier),
            _Drawn(origin.seed),
            only_unconditional=not self._ground.preempts,
        )
        advice = advice_in(origin.answer) if origin.answer is not None else None
        found = preempting.propose(Refused(units[0], ()), plan, advice)
        if not isinstance(found, Proposal):
            return []
        return decisions_on(cluster, found.placements, plan, found)[0]

    def _growth(self, plan: str, decided: Decision) -> Decision:
        cluster = self.cluster
        reservation = cluster.book.seen(_name(decided))
        if not isinstance(reservation, Reservation):
            raise NotMadeError(f"{decided.name} {NOT_WAITING}")
        claim = cluster.growths.place(reservation, plan)
        if isinstance(claim, Reason):
            raise NotMadeError(f"{decided.name} {NOT_WAITING}")
        complete = cluster.book.complete
        basis = Basis(complete["pods"].version, complete["reservations"].version, cluster.now_ms)
        profile = cluster.profile_of(reservation.template.scheduler)
        return growth_decision(claim, reservation, basis, cluster.nodes, profile)

    def _revocation(self, plan: str, decided: Decision) -> Decision:
        cluster = self.cluster
        key = next((key for key in cluster.quotas.groups if name_of_group(*key) == _name(decided)), None)
        if key is None or decided.kind != KIND:
            raise NotMadeError(f"{decided.name} is no group of what was read")
        victims = cluster.revocations.victims(key, plan, cluster.now_ms / 1_000)
        return revocation_decision(cluster, key, plan, victims)[0]

    # --- prices ------------------------------------------------------------------------------------------------------

    def _price(self, ground: Ground) -> None:
        self.cluster.solver.costs.use(*prices_in(ground))


def differences(decided: Sequence[Decision], made: Sequence[Decision]) -> list[str]:
    """What is another thing, in words, to the last byte; nothing: both are the same."""
    if [encode(each) for each in decided] == [encode(each) for each in made]:
        return []
    found = []
    ours = {_name(each): each for each in made}
    for each in decided:
        name, other = "/".join(filter(None, _name(each))), ours.pop(_name(each), None)
        if other is None:
            found.append(f"{name}: was decided for {each.node}, and is not now")
            continue
        fields = [
            f"{field} was {_short(getattr(each, field))}, is {_short(getattr(other, field))}"
            for field in each.__struct_fields__
            if getattr(each, field) != getattr(other, field)
        ]
        found += [f"{name}: {'; '.join(fields)}"] if fields else []
    found += [f"{'/'.join(filter(None, name))}: is decided now for {each.node}" for name, each in ours.items()]
    return found or ["the order of the decisions is another one"]


def _short(value: object) -> str:
    return repr(value)[:120]


def _name(decision: Decision) -> Name:
    return decision.namespace, decision.name


def _complete_through(cluster: ClusterView, decided: Decision) -> None:
    """The view is as complete as it was."""
    versions = decided.basis, decided.other_basis
    pods, reservations = versions if decided.kind == "pod" else reversed(versions)
    cluster.book.complete["pods"].version, cluster.book.complete["reservations"].version = pods, reservations


def _timed(decision: Decision, seen_ms: int, trace: str) -> Decision:
    return replace(decision, seen_ms=seen_ms, trace=trace)


def _as_taken(unit: Unit, origin: Round, group: str) -> Unit:
    """The unit of a gang group as it was taken: without those who came later."""
    late = set(map(parted, origin.late))
    return unit._replace(
        candidates=tuple(each for each in unit.candidates if each.name not in late),
        gang_of={name: gang for name, gang in unit.gang_of.items() if name not in late},
        needed=origin.groups[group],
    )


def _prices(ground: Ground) -> tuple[object, ...]:
    return (
        ground.share_sizes,
        ground.share_prices,
        ground.turning_over,
        ground.whole,
        ground.arriving,
        ground.scarcity,
        ground.scarcities,
    )


def _settings(ground: Ground) -> tuple[object, ...]:
    return (ground.schedulers, ground.hand_off, ground.config_map, ground.configuration, ground.preempts)
