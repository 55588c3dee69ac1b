"""From the ConfigMap of strategies to the bus and to NodeSLO objects, on a running control plane."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.e2e.clusters import HOME
from tests.e2e.corner import Corner
from tests.e2e.objects import NODES
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.contracts import buckets, names
from berth.contracts.codec import decode
from berth.contracts.slo import CONFIG_MAP, NodeSLO
from berth.contracts.subjects import named_key
from berth.testing.views import View

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MAPS = f"/api/v1/namespaces/{HOME}/configmaps"
NAME = CONFIG_MAP.partition("/")[2]
OBJECTS = "/apis/slo.koordinator.sh/v1alpha1/nodeslos"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
KEY = "resource-threshold-config"
POOL = {"name": "batch", "nodeSelector": {"matchLabels": {"pool": "batch"}}, "cpuSuppressThresholdPercent": 90}


async def told(whole: Whole, node: str, percent: int | None, *, enabled: bool = True) -> NodeSLO | None:
    """What SLO says of a node, once it says this; None for the percentage: nothing."""
    view = View()
    task = asyncio.create_task(whole.bus.follow(buckets.SLO, view, keys=named_key("node", node)).run())

    async def look() -> NodeSLO | bool | None:
        value = view.values.get(named_key("node", node))
        if percent is None:
            return bool(view.ends) and value is None
        found = decode(value, NodeSLO) if value else None
        rule = found.cpu_suppress if found is not None else None
        return found if rule is not None and (rule.enabled, rule.threshold_percent) == (enabled, percent) else None

    try:
        found = await until(look, f"{node} at {percent} %")
        return found if isinstance(found, NodeSLO) else None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def shown(whole: Whole, node: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The NodeSLO object, once it has this spec."""

    async def look() -> dict[str, Any] | None:
        status, found = await whole.try_call("GET", f"{OBJECTS}/{node}")
        return found if status == 200 and found.get("spec") == spec else None

    return await until(look, f"the NodeSLO of {node}")


def config(*nodes: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    text = json.dumps({"clusterStrategy": cluster, "nodeStrategies": nodes})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": HOME}, "data": {KEY: text}}


async def test_a_strategy_reaches_every_node_and_its_object(whole: Whole, corner: Corner) -> None:
    status, _ = await whole.try_call("POST", "/api/v1/namespaces", {"metadata": {"name": HOME}})
    assert status in (201, 409)
    plain = await corner.node("plain")
    batch = await corner.node("batch", labels={"pool": "batch"})
    assert await told(whole, plain, 65, enabled=False), "without a ConfigMap: the protocol's defaults"

    await whole.call("POST", MAPS, config(POOL, enable=True, cpuSuppressMinPercent=5))
    strategy = await told(whole, plain, 65)
    assert strategy is not None
    made = await shown(whole, plain, strategy.spec)
    (owner,) = made["metadata"]["ownerReferences"]
    node = await whole.call("GET", f"{NODES}/{plain}")
    assert (owner["kind"], owner["uid"]) == ("Node", node["metadata"]["uid"])
    pool = await told(whole, batch, 90)
    assert pool is not None
    assert pool.strategies == {"resourceUsedThresholdWithBE": "batch"}
    await shown(whole, batch, pool.spec)

    # A section that is left out goes from the object, too.
    bandwidth = {names.ANNOTATION_NODE_BANDWIDTH: "as much as there is"}
    await whole.patch(f"{NODES}/{plain}", {"metadata": {"annotations": bandwidth}})
    await shown(whole, plain, {name: part for name, part in strategy.spec.items() if name != "systemStrategy"})

    # What cannot be used changes nothing, and is told.
    await whole.patch(f"{MAPS}/{NAME}", {"data": {KEY: '{"clusterStrategy":{"cpuSuppressThresholdPercent":1000}}'}})

    async def refused() -> bool:
        return await whole.counted("slo-manager", "berth_slo_unusable_keys") == 1

    await until(refused, "the unusable key is counted")
    assert await told(whole, plain, 65)

    # Another label, another strategy; a node that goes takes its strategy along.
    await whole.patch(f"{MAPS}/{NAME}", config(POOL, enable=True, cpuSuppressThresholdPercent=40))
    assert await told(whole, plain, 40)
    await whole.patch(f"{NODES}/{batch}", {"metadata": {"labels": {"pool": "other"}}})
    assert await told(whole, batch, 40)
    await corner.drop_node(batch)
    assert await told(whole, batch, None) is None

    await whole.call("DELETE", f"{MAPS}/{NAME}")
    assert await told(whole, plain, 65, enabled=False)


async def test_a_node_is_annotated_with_its_ratios(whole: Whole, corner: Corner) -> None:
    known, unknown = await corner.node("known"), await corner.node("unknown")
    info = json.dumps({"cpuModel": "A", "hyperThreadEnabled": True, "turboEnabled": False})
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": known, "annotations": {"node.koordinator.sh/cpu-basic-info": info}},
        "topologyPolicies": ["None"],
        "zones": [],
    }
    await whole.call("POST", TOPOLOGIES, topology)
    try:
        texts = {
            "cpu-normalization-config": json.dumps(
                {"enable": True, "ratioModel": {"A": {"hyperThreadEnabledRatio": 1.2}}}
            ),
            "resource-amplification-config": json.dumps(
                {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 1.1}}
            ),
        }
        await whole.call("POST", MAPS, config() | {"data": texts})
        amplified = {names.ANNOTATION_AMPLIFICATION_RATIO: '{"cpu":1.80,"memory":1.10}'}
        await annotated(whole, known, {names.ANNOTATION_CPU_NORMALIZATION_RATIO: "1.20"} | amplified)
        await annotated(whole, unknown, {names.ANNOTATION_AMPLIFICATION_RATIO: '{"cpu":1.50,"memory":1.10}'})
        await whole.patch(f"{MAPS}/{NAME}", {"data": {"resource-amplification-config": "{"}})
        await annotated(whole, known, {names.ANNOTATION_CPU_NORMALIZATION_RATIO: "1.20"} | amplified)
        await whole.call("DELETE", f"{MAPS}/{NAME}")
        await annotated(whole, known, {})
        await annotated(whole, unknown, {})
    finally:
        await whole.try_call("DELETE", f"{MAPS}/{NAME}")
        await whole.call("DELETE", f"{TOPOLOGIES}/{known}")


async def annotated(whole: Whole, node: str, ratios: dict[str, str]) -> None:
    """Return once the node shows these ratios and no others."""
    ours = (names.ANNOTATION_CPU_NORMALIZATION_RATIO, names.ANNOTATION_AMPLIFICATION_RATIO)

    async def look() -> bool:
        annotations = (await whole.call("GET", f"{NODES}/{node}"))["metadata"].get("annotations") or {}
        return {name: annotations[name] for name in ours if name in annotations} == ratios

    await until(look, f"{ratios} on {node}")
