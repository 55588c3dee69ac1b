"""Plans made again, one after the other, and compared with what was decided."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from berth.cli.recorded.player import Player
from berth.cli.recorded.tape import Tape, short
from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Decision, Plan, PlanStatus
from berth.contracts.round import Round
from berth.placement_solver.origins import streams_id
from berth.placement_solver.origins.remaking import NotMadeError, differences
from berth.placement_solver.reading import NODE_METRICS
from berth.recording.grounds import Grounds
from berth.recording.records import AnyRecord, Began, Ended, Entered, Missed, Told, Whole

ALWAYS: Final = (
    buckets.STATE,
    buckets.INVENTORY,
    buckets.QUOTA,
    buckets.RESERVATION,
    buckets.SLO,
    buckets.LEDGER,
)
"""What every solver reads."""
PLANS_MAX: Final = 4096
"""Plans whose decisions are kept until their entry comes."""

Outcome = Literal["same", "different", "not replayable"]


class Verdict(NamedTuple):
    """What became of a plan that was made again. `about`: what differs, or why it could not be made."""

    plan: str
    solver: str
    stored_s: float
    outcome: Outcome
    about: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    kind: str = ""


class _Asked(NamedTuple):
    plan: Plan
    origin: Round
    stored_s: float
    decided: tuple[Decision, ...]


class Audit:
    """Over the records of segments. `wanted` says which plans are made again, by their entry and when it was stored."""

    def __init__(self, wanted: Callable[[Plan, float], bool]) -> None:
        self._wanted = wanted
        self._began = Began("", 0.0, {})
        self._in_checkpoint = self._is_first = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._tape = Tape()
        self._grounds = Grounds()
        self._players: dict[str, Player] = {}
        self._waiting: deque[_Asked] = deque()
        self._decisions: dict[str, list[Decision]] = {}

    def over(self, records: Iterable[AnyRecord]) -> Iterator[Verdict]:
        """The verdicts, in the order of the plans."""
        for record in records:
            if isinstance(record, Began):
                self._is_first = record.run != self._began.run
                if self._is_first:
                    yield from self._give_up("recording ended before all was read that it was made from")
                    self._begin_anew()
                self._began, self._in_checkpoint = record, True
            elif isinstance(record, Whole):
                self._in_checkpoint = False
            elif isinstance(record, Told):
                self._grounds.take(record.ground)
            elif self._in_checkpoint and not self._is_first:
                continue  # what it says has come already
            elif isinstance(record, Entered):
                yield from self._entered(record)
            elif isinstance(record, Missed):
                self._tape.missed(record)
            elif isinstance(record, Ended):
                self._tape.ended(record.bucket, record.sequence)

    def end(self) -> Iterator[Verdict]:
        """Nothing more comes."""
        return self._give_up("recording ends before all was read that it was made from")

    # --- records -----------------------------------------------------------------------------------------------------

    def _entered(self, record: Entered) -> Iterator[Verdict]:
        self._tape.put(record, in_checkpoint=self._in_checkpoint)
        if self._in_checkpoint:
            return
        if record.bucket == buckets.LEDGER and not record.deleted:
            verdict = self._read_ledger(record)
            if verdict is not None:
                yield verdict
        while self._waiting and self._is_reached(self._waiting[0].origin):
            yield self._judge(self._waiting.popleft())
        if record.sequence % 1024 == 0 and not self._waiting:
            self._forget()

    def _forget(self) -> None:
        old = self._tape.old()
        if old:
            for player in self._players.values():
                player.move_on(old)
            self._tape.drop(old)

    def _read_ledger(self, record: Entered) -> Verdict | None:
        family = record.key.partition(".")[2].partition(".")[0]
        try:
            if family == "decision":
                decision = decode(record.value, Decision)
                self._decisions.setdefault(decision.plan, []).append(decision)
                if len(self._decisions) > PLANS_MAX:
                    del self._decisions[next(iter(self._decisions))]
            elif family == "plan":
                return self._read_plan(decode(record.value, Plan), record.stored_s)
        except InvalidMessage:
            return None
        return None

    def _read_plan(self, plan: Plan, stored_s: float) -> Verdict | None:
        origin = plan.round
        if origin is not None and origin.told is not None:
            self._grounds.take(origin.told)
        if plan.status is not PlanStatus.COMMITTED:
            return None
        decided = tuple(self._decisions.pop(plan.id, ()))
        if not self._wanted(plan, stored_s):
            return None
        if origin is None:
            why = "it does not say what it was made from"
            return Verdict(plan.id, plan.solver, stored_s, "not replayable", (why,), decided)
        self._waiting.append(_Asked(plan, origin, stored_s, decided))
        return None

    # --- plans -------------------------------------------------------------------------------------------------------

    def _is_reached(self, origin: Round) -> bool:
        recorded = self._tape.recorded
        return all(
            recorded.get(bucket, 0) >= read.sequence for bucket in ALWAYS if (read := origin.read.get(short(bucket)))
        )

    def _judge(self, asked: _Asked) -> Verdict:
        plan, origin, stored_s, decided = asked
        said = Verdict(plan.id, plan.solver, stored_s, "not replayable", (), decided, origin.kind)
        why = self._why_not(plan, origin, decided)
        if why:
            return said._replace(about=(why,))
        known = self._grounds.of(origin.ground)
        if known is None:
            return said._replace(about=("the order of nodes and prices that it was made by were not recorded",))
        player = self._players.get(plan.solver)
        if player is None:
            player = self._players[plan.solver] = Player(plan.solver, self._tape)
        try:
            made = player.remade(plan, origin, known, decided)
        except NotMadeError as error:
            return said._replace(outcome="different", about=(str(error),))
        except Exception as error:  # a plugin may raise anything, in a solver of another version, too
            return said._replace(about=(f"it cannot be made by this version: {type(error).__name__}: {error}"[:300],))
        found = differences(decided, made)
        return said._replace(outcome="different" if found else "same", about=tuple(found))

    def _why_not(self, plan: Plan, origin: Round, decided: tuple[Decision, ...]) -> str:
        if origin.besides:
            return f"it went by {origin.besides}, which is not told"
        if len(decided) != plan.decisions or not decided:
            return f"{plan.decisions - len(decided)} of its {plan.decisions} decisions were not recorded"
        followed = [*ALWAYS, *([buckets.METRICS] if "metrics" in origin.read else [])]
        if buckets.METRICS in followed and buckets.METRICS not in self._began.streams:
            return "it went by what nodes really use, and that is not recorded"
        if NODE_METRICS in origin.read:
            return "it went by NodeMetric objects, of which it is not recorded when they were read"
        if origin.streams and origin.streams != streams_id(
            tuple(self._began.streams.get(each, "") for each in followed)
        ):
            return "a bucket has begun anew between what it was made from and what was recorded"
        for bucket in followed:
            read = origin.read.get(short(bucket))
            if read is None:
                continue
            if self._tape.base.newest(bucket) > read.sequence:
                return f"it was made from values of {short(bucket)} from before the recording"
            if any(hole.concerns(read) for hole in self._tape.holes.get(bucket, ())):
                return f"values of {short(bucket)} were replaced before they were recorded"
        return ""

    def _give_up(self, why: str) -> Iterator[Verdict]:
        while self._waiting:
            plan, origin, stored_s, decided = self._waiting.popleft()
            yield Verdict(plan.id, plan.solver, stored_s, "not replayable", (why,), decided, origin.kind)
