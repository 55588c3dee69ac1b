"""One solver's view, carried along the tape from plan to plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from berth.cli.recorded.tape import ORDER, Tape, entry_of, short
from berth.contracts import buckets
from berth.contracts.ledger import Decision, Plan
from berth.contracts.round import Read, Round
from berth.placement_solver.origins.remaking import Remaker
from berth.recording.grounds import Known
from berth.recording.records import Entered

NOTHING: Final = Read(sequence=0)


class Player:
    """Of one solver, from the base of the tape on."""

    def __init__(self, solver: str, tape: Tape) -> None:
        self._solver = solver
        self._tape = tape
        self._values = tape.base.copy()
        self._remaker: Remaker | None = None
        self._ended = 0
        self.positions = {bucket: tape.start(bucket) for bucket in ORDER}

    def remade(self, plan: Plan, origin: Round, known: Known, decided: Sequence[Decision]) -> list[Decision]:
        """The plan's decisions, made again on what its solver had read. Raises NotMadeError."""
        self._advance(origin)
        if self._remaker is None or not self._remaker.suits(known):
            self._remaker = self._built(known, origin.ended)
        return self._remaker.remake(plan, origin, decided)

    def move_on(self, positions: Mapping[str, int]) -> None:
        """Read up to these positions at least."""
        for bucket, position in positions.items():
            while self.positions[bucket] < position:
                entered = next(self._tape.after(bucket, self.positions[bucket]), None)
                if entered is None:
                    break
                self._take(entered, gap=False)

    def _advance(self, origin: Round) -> None:
        for bucket in ORDER:
            read = origin.read.get(short(bucket), NOTHING)
            missed = list(zip(read.missed[::2], read.missed[1::2], strict=False))
            is_state, gap = bucket == buckets.STATE, False
            for entered in self._tape.after(bucket, self.positions[bucket]):
                if entered.sequence > read.sequence:
                    break
                if is_state and self._ended < origin.ended < entered.sequence:
                    self._end(origin.ended)
                if any(first <= entered.sequence <= last for first, last in missed):
                    self.positions[bucket] += 1
                    gap = True
                    continue
                self._take(entered, gap=gap or any(last == entered.sequence - 1 for _, last in missed))
                gap = False
            if is_state and self._ended < origin.ended:
                self._end(origin.ended)

    def _end(self, sequence: int) -> None:
        self._ended = sequence
        if self._remaker is not None:
            self._remaker.end_of_state()

    def _take(self, entered: Entered, *, gap: bool) -> None:
        self.positions[entered.bucket] += 1
        self._values.put(entered)
        if self._remaker is not None:
            _read(self._remaker, entered, gap=gap)

    def _built(self, known: Known, ended: int) -> Remaker:
        """A view of the values as they are."""
        remaker = Remaker(self._solver, known)
        for bucket in ORDER:
            has_ended = False
            for each in self._values.of(bucket):
                if bucket == buckets.STATE and each.sequence > ended and not has_ended:
                    has_ended = True
                    remaker.end_of_state()
                _read(remaker, each, gap=False)
            if bucket == buckets.STATE and not has_ended:
                remaker.end_of_state()
        return remaker


def _read(remaker: Remaker, entered: Entered, *, gap: bool) -> None:
    remaker.read(entered.bucket, entry_of(entered, gap=gap))
