"""Gangs in the network: from the layers and labels of the cluster to one domain, and the status that shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.corner import Corner
from tests.e2e.objects import NETWORKS, NODES, Json
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.contracts import names

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


async def gang(corner: Corner, name: str, members: int, layer: str) -> list[str]:
    notes = {
        names.ANNOTATION_GANG_NAME: name,
        names.ANNOTATION_GANG_MIN: str(members),
        **asked(layer),
    }
    return [await corner.pod(f"{name}-{at}", {"cpu": "1"}, annotations=notes) for at in range(members)]


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
