"""Reservations that take over a pod which runs (R19): a node of two units, with the pod and another one on it.

Two Reservations of a unit each wait, each may take the pod over, and so does a stranger for whatever becomes free. A
solver decides and places on a late view; cluster-writer patches the pod with its note and makes the Reservation
Available, each guarded by the version that was judged. A decision may be withdrawn for its node's sake at any moment,
and a note may be on its way for as long. The stranger is bound once it is decided. That two solvers do not decide for
the same capacity is R1's: it is given here.

Left out: that notes are taken off again, and what counts after LEDGER is lost, which is the notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.model.rules import Rules

CAPACITY: Final = 2
NONE: Final = -1
RESERVATIONS: Final = (0, 1)
SOLVER: Final = 0
WRITER: Final = 1
WITHDRAWALS: Final = 1
FAULTS: Final = frozenset({"withdrawn for its node", "the other pod ends", "the pod ends"})
FAIR_STEPS: Final = 100


class Reservation(NamedTuple):
    """Its attempt, and whether it is Available on the node."""

    attempt: int = 0
    is_there: bool = False


class Objects(NamedTuple):
    """At the API server: the pod, by version and note, the other one, the stranger, and the Reservations."""

    runs: bool = True
    version: int = 0
    note: int = NONE
    is_other_there: bool = True
    is_stranger_there: bool = False
    reservations: tuple[Reservation, Reservation] = (Reservation(), Reservation())


class Decision(NamedTuple):
    """On a Reservation."""

    attempt: int
    takes: bool


class Ledger(NamedTuple):
    """How often the node's account was written, the decisions by Reservation, whether there is one on the stranger."""

    writes: int = 0
    decisions: tuple[Decision | None, Decision | None] = (None, None)
    has_stranger: bool = False


class Note(NamedTuple):
    """A patch on its way: this Reservation, for the pod as it was at this version."""

    reservation: int
    version: int


class Moment(NamedTuple):
    """What is so, and what solver and cluster-writer have read of it."""

    objects: Objects = Objects()
    ledger: Ledger = Ledger()
    seen: tuple[Objects, Objects] = (Objects(), Objects())
    read: tuple[Ledger, Ledger] = (Ledger(), Ledger())
    network: frozenset[Note] = frozenset()
    withdrawals: int = WITHDRAWALS
    bad: str = ""


class TakeOverStep(NamedTuple):
    """Something that may happen next."""

    what: str
    details: tuple[object, ...]
    after: Moment


