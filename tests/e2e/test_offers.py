"""What a node lends: from a report of its usage to its status, and to batch pods, on a running control plane."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.clusters import HOME
from tests.e2e.corner import Corner
from tests.e2e.koordlet import METRICS, Koordlet
from tests.e2e.objects import NODES, TOPOLOGIES
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.cli.commands.node import ask_node
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.names import ANNOTATION_NUMA_SPEC, ANNOTATION_ORIGIN_ALLOCATABLE, BATCH_CPU, BATCH_MEMORY
from berth.contracts.node_report import NodeReport, ReportedCore, ReportedZone
from berth.contracts.slo import CONFIG_MAP
from berth.contracts.subjects import named_key

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MAPS = f"/api/v1/namespaces/{HOME}/configmaps"
NAME = CONFIG_MAP.partition("/")[2]
COLOCATION = {"enable": True, "cpuReclaimThresholdPercent": 75, "updateTimeThresholdSeconds": 1}
BE = {"koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-batch"}


async def lends(whole: Whole, node: str, cpu: str | None) -> dict[str, Any]:
    """The node, once its status shows that it lends so much CPU; None: nothing."""

    async def look() -> dict[str, Any] | None:
        found = await whole.call("GET", f"{NODES}/{node}")
        shown = [found["status"][field].get(BATCH_CPU) for field in ("capacity", "allocatable")]
        return found if shown == [cpu, cpu] else None

    return await until(look, f"{node} lends {cpu}")


async def test_a_node_lends_what_others_leave(whole: Whole, corner: Corner) -> None:
    await whole.try_call("POST", "/api/v1/namespaces", {"metadata": {"name": HOME}})
    node = await corner.node("lender")
    koordlet = Koordlet(whole, node)
    await koordlet.start()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": HOME}}
    await whole.call("POST", MAPS, config | {"data": {"colocation-config": json.dumps(COLOCATION)}})
    try:
        await koordlet.report("1")
        await until(lambda: _is_offered(whole), "an offer, of nothing yet")
        await koordlet.report("1")
        shown = await lends(whole, node, "5k")
        origin = json.loads(shown["metadata"]["annotations"][ANNOTATION_ORIGIN_ALLOCATABLE])
        assert origin["resources"][BATCH_CPU] == "5k"

        wanted = {BATCH_CPU: "2000", BATCH_MEMORY: "1Mi"}
        for name in ("one", "two"):
            await corner.pod(name, wanted, labels=BE)
        await corner.bound("one", "two")
        await corner.pod("three", wanted, labels=BE)
        await corner.refused("three", BATCH_CPU)

        # A kubelet that registers anew shows nothing of it.
        zero = {BATCH_CPU: "0", BATCH_MEMORY: "0"}
        await whole.patch(f"{NODES}/{node}/status", {"status": {"capacity": zero, "allocatable": zero}})
        await lends(whole, node, "5k")

        # What is used by others is not lent, at once.
        await koordlet.report("5")
        await lends(whole, node, "1k")
        await whole.call("DELETE", f"{MAPS}/{NAME}")
        await lends(whole, node, None)
    finally:
        await whole.try_call("DELETE", f"{MAPS}/{NAME}")
        await whole.try_call("DELETE", f"{METRICS}/{node}")


async def test_numa_nodes_show_what_they_lend(whole: Whole, corner: Corner) -> None:
    await whole.try_call("POST", "/api/v1/namespaces", {"metadata": {"name": HOME}})
    node = await corner.node("zoned")
    koordlet = Koordlet(whole, node)
    await koordlet.start()
    said = whole.bus.owned(buckets.METRICS, keys="report.>")
    await said.ready()
    cores = [ReportedCore(socket=0, core=core, zone=core // 4, cpus=str(core)) for core in range(8)]
    zones = [ReportedZone(zone=zone, memory=16 << 30) for zone in (0, 1)]
    report = NodeReport(node=node, version=1, parts={"cpus": 1}, cores=cores, zones=zones)
    said.put(named_key("report", node), encode(report))

    async def shown() -> list[str | None] | None:
        status, found = await whole.try_call("GET", f"{TOPOLOGIES}/{node}")
        if status != 200:
            return None
        resources = [{each["name"]: each["available"] for each in zone["resources"]} for zone in found["zones"]]
        return [each.get(BATCH_CPU) for each in resources]

    async def until_shown(*amounts: str | None) -> None:
        async def look() -> bool:
            return await shown() == list(amounts)

        await until(look, f"its topology shows {amounts}")

    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": HOME}}
    try:
        await until_shown(None, None)
        await whole.call("POST", MAPS, config | {"data": {"colocation-config": json.dumps(COLOCATION)}})
        for _ in range(2):
            await koordlet.report("1")
            await until(lambda: _is_offered(whole), "an offer")
        await lends(whole, node, "5k")
        await until_shown("2500", "2500")

        async def counted() -> bool:
            answer = await ask_node(whole.bus, node)
            return answer is not None and [zone.amounts.get(BATCH_CPU) for zone in answer.zones] == [2500, 2500]

        await until(counted, "the solver to count by what its topology shows")
        spec = {ANNOTATION_NUMA_SPEC: json.dumps({"numaTopologyPolicy": "SingleNUMANode"})}
        for name, milli in (("one", 2000), ("two", 2000), ("three", 1000)):
            await corner.pod(name, {BATCH_CPU: str(milli), BATCH_MEMORY: "1Mi"}, labels=BE, annotations=spec)
            if name != "three":
                await corner.bound(name)
        await corner.refused("three", "Unaligned NUMA Hint")
        await whole.call("DELETE", f"{MAPS}/{NAME}")
        await until_shown(None, None)
    finally:
        said.delete(named_key("report", node))
        await said.close()
        await whole.try_call("DELETE", f"{MAPS}/{NAME}")
        await whole.try_call("DELETE", f"{METRICS}/{node}")


async def _is_offered(whole: Whole) -> bool:
    return await whole.counted("slo-manager", "berth_slo_nodes_lending") == 1
