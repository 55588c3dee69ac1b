"""Quota whose limits appear or move (R14): a line of groups, two solvers, of which one has read the change.

- `appears`: a group below a parent that has no max, and has one from revision 1 on.
- `moves`: group 0 stands by itself, and below the parent of group 1 from revision 1 on; that parent has a max.
- `crosses`: the same, and until then group 0 was in another tree, where its account is another one.

A unit that is charged counts for its group, and for the parent while the group is below it. What is judged is the
parent's max, from the moment a plan has used revision 1 on the parent's account.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.model.rules import Rules

MAX: Final = 1
UNITS_MAX: Final = 2
SOLVERS: Final = (0, 1)
PARENT: Final = 2
"""Accounts are the two groups, 0 and 1, this one, and that of group 0 in the tree that it was in."""
FORMER: Final = 3


class Account(NamedTuple):
    """How often it was written, which stands for its sequence, and the newest revision used on it."""

    writes: int = 0
    revision: int = 0


class Books(NamedTuple):
    """Units by group, and the accounts."""

    used: tuple[int, int] = (0, 0)
    accounts: tuple[Account, Account, Account, Account] = (Account(),) * 4


class Moment(NamedTuple):
    """The newest revision, what each solver has read of it and of the ledger, whether a plan used it, what is so."""

    newest: int = 0
    read: tuple[int, int] = (0, 0)
    known: tuple[Books, Books] = (Books(), Books())
    books: Books = Books()
    is_used: bool = False
    bad: str = ""


class LineStep(NamedTuple):
    """Something that may happen next."""

    what: str
    details: tuple[object, ...]
    after: Moment


class QuotaLine:
    """The transition system. Rules: R1 (`account_sequences`), and of R14 `whole_line`, `tree_revision`, `joined` and
    `former_account`."""

    def __init__(self, rules: Rules, what: str) -> None:
        self._rules = rules
        self._moves = what != "appears"
        self._crosses = what == "crosses"

    def initial(self) -> Moment:
        """Nothing is used."""
        return Moment()

    def canonical(self, moment: Moment) -> Moment:
        """Two solvers are alike."""
        one, two = zip(moment.read, moment.known, strict=True)
        return moment if one <= two else moment._replace(read=moment.read[::-1], known=moment.known[::-1])

    def broken(self, moment: Moment) -> str:
        """What a commit has exceeded."""
        return moment.bad

    def stuck(self, moment: Moment) -> str:
        """Nothing waits for anything here."""
        return ""

    def steps(self, moment: Moment) -> Iterator[LineStep]:
        """Everything that may happen next."""
        if not moment.newest:
            yield LineStep("the limit changes", (), moment._replace(newest=1))
        for me in SOLVERS:
            if moment.read[me] < moment.newest:
                yield LineStep("solver reads QUOTA", (me,), moment._replace(read=_with(moment.read, me, 1)))
            if moment.known[me] != moment.books:
                known = (moment.books, moment.known[1]) if me == 0 else (moment.known[0], moment.books)
                yield LineStep("solver reads LEDGER", (me,), moment._replace(known=known))
            for group in (0, 1) if self._moves else (0,):
                if moment.books.used[group] < UNITS_MAX and self._may_charge(moment, me, group):
                    yield self._charge(moment, me, group)

    def _is_below(self, group: int, read: int) -> bool:
        return not self._moves or group == 1 or read == 1

    def _line(self, group: int, read: int) -> list[int]:
        if self._is_below(group, read):
            return [group, PARENT]
        return [FORMER if self._crosses else group]

    def _written(self, moment: Moment, me: int, group: int) -> dict[int, int]:
        """The accounts that the plan stamps, each with the revision that it was made on."""
        read = moment.read[me]
        if not self._moves:
            return dict.fromkeys(self._line(group, read), read) if self._rules.whole_line or read else {}
        # Of what the move does not change itself, only the tree's revision tells.
        told = read if self._rules.tree_revision else 0
        written = {each: read if each in (0, FORMER) else told for each in self._line(group, read)}
        if self._rules.joined and read and moment.known[me].accounts[0].revision < read:
            written[0] = read
        if self._crosses and self._rules.former_account and moment.known[me].accounts[FORMER].revision < read:
            written[FORMER] = read
        return written

    def _may_charge(self, moment: Moment, me: int, group: int) -> bool:
        known, read = moment.known[me], moment.read[me]
        has_max = self._moves or read == 1
        below = sum(used for each, used in enumerate(known.used) if self._is_below(each, read))
        if has_max and PARENT in self._line(group, read) and below + 1 > MAX:
            return False
        written = self._written(moment, me, group)
        if any(known.accounts[each].revision > revision for each, revision in written.items()):
            return False
        if not self._rules.account_sequences:
            return True
        return all(known.accounts[each].writes == moment.books.accounts[each].writes for each in written)

    def _charge(self, moment: Moment, me: int, group: int) -> LineStep:
        books, read = moment.books, moment.read[me]
        used = _with(books.used, group, 1)
        accounts = list(books.accounts)
        for each, revision in self._written(moment, me, group).items():
            accounts[each] = Account(accounts[each].writes + 1, max(accounts[each].revision, revision))
        is_used = moment.is_used or (read == 1 and PARENT in self._line(group, read))
        bad = "the parent's max is exceeded" if is_used and sum(used) > MAX else ""
        after = moment._replace(books=Books(used, tuple(accounts)), is_used=is_used, bad=bad)  # type: ignore[arg-type]
        return LineStep("solver charges", (me, group), after)


def _with(pair: tuple[int, int], at: int, more: int) -> tuple[int, int]:
    return (pair[0] + more, pair[1]) if at == 0 else (pair[0], pair[1] + more)
