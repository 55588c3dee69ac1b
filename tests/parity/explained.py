"""Differences that are meant: a rule for each, and in docs/parity.md why it is so.

A rule matches as little as it can. What no rule matches is an error of one side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Final, NamedTuple

from tests.parity.comparing import Difference
from tests.parity.generator import host_port
from tests.parity.world import Identity, Manifest, Trace, identity

OF_RESOURCES: Final = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")
"""The plugins that rate what is free."""


class Rule(NamedTuple):
    """`name` is the row of docs/parity.md."""

    name: str
    matches: Callable[[Difference, Trace], bool]


def _nodes_of(difference: Difference) -> set[str]:
    """Where either of them makes somebody leave."""
    nodes = {difference.outcome.nominated, *(each.node for each in difference.answer.choices)}
    return nodes - {""}


def _pods(difference: Difference, trace: Trace) -> list[Manifest]:
    """The pods as they are when the pod of the difference is decided."""
    pods: dict[Identity, Manifest | None] = {identity(each): each for each in trace.objects}
    for step in trace.steps:
        if identity(step.pod) == identity(difference.pod):
            break
        pods.update(step.after)
    return [each for each in pods.values() if each and each["kind"] == "Pod"]


def _bound(difference: Difference, trace: Trace) -> list[Manifest]:
    return [each for each in _pods(difference, trace) if each["spec"].get("nodeName")]


def _is_of_equal_importance(difference: Difference, trace: Trace) -> bool:
    """On a node from which some have to leave, two lower pods have one priority and one start."""
    mine = difference.pod["spec"].get("priority", 0)
    found: Counter[Hashable] = Counter(
        (pod["spec"]["nodeName"], pod["spec"].get("priority", 0), pod.get("status", {}).get("startTime"))
        for pod in _bound(difference, trace)
        if pod["spec"].get("priority", 0) < mine and pod["spec"]["nodeName"] in _nodes_of(difference)
    )
    return difference.kind == "victims" and any(count > 1 for count in found.values())


def _has_port_twice(difference: Difference, trace: Trace) -> bool:
    """Two pods of a node have the same host port, and preemption is what differs."""
    found: Counter[Hashable] = Counter(
        each for pod in _bound(difference, trace) for each in {(pod["spec"]["nodeName"], *port) for port in _ports(pod)}
    )
    if difference.kind == "verdict":
        return _is_freed_with_another(difference, trace)
    return difference.kind in ("victims", "preemption") and any(count > 1 for count in found.values())


def _is_freed_with_another(difference: Difference, trace: Trace) -> bool:
    """A pod has left the node of kube-scheduler's choice, and one that is there still has a host port of it."""
    node = difference.outcome.node
    there = {identity(each): set(_ports(each)) for each in _bound(difference, trace) if _node_of(each) == node}
    before = (each for each in trace.objects if each["kind"] == "Pod" and _node_of(each) == node)
    left = {port for each in before if identity(each) not in there for port in _ports(each)}
    wanted = {port[:2] for port in _ports(difference.pod)}
    return any(port in left and port[:2] in wanted for ports in there.values() for port in ports)


def _node_of(pod: Manifest) -> str:
    return pod["spec"].get("nodeName") or ""


def _spreads_without_leaving(difference: Difference, trace: Trace) -> bool:
    """The pod spreads over domains, and a lower pod of its namespace, on a node in question, is leaving already."""
    spec = difference.pod["spec"]
    is_hard = any(each["whenUnsatisfiable"] == "DoNotSchedule" for each in spec.get("topologySpreadConstraints", ()))
    leaving = (
        pod
        for pod in _bound(difference, trace)
        if "deletionTimestamp" in pod["metadata"]
        and pod["metadata"]["namespace"] == difference.pod["metadata"]["namespace"]
        and pod["spec"].get("priority", 0) < spec.get("priority", 0)
        and (difference.kind == "preemption" or pod["spec"]["nodeName"] in _nodes_of(difference))
    )
    return difference.kind in ("victims", "preemption") and is_hard and any(leaving)


def _ports(pod: Manifest) -> Iterator[tuple[str, int, str]]:
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        yield from (host_port(each) for each in container.get("ports", ()) if each.get("hostPort"))


def _asks_nominated_node_as_well(difference: Difference, _: Trace) -> bool:
    """The pod comes with a nominated node, and some constraint names the nodes that are worth a try."""
    is_nominated = bool(difference.pod.get("status", {}).get("nominatedNodeName"))
    return is_nominated and difference.kind == "reasons" and "didn't satisfy plugin(s)" in difference.theirs


def _is_rated_beside_nominated(difference: Difference, trace: Trace) -> bool:
    """What is free is rated otherwise where pods of equal or higher priority are nominated, and nowhere else."""
    theirs, ours = difference.outcome.scores, difference.answer.scores
    if difference.kind not in ("scores", "node") or not theirs:
        return False
    mine = difference.pod["spec"].get("priority", 0)
    held = {
        pod.get("status", {}).get("nominatedNodeName")
        for pod in _pods(difference, trace)
        if not pod["spec"].get("nodeName") and pod["spec"].get("priority", 0) >= mine
    }
    other = {
        (plugin, node)
        for node in theirs
        for plugin in {*theirs[node], *ours.get(node, {})}
        if theirs[node].get(plugin, 0) != ours.get(node, {}).get(plugin, 0)
    }
    return bool(other) and all(plugin in OF_RESOURCES and node in held for plugin, node in other)


WAITS_FOR_LEAVING: Final = "not eligible due to a terminating pod on the nominated node"


def _holds_for_nobody(difference: Difference, trace: Trace) -> bool:
    """An earlier pod, for which nobody may leave, or nobody else, waits with a nomination that it came with."""
    for step in trace.steps:
        if identity(step.pod) == identity(difference.pod):
            break
        is_never = step.pod["spec"].get("preemptionPolicy") == "Never"
        came_with = step.pod.get("status", {}).get("nominatedNodeName", "")
        waits = bool(came_with) and WAITS_FOR_LEAVING in step.outcome.message
        if (is_never or waits) and step.outcome.verdict == "unschedulable" and step.outcome.nominated:
            return True
    return False


RULES: Final[tuple[Rule, ...]] = (
    Rule("victims of equal importance", _is_of_equal_importance),
    Rule("a host port that two pods have", _has_port_twice),
    Rule("a victim that leaves already, and spread", _spreads_without_leaving),
    Rule("a nominated node that is not worth a try", _asks_nominated_node_as_well),
    Rule("a nomination that its pod could not have", _holds_for_nobody),
    Rule("scores beside a nominated pod", _is_rated_beside_nominated),
)


def explanation(difference: Difference, trace: Trace) -> str:
    """The name of the rule that explains a difference; empty: none does."""
    return next((rule.name for rule in RULES if rule.matches(difference, trace)), "")