class TakeOvers:
    """The transition system. Rules: R19, and of R17 `step_version`; R1, R5 and R6 are in force."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def initial(self) -> Moment:
        """The node is full, and both Reservations and the stranger wait."""
        return Moment()

    def canonical(self, now: Moment) -> Moment:
        """Nothing is alike."""
        return now

    def broken(self, now: Moment) -> str:
        """What a commit or a request has broken."""
        return now.bad

    def stuck(self, now: Moment) -> str:
        """A Reservation or the stranger waits although there is room, and nothing more goes wrong."""
        for _ in range(FAIR_STEPS):
            now = next((step.after for step in self.steps(now) if step.what not in FAULTS), now)
            if now.bad:
                return now.bad
        waits = not all(each.is_there for each in now.objects.reservations) or not now.objects.is_stranger_there
        return "it waits, and there is room" if waits and _in_truth(now) < CAPACITY else ""

    def steps(self, now: Moment) -> Iterator[TakeOverStep]:
        """Everything that may happen next; what leads to rest comes first."""
        for reader in range(len(now.seen)):
            if now.seen[reader] != now.objects:
                yield TakeOverStep("STATE is read", (reader,), now._replace(seen=_set(now.seen, reader, now.objects)))
            if now.read[reader] != now.ledger:
                yield TakeOverStep("LEDGER is read", (reader,), now._replace(read=_set(now.read, reader, now.ledger)))
        for note in sorted(now.network):
            yield self._land(now._replace(network=now.network - {note}), note)
        for each in RESERVATIONS:
            yield from self._writer(now, each)
        yield from self._solver(now)
        there = now.objects
        if there.is_other_there:
            yield TakeOverStep("the other pod ends", (), now._replace(objects=there._replace(is_other_there=False)))
        if there.runs:
            yield TakeOverStep("the pod ends", (), now._replace(objects=there._replace(runs=False, note=NONE)))

    def _users_of(self, ledger: Ledger, seen: Objects) -> set[int]:
        """Whose user the pod is in somebody's book."""
        found = set()
        for each in RESERVATIONS:
            decision = _standing(ledger, seen, each)
            if decision is not None and decision.takes and self._rules.taken_at_once:
                found.add(each)
            if seen.note == each and (seen.reservations[each].is_there or not self._rules.note_powerless):
                found.add(each)
        return found

    def _load(self, ledger: Ledger, seen: Objects) -> int:
        """What the node holds in somebody's book. What is taken over lies within the Reservation that takes it."""
        held = sum(seen.reservations[each].is_there or bool(_standing(ledger, seen, each)) for each in RESERVATIONS)
        by_itself = seen.runs and not self._users_of(ledger, seen)
        return held + by_itself + seen.is_other_there + (seen.is_stranger_there or ledger.has_stranger)

    def _solver(self, now: Moment) -> Iterator[TakeOverStep]:
        seen, read = now.seen[SOLVER], now.read[SOLVER]
        if read.writes != now.ledger.writes:
            return  # R1
        load = self._load(read, seen)
        has_room = load < CAPACITY
        for each in RESERVATIONS:
            if seen.reservations[each].is_there or _standing(read, seen, each):
                continue
            takes = load == CAPACITY and seen.runs and not self._users_of(read, seen)
            if has_room or takes:
                made = Decision(seen.reservations[each].attempt, takes)
                ledger = now.ledger._replace(decisions=_set(now.ledger.decisions, each, made))
                what = "it is to take the pod over" if takes else "it is to be placed"
                yield TakeOverStep(what, (each,), _committed(now, ledger))
        if has_room and not (seen.is_stranger_there or read.has_stranger):
            placed = now._replace(objects=now.objects._replace(is_stranger_there=True))
            after = _committed(placed, now.ledger._replace(has_stranger=True))
            yield TakeOverStep("the stranger is placed", (), after)

    def _writer(self, now: Moment, each: int) -> Iterator[TakeOverStep]:
        """What it does about a decision, by what it has read."""
        seen = now.seen[WRITER]
        decision = _standing(now.read[WRITER], seen, each)
        if decision is None or seen.reservations[each].is_there:
            return
        if decision.takes and not seen.runs:
            if seen.reservations[each] == now.objects.reservations[each]:
                yield TakeOverStep("withdrawn for its pod", (each,), _withdrawn(now, each))
            return
        is_noted = not decision.takes or seen.note == each
        if not is_noted and (note := Note(each, seen.version)) not in now.network:
            yield TakeOverStep("a note is sent", (each,), now._replace(network=now.network | {note}))
        if (is_noted or not self._rules.noted_first) and now.objects.reservations[each].attempt == decision.attempt:
            yield TakeOverStep("it is Available", (each,), _available(now, each, decision))
        if now.withdrawals and seen.reservations[each] == now.objects.reservations[each]:
            after = _withdrawn(now, each)._replace(withdrawals=now.withdrawals - 1)
            yield TakeOverStep("withdrawn for its node", (each,), after)

    def _land(self, now: Moment, note: Note) -> TakeOverStep:
        there = now.objects
        if not there.runs or (self._rules.step_version and there.version != note.version):
            return TakeOverStep("a note is refused", tuple(note), now)
        noted = there._replace(note=note.reservation, version=there.version + 1)
        holder = _standing(now.ledger, there, there.note) if there.note not in (NONE, note.reservation) else None
        is_anothers = holder is not None and holder.takes
        bad = "a pod is given from one Reservation to another" if is_anothers else ""
        return TakeOverStep("a note lands", tuple(note), now._replace(objects=noted, bad=bad))


def _standing(ledger: Ledger, seen: Objects, each: int) -> Decision | None:
    decision = ledger.decisions[each]
    return decision if decision is not None and decision.attempt >= seen.reservations[each].attempt else None


def _committed(now: Moment, ledger: Ledger) -> Moment:
    after = now._replace(ledger=ledger._replace(writes=ledger.writes + 1))
    return after._replace(bad="capacity is given twice" if _in_truth(after) > CAPACITY else "")


def _in_truth(now: Moment) -> int:
    """What the node holds: who is there, and each Reservation that was decided. One of them may have the pod within."""
    there = now.objects
    decisions = [_standing(now.ledger, there, each) for each in RESERVATIONS]
    held = sum(there.reservations[each].is_there or bool(decisions[each]) for each in RESERVATIONS)
    is_taken = any(decision is not None and decision.takes for decision in decisions)
    is_taken = is_taken or (there.note != NONE and there.reservations[there.note].is_there)
    return held + (there.runs and not is_taken) + there.is_other_there + there.is_stranger_there


def _available(now: Moment, each: int, decision: Decision) -> Moment:
    there = now.objects
    reservations = _set(there.reservations, each, there.reservations[each]._replace(is_there=True))
    is_untold = decision.takes and there.runs and there.note != each
    bad = "a Reservation is Available, and its pod does not say so" if is_untold else ""
    return now._replace(objects=there._replace(reservations=reservations), bad=bad)


def _withdrawn(now: Moment, each: int) -> Moment:
    there = now.objects
    raised = there.reservations[each]._replace(attempt=there.reservations[each].attempt + 1)
    return now._replace(objects=there._replace(reservations=_set(there.reservations, each, raised)))


def _set(values: tuple, at: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:at], value, *values[at + 1 :])
