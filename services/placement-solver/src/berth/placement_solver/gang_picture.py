"""Gangs as this solver sees them: members, what they wait for, where they lie."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from berth.contracts.gang_question import GangAnswer, GangQuestion, GangView
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core import explain
from berth.placement_solver.core.groups import Gang
from berth.placement_solver.core.words import text_of
from berth.placement_solver.why_gathered import domain_of, slots_of
from berth.transaction.claims import Name

MEMBERS_MAX: Final = 100
GANGS_MAX: Final = 1_000


def gangs_seen(cluster: ClusterView, question: GangQuestion) -> GangAnswer:
    """The gang that is asked about, or all of them."""
    if question.name:
        gang = cluster.gangs.gangs.get(f"{question.namespace}/{question.name}")
        return GangAnswer(gangs=[_seen(cluster, gang, is_whole=True)] if gang is not None else [])
    listed = sorted(cluster.gangs.gangs)
    if question.namespace:
        listed = [each for each in listed if each.startswith(f"{question.namespace}/")]
    shown = [_seen(cluster, cluster.gangs.gangs[each], is_whole=False) for each in listed[:GANGS_MAX]]
    return GangAnswer(gangs=shown, more=max(0, len(listed) - GANGS_MAX))


def _seen(cluster: ClusterView, gang: Gang, *, is_whole: bool) -> GangView:
    namespace, _, name = gang.id.partition("/")
    config, group = gang.config, cluster.gangs.group_of(gang.id)
    waiting = [each for name_ in sorted(gang.children) if (each := cluster.queue.waiting.get(name_)) is not None]
    refused = next((each for each in waiting if each.reasons), None)
    minimum = config.min_member if config is not None and config.min_member is not None else -1
    outcome = outcome_of(gang, max(minimum, 0), is_refused=bool(refused and refused.tries))
    lacks = cluster.gangs.readiness(group).reason if waiting and not refused else None
    reasons = explain.shown(refused.reasons) if refused else [lacks] if lacks else []
    last = cluster.queue.last_round(group)
    nominated = {name_ for name_ in gang.children - gang.placed if cluster.book.nominations.of(name_) is not None}
    members = {
        "bound": gang.bound,
        "decided": gang.placed - gang.bound,
        "nominated": nominated,
        "waiting": gang.children - gang.placed - nominated - gang.leaving,
        "leaving": gang.leaving,
    }
    victims = leaving_for(cluster, gang)
    counts = {what: len(each) for what, each in members.items()} | {"victims": len(victims)}
    if not is_whole:
        members = {what: set[Name]() for what in members}
    return GangView(
        namespace=namespace,
        name=name,
        outcome=outcome,
        mine=cluster.is_mine(group),
        source="" if config is None else "PodGroup" if gang.by_group_object else "pods",
        mode=config.mode if config is not None else "",
        match_policy=config.match_policy if config is not None else "",
        minimum=minimum,
        wait_s=config.wait_s if config is not None else 0.0,
        group=group.split(","),
        has_begun=gang.has_begun,
        children=len(gang.children),
        counts=counts,
        bound=_on_nodes(cluster, members["bound"]),
        decided=_on_nodes(cluster, members["decided"]),
        nominated=_on_nodes(cluster, members["nominated"]),
        waiting=_named(members["waiting"]),
        leaving=_named(members["leaving"]),
        domain=domain_of(cluster, gang),
        slots=list(slots_of(cluster, gang)) if is_whole else [],
        rounds=max((each.tries for each in waiting), default=0),
        last_round_s=round(max(0.0, cluster.now - last), 1) if last is not None else -1.0,
        victims=victims[:MEMBERS_MAX] if is_whole else [],
        displaced_by=displacing(cluster, gang)[: MEMBERS_MAX if is_whole else 1],
        reasons=[] if outcome == "bound" else reasons,
        problems=cluster.gangs.problems(gang.id),
    )


def outcome_of(gang: Gang, minimum: int, *, is_refused: bool) -> str:
    """How far a gang is, in one word; `is_refused`: it was tried in vain."""
    if gang.children and len(gang.bound) >= max(minimum, 1):
        return "bound"
    if gang.children and len(gang.placed) >= max(minimum, 1):
        return "decided"
    return "refused" if is_refused else "waiting"


def leaving_for(cluster: ClusterView, gang: Gang) -> list[str]:
    """The pods that have still to leave for a gang."""
    found: dict[str, None] = {}
    for name in sorted(gang.children - gang.placed):
        nomination = cluster.book.nominations.of(name)
        for victim in cluster.book.remaining_victims(nomination) if nomination is not None else ():
            found[f"{victim.namespace}/{victim.name}"] = None
    return list(found)


def displacing(cluster: ClusterView, gang: Gang) -> list[str]:
    """For whom members of a gang have to leave."""
    return sorted(
        {
            text_of(beneficiary)
            for name in sorted(gang.children)
            for beneficiary in cluster.beneficiaries.of(name, cluster.book)
        }
    )


def _on_nodes(cluster: ClusterView, members: Iterable[Name]) -> dict[str, str]:
    return {text_of(name): _node_of(cluster, name) for name in islice(sorted(members), MEMBERS_MAX)}


def _node_of(cluster: ClusterView, name: Name) -> str:
    seen, decision = cluster.book.seen(name), cluster.book.open_decision(name)
    return (seen.node if seen is not None else "") or (decision.node if decision is not None else "")


def _named(members: Iterable[Name]) -> list[str]:
    return [text_of(name) for name in islice(sorted(members), MEMBERS_MAX)]
