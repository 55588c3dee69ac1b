"""Berth comes to a cluster that is in use, comes back to it, and takes over from Koordinator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.e2e.clusters import Cluster
from tests.e2e.corner import KOORD_SCHEDULER, Corner
from tests.e2e.objects import DEVICES, NODES, POD_GROUPS, PODS, RESERVATIONS, Json, devices_of, note
from tests.e2e.recount import broken_gangs, over_capacity
from tests.e2e.standing import standing
from tests.e2e.waiting import until
from tests.e2e.whole import Whole, run_whole

from berth.contracts import names

pytestmark = pytest.mark.e2e

KOORDINATOR = "koord-scheduler"
BOTH = {"BERTH_SCHEDULER_NAMES": f"{names.SCHEDULER_NAME},{KOORDINATOR}"}
NO_SERVICES = {"BERTH_SCHEDULER_NAMES": "nobody-asks-for-this"}
GPU = "nvidia.com/gpu"


@pytest.fixture
def cluster(kind: str, tmp_path: Path) -> Iterator[Cluster]:
    with standing(kind, tmp_path) as running:
        yield running


@asynccontextmanager
async def berth(cluster: Cluster, environment: Json | None = None) -> AsyncIterator[tuple[Whole, Corner]]:
    """Berth, with a bus that knows nothing, and one corner that outlives it."""
    async with run_whole(cluster, environment=environment) as whole:
        yield whole, Corner(whole, "tenant")


async def create_namespace(whole: Whole) -> None:
    await whole.call(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}
    )


async def check(whole: Whole) -> None:
    """Nothing is given out beyond what there is, and gangs are whole."""
    pods = await whole.items("/api/v1/pods")
    assert over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods) == []
    assert broken_gangs(pods, await whole.items(POD_GROUPS.format("tenant"))) == {}


async def bind(corner: Corner, pod: str, node: str, annotations: Json) -> None:
    """Bind a pod as another scheduler would that writes what the protocol asks for."""
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await corner.whole.call("POST", f"{PODS.format(corner.namespace)}/{pod}/binding", binding, user=KOORD_SCHEDULER)


def allocated(*minors: int) -> Json:
    """The annotation of a pod that holds these GPUs."""
    amounts = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100", names.GPU_MEMORY: "16Gi"}
    grants = [{"minor": minor, "resources": amounts} for minor in minors]
    return {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": grants})}


def minors(pod: Json) -> set[int]:
    return {grant["minor"] for grant in devices_of(pod)}


def where(pods: list[Json]) -> dict[str, tuple[str, str]]:
    """Node and devices of each pod, which must never change once they are set."""
    told = {pod["metadata"]["name"]: note(pod, names.ANNOTATION_DEVICE_ALLOCATED) for pod in pods}
    return {pod["metadata"]["name"]: (pod["spec"]["nodeName"], told[pod["metadata"]["name"]]) for pod in pods}


async def test_everything_starts_again_with_pods_running(cluster: Cluster) -> None:
    """Processes, bus and all that it knew are gone; what runs stays, what waits is placed, what is free is right."""
    async with berth(cluster) as (whole, corner):
        await create_namespace(whole)
        await corner.node("a", cpu="8", gpus=4)
        quota = await corner.quota("q", {"cpu": "2"}, {"cpu": "2"})
        notes = {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "2"}
        running = [await corner.pod(f"m{i}", {"cpu": "1", GPU: "1"}, annotations=notes) for i in range(2)]
        running.append(await corner.pod("half", {"cpu": "500m", "koordinator.sh/gpu": "50"}))
        running.append(await corner.pod("paid", {"cpu": "2"}, labels={names.LABEL_QUOTA_NAME: quota}))
        before = where(await corner.bound(*running))
        plans = {name: note(await corner.see(name), names.ANNOTATION_PLAN) for name in running}
        await corner.pod("over", {"cpu": "100m"}, labels={names.LABEL_QUOTA_NAME: quota})
        await corner.refused("over", f"quota {quota}")
        await corner.pod("wide", {"cpu": "100m", GPU: "2"})
        await corner.refused("wide", "nodes are available")
    async with berth(cluster) as (whole, corner):
        rest = {names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50"}
        (other_half,) = await corner.bound(await corner.pod("other-half", {"cpu": "500m", **rest}))
        (last,) = await corner.bound(await corner.pod("last", {"cpu": "500m", GPU: "1"}))
        half = await corner.see("half")
        assert minors(other_half) == minors(half)
        taken = [await corner.see(name) for name in ("m0", "m1", "half", "last")]
        assert sorted(minor for pod in taken for minor in minors(pod)) == [0, 1, 2, 3]
        await corner.refused("over", f"quota {quota}")
        await corner.pod("late", {"cpu": "4"})
        await corner.refused("late", "Insufficient cpu")
        assert where([await corner.see(name) for name in running]) == before
        assert {name: note(await corner.see(name), names.ANNOTATION_PLAN) for name in running} == plans
        await check(whole)
        for name in ("m0", "m1"):
            await corner.delete_pod(name)
        (wide,) = await corner.bound("wide")
        assert minors(wide).isdisjoint(minors(last) | minors(half))
        await corner.delete_pod("paid")
        await corner.bound("over")
        await check(whole)


async def test_berth_comes_to_a_cluster_where_others_run_pods(cluster: Cluster) -> None:
    async with berth(cluster, NO_SERVICES) as (whole, corner):  # to have the cluster in hand; it places nothing
        await create_namespace(whole)
        node = await corner.node("a", cpu="3100m", gpus=2)
        await corner.pod("theirs", {"cpu": "1", GPU: "1"}, scheduler="default-scheduler")
        await bind(corner, "theirs", node, allocated(1))
        await corner.pod("fixed", {"cpu": "1"}, scheduler="default-scheduler", nodeName=node)
        for name in ("early-0", "early-1"):
            await corner.pod(name, {"cpu": "1"})
        await corner.pod("gpu", {"cpu": "100m", GPU: "1"})
    async with berth(cluster) as (whole, corner):
        placed = {pod["metadata"]["name"]: pod for pod in await corner.bound("gpu", timeout_s=60)}
        assert minors(placed["gpu"]) == {0}

        async def settled() -> bool:
            pods = {pod["metadata"]["name"]: pod for pod in await whole.items(PODS.format("tenant"))}
            early = [pods[name] for name in ("early-0", "early-1")]
            return sum(bool(pod["spec"].get("nodeName")) for pod in early) == 1

        await until(settled, "one of two pods to fit beside the others")
        await check(whole)


async def test_a_take_over_from_koordinator(cluster: Cluster) -> None:
    """Its scheduler has been stopped: pods that it has placed run, others wait under its name."""
    async with berth(cluster) as (whole, corner):
        await create_namespace(whole)
        node = await corner.node("a", cpu="8", gpus=4)
        await corner.until_counted(node, 4)
        notes = {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "2"}
        for i in range(2):
            await corner.pod(f"m{i}", {"cpu": "1", GPU: "1"}, annotations=notes, scheduler=KOORDINATOR)
            await bind(corner, f"m{i}", node, allocated(i))
        reserved = await corner.reservation("r", {"cpu": "2", GPU: "1"}, ttl="1h")
        template = (await whole.call("GET", f"{RESERVATIONS}/{reserved}"))["spec"]["template"]
        assert template["spec"]["schedulerName"] == names.SCHEDULER_NAME
        await corner.phase(reserved, "Available")
        waiting = [await corner.pod("whole", {"cpu": "1", GPU: "1"}, scheduler=KOORDINATOR)]
        waiting.append(await corner.pod("owner", {"cpu": "2", GPU: "1"}, labels={"owner": "r"}, scheduler=KOORDINATOR))
        waiting += [
            await corner.pod(
                f"n{i}", {"cpu": "500m"}, annotations={**notes, names.ANNOTATION_GANG_NAME: "h"}, scheduler=KOORDINATOR
            )
            for i in range(2)
        ]
        await whole.until_in_state("tenant", *waiting)
        await corner.placed_now()
        assert {(await whole.why("tenant", name)).outcome for name in waiting} == {"foreign"}
        seen = [await corner.see(name) for name in waiting]
        assert not any(pod["spec"].get("nodeName") for pod in seen)
        before = where([await corner.see(f"m{i}") for i in range(2)])
    async with berth(cluster, BOTH) as (whole, corner):
        placed = {pod["metadata"]["name"]: pod for pod in await corner.bound(*waiting, timeout_s=60)}
        assert where([await corner.see(f"m{i}") for i in range(2)]) == before
        assert reserved in note(placed["owner"], names.ANNOTATION_RESERVATION_ALLOCATED)
        held = [minors(await corner.see(name)) for name in ("m0", "m1", "whole", "owner")]
        assert sorted(minor for each in held for minor in each) == [0, 1, 2, 3]
        assert len({note(placed[f"n{i}"], names.ANNOTATION_PLAN) for i in range(2)}) == 1
        await corner.bound(await corner.pod("own", {"cpu": "1"}))
        await corner.pod("late", {"cpu": "4"}, scheduler=KOORDINATOR)
        await corner.refused("late", "Insufficient cpu")
        await corner.pod("stranger", {"cpu": "100m"}, scheduler="default-scheduler")
        await whole.until_in_state("tenant", "stranger")
        assert (await whole.why("tenant", "stranger")).outcome == "foreign"
        await check(whole)
