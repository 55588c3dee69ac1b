"""An entry that cannot be read (R15): one capacity, a pod whose decision becomes unreadable, and another that wants it.

The decision's bind may be on its way for as long as its attempt stands. The pod may be deleted; then the other has to
get the capacity in the end. The solver may start anew, and so know nothing of the entry but that it cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.model.rules import Rules

EPOCHS: Final = 2
FAULTS: Final = frozenset({"the entry is garbled", "solver starts anew", "the pod is deleted"})


class Known(NamedTuple):
    """What the solver has read: of the ledger so many writes, of STATE so many changes; whom it takes to hold."""

    writes: int = 0
    changes: int = 0
    epoch: int = 0
    is_held: bool = False
    is_unreadable: bool = False
    is_bound: bool = False
    is_gone: bool = False


class Moment(NamedTuple):
    """The entry (`""`: there is none), the pod, its bind on the way, whether the other pod has the capacity."""

    entry: str = "decision"
    writes: int = 1
    epoch: int = 0
    needs: int = 0
    changes: int = 0
    is_binding: bool = True
    is_bound: bool = False
    is_gone: bool = False
    other_has_it: bool = False
    is_garbled: bool = False
    has_restarted: bool = False
    known: Known = Known()
    bad: str = ""


class Step(NamedTuple):
    """Something that may happen next."""

    what: str
    details: tuple[object, ...]
    after: Moment


class UnreadableEntry:
    """The transition system. Rules: R15 (`unreadable_blocks`, `unreadable_is_loss`), R1 and R12 are in force."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def initial(self) -> Moment:
        """The decision stands, and its bind is on the way."""
        return Moment()

    def canonical(self, moment: Moment) -> Moment:
        """Nothing is alike."""
        return moment

    def broken(self, moment: Moment) -> str:
        """What a commit or a bind has broken."""
        return moment.bad

    def stuck(self, moment: Moment) -> str:
        """The capacity stays empty, though everybody reads on and acts, and nothing more goes wrong."""
        seen = set()
        while moment not in seen:
            seen.add(moment)
            moment = next((step.after for step in self.steps(moment) if step.what not in FAULTS), moment)
        return "" if moment.is_bound or moment.other_has_it else "the capacity that nobody holds is given to nobody"

    def steps(self, now: Moment) -> Iterator[Step]:
        """Everything that may happen next."""
        known = now.known
        if now.entry == "decision" and not now.is_garbled:
            yield Step(
                "the entry is garbled", (), now._replace(entry="garbage", writes=now.writes + 1, is_garbled=True)
            )
        if not now.has_restarted:
            yield Step("solver starts anew", (), now._replace(has_restarted=True, known=Known()))
        if known.writes != now.writes:
            yield Step("solver reads LEDGER", (), now._replace(known=self._read(now)))
        if known.changes != now.changes:
            seen = known._replace(changes=now.changes, is_bound=now.is_bound, is_gone=now.is_gone)
            yield Step("solver reads STATE", (), now._replace(known=seen))
        if now.is_binding:
            bad = "the capacity is given out twice" if now.other_has_it else ""
            bound = now._replace(is_binding=False, is_bound=True, changes=now.changes + 1, bad=bad)
            yield Step("the bind lands", (), bound)
        if not now.is_gone:
            gone = now._replace(is_gone=True, is_bound=False, is_binding=False, changes=now.changes + 1)
            yield Step("the pod is deleted", (), gone)
        if now.entry == "garbage" and self._rules.unreadable_is_loss and now.epoch + 1 < EPOCHS:
            yield Step("writer raises the epoch", (), self._raise_epoch(now))
        if self._may_plan(now):
            bad = "the capacity is given out twice" if now.is_bound or now.is_binding else ""
            after = now._replace(other_has_it=True, writes=now.writes + 1, bad=bad)
            yield Step("solver gives the capacity to the other", (), after)

    def _read(self, now: Moment) -> Known:
        known = now.known._replace(writes=now.writes, epoch=now.epoch, is_unreadable=now.entry == "garbage")
        return known if known.is_unreadable else known._replace(is_held=now.entry == "decision")

    def _raise_epoch(self, now: Moment) -> Moment:
        """The attempt of whoever is not bound is raised, so that its bind cannot land; then the entry is written."""
        needs = now.changes
        return now._replace(entry="", writes=now.writes + 1, epoch=now.epoch + 1, is_binding=False, needs=needs)

    def _may_plan(self, now: Moment) -> bool:
        known = now.known
        if now.other_has_it or known.writes != now.writes:
            return False  # R1: the account's sequence
        if known.epoch and known.changes < now.needs:
            return False  # R12
        if self._rules.unreadable_blocks and known.is_unreadable:
            return False
        return not known.is_bound and (known.is_gone or not known.is_held)
