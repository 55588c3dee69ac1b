"""Answers to people about what pods depend on: gangs, quotas, nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from berth.contracts.grants import CPU, ZONE, percent
from berth.contracts.question import WhyAnswer, WhyQuestion
from berth.contracts.quota import QuotaGroup
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.explain import shown
from berth.placement_solver.core.groups import Gang
from berth.placement_solver.core.nodes import DEVICE_NAMES
from berth.placement_solver.core.words import text_of
from berth.placement_solver.gang_picture import displacing, leaving_for, outcome_of
from berth.placement_solver.why_gathered import network_facts
from berth.placement_solver.why_load import load_of, load_problems
from berth.resources.amounts import format_amount
from berth.transaction.claims import Claim, Name

PODS_MAX = 100
VICTIMS_SHOWN = 8


def of_gang(cluster: ClusterView, question: WhyQuestion) -> WhyAnswer:
    """How far a gang is, and what it waits for."""
    gang = cluster.gangs.gangs.get(f"{question.namespace}/{question.name}")
    if gang is None:
        return _unknown(question, "no PodGroup of this name, and no pod that names it")
    group = cluster.gangs.group_of(gang.id)
    readiness = cluster.gangs.readiness(group)
    waiting = [cluster.queue.waiting[name] for name in sorted(gang.children) if name in cluster.queue.waiting]
    refused = next((each for each in waiting if each.reasons), None)
    reasons = shown(refused.reasons) if refused else [readiness.reason] if readiness.reason else []
    minimum = (gang.config.min_member if gang.config else None) or 0
    facts = {
        "size": f"{len(gang.children)} members, at least {minimum} start together",
        "bound": str(len(gang.bound)),
        "decided": str(len(gang.placed - gang.bound)),
        "waiting": str(len(gang.children - gang.placed)),
        "nominated": str(len(gang.nominated)) if gang.nominated else "",
        "waits for": listed_victims(leaving_for(cluster, gang)),
        "displaced by": listed_victims(displacing(cluster, gang)),
        "group": group if group != gang.id else "",
        **network_facts(cluster, gang),
    }
    members = {name: _member_state(gang, name) for name in sorted(gang.children)}
    return WhyAnswer(
        kind=question.kind,
        namespace=question.namespace,
        name=question.name,
        outcome=outcome_of(gang, minimum, is_refused=bool(refused and refused.tries)),
        mine=cluster.is_mine(group),
        reasons=[] if len(gang.bound) >= max(minimum, 1) else reasons,
        explanation=refused.explanation if refused is not None and len(gang.bound) < max(minimum, 1) else None,
        problems=cluster.gangs.problems(gang.id),
        facts={name: text for name, text in facts.items() if text},
        pods=_named(members),
    )


def _member_state(gang: Gang, name: Name) -> str:
    if name in gang.nominated:
        return "nominated"
    return "bound" if name in gang.bound else "decided" if name in gang.placed else "waiting"


def listed_victims(found: Sequence[str]) -> str:
    """The first few of them."""
    more = f" and {len(found) - VICTIMS_SHOWN} more" if len(found) > VICTIMS_SHOWN else ""
    return ", ".join(found[:VICTIMS_SHOWN]) + more


def of_quota(cluster: ClusterView, question: WhyQuestion) -> WhyAnswer:
    """What a quota group may use, uses, and who waits for it."""
    found = [
        (key, group)
        for key, group in sorted(cluster.quotas.groups.items())
        if group.name == question.name and question.namespace in ("", key[0])
    ]
    if not found:
        return _unknown(question, "quota-manager publishes no group of this name")
    key, group = found[0]
    used = cluster.quotas.used(key)
    facts = {name: _use(group, used, name) for name in sorted({*group.limits, *used}) if _matters(group, used, name)}
    facts["above"] = ", ".join(group.ancestors)
    facts["namespaces"] = ", ".join(group.namespaces)
    waiting = {
        name: waiting.reasons[0].message
        for name, waiting in sorted(cluster.queue.waiting.items())
        if any(reason.code == "quota" and f"quota {group.name}:" in reason.message for reason in waiting.reasons)
    }
    return WhyAnswer(
        kind=question.kind,
        namespace=key[0],
        name=question.name,
        outcome="known",
        mine=True,
        problems=list(group.problems),
        facts={name: text for name, text in facts.items() if text},
        pods=_named(waiting),
    )


def _matters(group: QuotaGroup, used: Mapping[str, int], name: str) -> bool:
    return bool(used.get(name) or group.max.get(name) or group.min.get(name) or group.runtime.get(name))


def _use(group: QuotaGroup, used: Mapping[str, int], name: str) -> str:
    text = f"{format_amount(name, used.get(name, 0))} used"
    if name not in group.limits:
        return f"{text}, not limited"
    bounds = (("runtime", group.runtime), ("min", group.min), ("max", group.max))
    shown = [f"{what} {format_amount(name, of[name])}" for what, of in bounds if name in of]
    asked = group.request.get(name, 0)
    return ", ".join(
        [f"{text} of {shown[0]}" if shown else text, *shown[1:], f"asked for {format_amount(name, asked)}"]
    )


def of_node(cluster: ClusterView, question: WhyQuestion) -> WhyAnswer:
    """What a node has, who holds it, and what keeps pods away."""
    row = cluster.nodes.rows.get(question.name)
    node = cluster.nodes.states[row] if row is not None else None
    if row is None or node is None:
        return _unknown(question, "no node of this name is known")
    facts = {"ready": "yes" if node.ready else "no"}
    if node.unschedulable:
        facts["cordoned"] = "yes"
    facts["taints"] = ", ".join(f"{each.key}:{each.effect}" for each in node.taints)
    for resource, column in cluster.nodes.columns_on(row).items():
        whole, free = int(cluster.nodes.allocatable[column, row]), int(cluster.nodes.free[column, row])
        if whole or free:
            facts[resource] = f"{format_amount(resource, free)} free of {format_amount(resource, whole)}"
    facts["load"] = load_of(cluster, node)
    holders: dict[str, list[str]] = {}
    claims = sorted(cluster.book.claims_on(question.name), key=lambda claim: claim.name)
    for claim in claims:
        for grant in claim.grants:
            holders.setdefault(f"{grant.kind} {grant.id}", []).append(f"{percent(grant)} % {text_of(claim.name)}")
    inventory = cluster.nodes.inventories[row]
    for device in inventory.devices if inventory else ():
        label = f"{device.kind} {device.minor}"
        health = "" if device.healthy else f"unhealthy: {device.reason}; " if device.reason else "unhealthy; "
        facts[label] = health + (", ".join(holders.get(label, ())) or "free")
    return WhyAnswer(
        kind=question.kind,
        namespace="",
        name=question.name,
        outcome="known",
        mine=True,
        node=question.name,
        problems=[*(inventory.problems if inventory else ()), *load_problems(cluster, node)],
        facts={name: text for name, text in facts.items() if text},
        pods=_named({claim.name: _held(claim) for claim in claims}),
    )


def _held(claim: Claim) -> str:
    amounts = [f"{name} {format_amount(name, amount)}" for name, amount in claim.amounts.items()]
    plain = [text for text, name in zip(amounts, claim.amounts, strict=True) if name not in DEVICE_NAMES]
    state = "bound" if claim.is_bound else "decided"
    called = {CPU: "CPUs of its own", ZONE: "shares of NUMA nodes"}
    granted = dict.fromkeys(called.get(grant.kind, "devices") for grant in claim.grants)
    return ", ".join([state, *plain, *granted])


def _named(pods: Mapping[Name, str]) -> dict[str, str]:
    return {text_of(name): text for name, text in islice(pods.items(), PODS_MAX)}


def _unknown(question: WhyQuestion, message: str) -> WhyAnswer:
    return WhyAnswer(
        kind=question.kind, namespace=question.namespace, name=question.name, outcome="unknown", message=message
    )


OTHERS: Mapping[str, Callable[[ClusterView, WhyQuestion], WhyAnswer]] = {
    "gang": of_gang,
    "quota": of_quota,
    "node": of_node,
}
