"""Gangs in the network: from the layers and labels of the cluster to one domain, and the status that shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.corner import Corner
from tests.e2e.objects import NETWORKS, NODES, PODS, Json
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.cli.commands.gang import ask_gangs
from berth.contracts import names
from berth.contracts.gang_question import GangQuestion

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

SPINE, BLOCK = "test.berth.sh/spine", "test.berth.sh/block"
LAYERS = [
    {"topologyLayer": "Spine", "labelKey": [SPINE]},
    {"topologyLayer": "Block", "parentTopologyLayer": "Spine", "labelKey": [BLOCK]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Block"},
]


def asked(layer: str) -> dict[str, str]:
    spec = {"gatherStrategy": [{"layer": layer, "strategy": "MustGather"}]}
    return {names.ANNOTATION_GANG_TOPOLOGY: json.dumps(spec)}


async def network(corner: Corner) -> None:
    manifest = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": LAYERS},
    }
    await corner.create(NETWORKS, manifest)


async def gang(corner: Corner, name: str, members: int, layer: str, **spec: Any) -> list[str]:
    notes = {
        names.ANNOTATION_GANG_NAME: name,
        names.ANNOTATION_GANG_MIN: str(members),
        **asked(layer),
    }
    return [await corner.pod(f"{name}-{at}", {"cpu": "1"}, annotations=notes, **spec) for at in range(members)]


async def test_a_gang_goes_into_one_domain_and_the_status_shows_it(whole: Whole, corner: Corner) -> None:
    for name, spine, block in (("a", "s1", "b1"), ("b", "s1", "b2"), ("c", "s2", "b3"), ("d", "s2", "b3")):
        await corner.node(name, cpu="1", labels={SPINE: spine, BLOCK: block})
    members = await gang(corner, "near", 2, "Block")
    await corner.refused(members[0], "no cluster network topology")
    await network(corner)
    placed = await corner.bound(*members)
    assert {pod["spec"]["nodeName"].rpartition("-")[2] for pod in placed} == {"c", "d"}

    async def shown() -> bool:
        found: Json = await whole.call("GET", f"{NETWORKS}/default")
        listed: list[Any] = (found.get("status") or {}).get("detailStatus") or []
        counts = {each["topologyInfo"]["topologyName"]: each["nodeNum"] for each in listed}
        return counts.get("b3") == 2 and counts.get("s1") == 2

    await until(shown, "the domains in the status")
    late = await gang(corner, "wide", 2, "Block")
    await corner.refused(late[1], "can accommodate job")
    node = f"{corner.namespace}-b"
    await whole.patch(f"{NODES}/{node}", {"metadata": {"labels": {BLOCK: "b1"}}})
    await corner.bound(*late)


async def test_a_layer_that_is_none_is_refused_by_its_field(corner: Corner) -> None:
    await corner.node("a", cpu="2")
    await network(corner)
    members = await gang(corner, "odd", 2, "Rack")
    await corner.refused(members[0], "gatherStrategy[0].layer")


async def test_others_leave_for_a_gang_in_the_one_domain_that_takes_it(whole: Whole, corner: Corner) -> None:
    for name, spine, block in (("a", "s1", "b1"), ("b", "s1", "b2"), ("c", "s2", "b3"), ("d", "s2", "b3")):
        await corner.node(name, cpu="1", labels={SPINE: spine, BLOCK: block})
    await network(corner)
    high = f"{corner.namespace}-high"
    manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": high}}
    await corner.create("/apis/scheduling.k8s.io/v1/priorityclasses", {**manifest, "value": 1_000})
    lows = []
    for at in range(4):
        pod = corner.manifest(f"low-{at}", {"cpu": "1"})
        pod["metadata"]["finalizers"] = ["example.com/hold"]
        await corner.create(PODS.format(corner.namespace), pod)
        lows.append(f"low-{at}")
    on = {pod["metadata"]["name"]: pod["spec"]["nodeName"][-1] for pod in await corner.bound(*lows)}
    members = await gang(corner, "near", 2, "Block", priorityClassName=high)

    async def leaving() -> list[str]:
        items = await whole.items(PODS.format(corner.namespace))
        found = [pod["metadata"]["name"] for pod in items if pod["metadata"].get("deletionTimestamp")]
        return found if len(found) == 2 else []

    await until(leaving, "two that are being deleted")
    victims = await leaving()
    assert {on[name] for name in victims} == {"c", "d"}
    answer = await ask_gangs(whole.bus, GangQuestion(namespace=corner.namespace, name="near"))
    assert answer is not None
    (view,) = answer.gangs
    assert sorted(view.victims) == sorted(f"{corner.namespace}/{name}" for name in victims)
    assert {node[-1] for node in view.nominated.values()} == {"c", "d"}
    for name in victims:
        await corner.delete_pod(name)
    for name in lows:
        await whole.patch(f"{PODS.format(corner.namespace)}/{name}", {"metadata": {"finalizers": None}})
    placed = await corner.bound(*members)
    assert {pod["spec"]["nodeName"][-1] for pod in placed} == {"c", "d"}
