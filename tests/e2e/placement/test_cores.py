"""CPUs of their own and NUMA nodes: what pods are given, what they are told, and that it comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.corner import Corner
from tests.e2e.objects import note

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

LSR = {names.LABEL_QOS: "LSR", names.LABEL_PRIORITY_CLASS: "koord-prod"}
SINGLE = {"annotations": {names.ANNOTATION_NUMA_SPEC: '{"numaTopologyPolicy":"SingleNUMANode"}'}}


def status(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(note(pod, names.ANNOTATION_RESOURCE_STATUS) or "{}")
    return found


async def test_a_pod_of_class_lsr_gets_cpus_that_nobody_else_gets(corner: Corner) -> None:
    await corner.node("n", cpu="64")
    await corner.topology("n")
    await corner.pod("a", {"cpu": "4"}, labels=LSR)
    (first,) = await corner.bound("a")
    await corner.pod("b", {"cpu": "10"}, labels=LSR)
    (second,) = await corner.bound("b")
    assert status(first)["cpuset"] == "0-3"
    assert status(second)["cpuset"] == "4-5,8-15"
    await corner.pod("c", {"cpu": "4"}, labels=LSR)
    told = await corner.refused("c", "not enough cpus available to satisfy request")
    assert "To repair: have " in told
    await corner.delete_pod("a")
    (third,) = await corner.bound("c")
    assert status(third)["cpuset"] == "0-3"


async def test_a_pod_on_a_single_numa_node(corner: Corner) -> None:
    await corner.node("n", cpu="16")
    await corner.topology("n")
    for name in "ab":
        await corner.pod(name, {"cpu": "6", "memory": "8Gi"}, labels=LSR, **SINGLE)
        await corner.bound(name)
    found = [status(pod) for pod in await corner.bound("a", "b")]
    assert [each["numaNodeResources"] for each in found] == [
        [{"node": zone, "resources": {"cpu": "6", "memory": "8Gi"}}] for zone in (0, 1)
    ]
    await corner.pod("c", {"cpu": "3"}, **SINGLE)
    await corner.refused("c", "Unaligned NUMA Hint")
    await corner.placed_now()


async def test_kubelets_numa_policy_holds_for_every_pod(corner: Corner) -> None:
    await corner.node("n", cpu="16")
    await corner.topology("n", policy="SingleNUMANodePodLevel")
    await corner.pod("first", {"cpu": "1"}, labels=LSR)
    await corner.bound("first")  # the solver knows the node's CPUs, and so its policy
    await corner.delete_pod("first")
    await corner.pod("wide", {"cpu": "9"})
    await corner.refused("wide", "Unaligned NUMA Hint")
    await corner.pod("small", {"cpu": "8"})
    (pod,) = await corner.bound("small")
    assert [each["node"] for each in status(pod)["numaNodeResources"]] == [0]
