"""May a plan begin (R9)? A strict gang begins only when every member's decision is there and current.

Once a member is bound under the plan, the gang has begun: it goes on with the rest, whatever happens.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from berth.contracts.ledger import Decision
from berth.transaction.book import Book


class Start(Enum):
    """What may be done with a plan now."""

    GO = "go"
    WAIT = "wait"
    WITHDRAW = "withdraw"


class GangCheck(NamedTuple):
    """The answer for a plan; `withdraw` are the decisions to give up when a gang of it cannot begin."""

    start: Start
    withdraw: tuple[Decision, ...] = ()
    reason: str = ""


GO = GangCheck(Start.GO)


def check_plan(plan: str, book: Book) -> GangCheck:
    """Look at every strict gang of the plan."""
    decisions = [book.ledger.decisions[name].decision for name in sorted(book.ledger.members.get(plan, ()))]
    gangs: dict[str, list[Decision]] = {}
    for decision in decisions:
        if decision.gang is not None and decision.gang.strict:
            gangs.setdefault(decision.gang.name, []).append(decision)
    for name, members in gangs.items():
        found = _check_gang(name, members, plan, book)
        if found is not GO:
            return found
    return GO


def _check_gang(name: str, members: list[Decision], plan: str, book: Book) -> GangCheck:
    seen = [book.seen((member.namespace, member.name)) for member in members]
    if any(obj is not None and obj.node and obj.plan == plan for obj in seen):
        return GO
    if any(book.through((member.namespace, member.name)) < member.basis for member in members):
        return GangCheck(Start.WAIT, reason="the view is older than the solver's")
    current = tuple(
        member
        for member, obj in zip(members, seen, strict=True)
        if obj is not None and obj.uid == member.uid and obj.attempt == member.attempt and not obj.node
    )
    size = members[0].gang.size if members[0].gang else len(members)
    if len(members) == size and len(current) == size:
        return GO
    return GangCheck(Start.WITHDRAW, current, f"strict gang {name}: {len(current)} of {size} members are there")
