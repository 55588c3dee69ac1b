"""May a plan begin (R9)? A strict gang begins only when every member's decision is there and current.

Once a member is bound under the plan, the gang has begun: it goes on with the rest, whatever happens. A plan holds many
pods, and several gangs: those that cannot begin are given up, everything else in the plan begins without them. Where
its members have to lie in one domain of the network, their nodes still do, by their labels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final, NamedTuple

from berth.cluster_writer.core.basis import is_late
from berth.contracts.ledger import Decision
from berth.contracts.state import Node, Pod, Reservation
from berth.rules.network_topology.domain import lies_in, shown
from berth.transaction.book import FINISHED_PHASES, Book

NO_NODES: Final[Mapping[str, Node]] = {}


class Start(Enum):
    """What may be done with a plan now."""

    GO = "go"
    WAIT = "wait"
    WITHDRAW = "withdraw"


class GangCheck(NamedTuple):
    """The answer for a plan, or for a gang of it. With WITHDRAW some gangs cannot begin: `withdraw` are the decisions
    to give up, `broken` all decisions of those gangs; `rest` says whether the plan holds any others."""

    start: Start
    withdraw: tuple[Decision, ...] = ()
    reason: str = ""
    broken: tuple[Decision, ...] = ()
    rest: bool = True


GO = GangCheck(Start.GO)


def check_plan(
    plan: str,
    book: Book,
    begun: Collection[tuple[str, str]] = (),
    nodes: Mapping[str, Node] = NO_NODES,
    letting_go: Collection[str] = (),
) -> GangCheck:
    """Look at every strict gang of the plan; `begun`: plan and name of gangs that are known to have begun.

    `letting_go`: the uids of pods whose attempt is being raised, which the view does not show yet.
    """
    decisions = [book.ledger.decisions[name].decision for name in sorted(book.ledger.members.get(plan, ()))]
    gangs: dict[str, list[Decision]] = {}
    for decision in decisions:
        if decision.gang is not None and decision.gang.strict:
            gangs.setdefault(decision.gang.name, []).append(decision)
    checks = [
        _check_gang(name, members, plan, book, nodes, letting_go)
        for name, members in gangs.items()
        if (plan, name) not in begun
    ]
    waiting = next((check for check in checks if check.start is Start.WAIT), None)
    broken = [check for check in checks if check.start is Start.WITHDRAW]
    if waiting or not broken:
        return waiting or GO
    left_out = tuple(decision for check in broken for decision in check.broken)
    return GangCheck(
        Start.WITHDRAW,
        tuple(decision for check in broken for decision in check.withdraw),
        "; ".join(check.reason for check in broken),
        left_out,
        rest=len(left_out) < len(decisions),
    )


def _check_gang(
    name: str, members: list[Decision], plan: str, book: Book, nodes: Mapping[str, Node], letting_go: Collection[str]
) -> GangCheck:
    seen = [book.seen((member.namespace, member.name)) for member in members]
    if any(obj is not None and obj.node and obj.plan == plan for obj in seen):
        return GO
    if any(is_late(book, member) for member in members):
        return GangCheck(Start.WAIT, reason="the view is older than the solver's")
    if any(_is_to_come(member, obj, book) for member, obj in zip(members, seen, strict=True)):
        return GangCheck(Start.WAIT, reason="the view does not show what the solver saw of a member yet")
    if letting_go and any(member.uid in letting_go for member in members):
        return GangCheck(Start.WAIT, reason="a member is being let go for an older plan")
    current = tuple(
        member
        for member, obj in zip(members, seen, strict=True)
        if obj is not None and obj.uid == member.uid and obj.attempt == member.attempt and _can_be_bound(obj)
    )
    size = members[0].gang.size if members[0].gang else len(members)
    strayed = next((why for each in members if (why := strays(each, nodes.get(each.node)))), "")
    if len(members) == size and len(current) == size and not strayed:
        return GO
    reason = f"strict gang {name}: {strayed or f'{len(current)} of {size} members are there'}"
    return GangCheck(Start.WITHDRAW, current, reason, tuple(members))


def strays(decision: Decision, node: Node | None) -> str:
    """That the node lies no longer in the domain that the decision's gang has to stay in; empty: it does, or there is
    none."""
    domain = decision.gang.domain if decision.gang is not None else None
    if domain is None or node is None or lies_in(domain, node.name, node.labels):
        return ""
    return f"node {node.name} is not in {shown(domain)} any more"


def _can_be_bound(obj: Pod | Reservation) -> bool:
    return not obj.node and not obj.deleting and obj.phase not in FINISHED_PHASES


def _is_to_come(member: Decision, obj: Pod | Reservation | None, book: Book) -> bool:
    """The view is late for this member alone: a pod may be decided from a message that is newer than the basis."""
    if obj is None or obj.uid != member.uid:
        return not book.is_gone(member)
    return obj.attempt < member.attempt
