"""Where a pod by itself goes, and when: capacity, labels, taints, ports and limits of nodes, priority, and gates."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.objects import NODES, PODS
from tests.e2e.whole import Whole

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]


async def test_pods_go_where_there_is_capacity_and_the_rest_is_told(whole: Whole, corner: Corner) -> None:
    await corner.node("a", cpu="2")
    await corner.node("b", cpu="1")
    pods = [await corner.pod(f"p{i}", {"cpu": "1"}) for i in range(3)]
    spread = Counter(pod["spec"]["nodeName"] for pod in await corner.bound(*pods))
    assert spread == {f"{corner.namespace}-a": 2, f"{corner.namespace}-b": 1}
    await corner.pod("late", {"cpu": "1"})
    said = await corner.refused("late", "Insufficient cpu")
    assert "nodes are available" in said
    await corner.delete_pod("p0")
    await corner.bound("late")
    await check_capacity(whole)


async def test_a_selector_chooses_nodes(corner: Corner) -> None:
    await corner.node("plain")
    right = await corner.node("ssd", labels={"disk": "ssd"})
    await corner.pod("p", nodeSelector={"disk": "ssd"})
    (pod,) = await corner.bound("p")
    assert pod["spec"]["nodeName"] == right
    await corner.pod("q", nodeSelector={"disk": "tape"})
    await corner.refused("q", "didn't match Pod's node affinity/selector")


async def test_node_affinity_requires_and_prefers(corner: Corner) -> None:
    await corner.node("east", labels={"zone": "east", "gen": "1"})
    west = await corner.node("west", labels={"zone": "west", "gen": "3"})

    def affinity(**parts: Any) -> dict[str, Any]:
        return {"nodeAffinity": parts}

    newer = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["2"]}]}]}
    liked = [
        {"weight": 100, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]}}
    ]
    await corner.pod("must", affinity=affinity(requiredDuringSchedulingIgnoredDuringExecution=newer))
    (must,) = await corner.bound("must")
    assert must["spec"]["nodeName"] == west
    # Both nodes are known now: a preference says nothing about a node that is still to come.
    await corner.pod("likes", affinity=affinity(preferredDuringSchedulingIgnoredDuringExecution=liked))
    (likes,) = await corner.bound("likes")
    assert likes["spec"]["nodeName"] == west


async def test_taints_keep_out_who_does_not_tolerate_them(corner: Corner) -> None:
    node = await corner.node("t", taints=[{"key": "team", "value": "red", "effect": "NoSchedule"}])
    await corner.pod("stranger")
    await corner.refused("stranger", "1 node(s) had untolerated taint(s)")
    await corner.pod("friend", tolerations=[{"key": "team", "operator": "Equal", "value": "red"}])
    await corner.bound("friend")
    await corner.whole.patch(f"{NODES}/{node}", {"spec": {"taints": None}})
    await corner.bound("stranger")


async def test_a_cordoned_node_takes_nothing_until_it_is_back(corner: Corner) -> None:
    node = await corner.node("n", unschedulable=True)
    await corner.pod("p")
    await corner.refused("p", "unschedulable")
    await corner.whole.patch(f"{NODES}/{node}", {"spec": {"unschedulable": None}})
    await corner.bound("p")


async def test_a_host_port_is_given_once_per_node(whole: Whole, corner: Corner) -> None:
    await corner.node("a")
    await corner.node("b")
    ports = [{"containerPort": 80, "hostPort": 8080}]
    pods = [await corner.pod(f"p{i}", ports=ports) for i in range(2)]
    placed = await corner.bound(*pods)
    assert len({pod["spec"]["nodeName"] for pod in placed}) == 2
    await corner.pod("third", ports=ports)
    await corner.refused("third", "ports")
    await corner.delete_pod("p1")
    await corner.bound("third")
    await check_capacity(whole)


async def test_the_pod_limit_of_a_node_holds(corner: Corner) -> None:
    await corner.node("n", pods="2")
    await corner.bound(await corner.pod("a"), await corner.pod("b"))
    await corner.pod("c")
    await corner.refused("c", "Too many pods")


async def test_the_higher_priority_goes_first(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="1")
    await corner.placed_now()
    for name, value in (("low", 10), ("high", 1000)):
        manifest = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"{corner.namespace}-{name}"},
            "value": value,
        }
        await corner.create("/apis/scheduling.k8s.io/v1/priorityclasses", manifest)
    async with whole.paused("placement-solver"):
        await corner.pod("a-low", {"cpu": "1"}, priorityClassName=f"{corner.namespace}-low")
        await corner.pod("b-high", {"cpu": "1"}, priorityClassName=f"{corner.namespace}-high")
        await whole.until_in_state(corner.namespace, "a-low", "b-high")
    await corner.bound("b-high")
    await corner.refused("a-low", "Insufficient cpu")


async def test_gates_hold_a_pod_until_they_are_gone(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    await corner.pod("p", schedulingGates=[{"name": "example.com/wait"}])
    await corner.placed_now()
    why = await whole.why(corner.namespace, "p")
    assert why.outcome == "waiting"
    assert "example.com/wait" in why.message
    path = f"{PODS.format(corner.namespace)}/p"
    await whole.patch(path, {"spec": {"schedulingGates": []}})
    await corner.bound("p")
