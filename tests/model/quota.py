"""Quota as accounts (R14): two groups under one parent, a runtime that moves between them, two solvers that lag.

A solver commits one unit for a group when that fits the runtime of the revision it has read, and the parent's max.
Use is counted like capacity and known to whoever has read the accounts; a changed value stands for a changed sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.rules import Rules

REVISIONS = ((2, 0), (1, 1), (0, 2), (2, 0))
"""The runtime of both groups, by revision."""
PARENT_MAX = 2
GROUPS = SOLVERS = (0, 1)


class Accounts(NamedTuple):
    """Units in use by each group, and the newest revision used on its account."""

    used: tuple[int, int] = (0, 0)
    revisions: tuple[int, int] = (0, 0)


class Moment(NamedTuple):
    """The newest revision; what each solver has read of it and of the accounts; what is so."""

    newest: int
    read: tuple[int, int]
    accounts: Accounts
    known: tuple[Accounts, Accounts]
    bad: str


class QuotaStep(NamedTuple):
    """Something that may happen next."""

    what: str
    details: tuple[object, ...]
    after: Moment


class QuotaAccounts:
    """The transition system. Rules: R1 (`account_sequences`) and both halves of R14."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def initial(self) -> Moment:
        """Nothing is used."""
        return Moment(0, (0, 0), Accounts(), (Accounts(), Accounts()), "")

    def canonical(self, moment: Moment) -> Moment:
        """Two solvers are alike."""
        one, two = zip(moment.read, moment.known, strict=True)
        if one <= two:
            return moment
        return moment._replace(read=moment.read[::-1], known=moment.known[::-1])

    def broken(self, moment: Moment) -> str:
        """What a commit has exceeded."""
        return moment.bad

    def stuck(self, moment: Moment) -> str:
        """Nothing waits for anything here."""
        return ""

    def steps(self, moment: Moment) -> Iterator[QuotaStep]:
        """Everything that may happen next."""
        if moment.newest + 1 < len(REVISIONS):
            yield QuotaStep("runtime moves", (), moment._replace(newest=moment.newest + 1))
        for group in GROUPS:
            if moment.accounts.used[group]:
                freed = moment.accounts._replace(used=_with(moment.accounts.used, group, -1))
                yield QuotaStep("pod ends", (group,), moment._replace(accounts=freed))
        for me in SOLVERS:
            if moment.read[me] < moment.newest:
                read = _with(moment.read, me, 1)
                yield QuotaStep("solver reads QUOTA", (me,), moment._replace(read=read))
            if moment.known[me] != moment.accounts:
                known = (moment.accounts, moment.known[1]) if me == 0 else (moment.known[0], moment.accounts)
                yield QuotaStep("solver reads LEDGER", (me,), moment._replace(known=known))
            for group in GROUPS:
                if self._may_charge(moment, me, group):
                    yield self._charge(moment, me, group)

    def _may_charge(self, moment: Moment, me: int, group: int) -> bool:
        known, now, rules = moment.known[me], moment.accounts, self._rules
        if known.used[group] + 1 > REVISIONS[moment.read[me]][group]:
            return False
        if rules.revisions and moment.read[me] < known.revisions[group]:
            return False
        if rules.ancestors and sum(known.used) + 1 > PARENT_MAX:
            return False
        if not rules.account_sequences:
            return True
        mine = (known.used[group], known.revisions[group]) == (now.used[group], now.revisions[group])
        return mine and (not rules.ancestors or known.used == now.used)

    def _charge(self, moment: Moment, me: int, group: int) -> QuotaStep:
        now = moment.accounts
        used = _with(now.used, group, 1)
        newest = max(now.revisions[group], moment.read[me])
        revisions = (newest, now.revisions[1]) if group == 0 else (now.revisions[0], newest)
        bad = ""
        if sum(used) > PARENT_MAX:
            bad = "the parent's max is exceeded"
        elif used[group] > REVISIONS[newest][group]:
            bad = "the newest runtime used on the account is exceeded"
        after = moment._replace(accounts=Accounts(used, revisions), bad=bad)
        return QuotaStep("solver charges", (me, group), after)


def _with(pair: tuple[int, int], at: int, more: int) -> tuple[int, int]:
    return (pair[0] + more, pair[1]) if at == 0 else (pair[0], pair[1] + more)
