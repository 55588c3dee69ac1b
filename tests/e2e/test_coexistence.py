"""Berth is not alone: pods of other schedulers, pods that nobody schedules, gates, nodes that come and go."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from tests.e2e.clusters import Cluster
from tests.e2e.corner import KOORD_SCHEDULER, Corner
from tests.e2e.objects import DEVICES, NODES, PODS, Json, devices_of, note
from tests.e2e.recount import over_capacity
from tests.e2e.standing import standing
from tests.e2e.whole import Whole, run_whole

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

OTHER = "default-scheduler"
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def cluster(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standing(kind, tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(cluster: Cluster) -> AsyncIterator[Whole]:
    async with run_whole(cluster) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def corner(whole: Whole) -> AsyncIterator[Corner]:
    async with whole.corner() as made:
        yield made


async def check_capacity(whole: Whole) -> None:
    """Nothing is given out beyond what there is."""
    pods = await whole.items("/api/v1/pods")
    assert over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods) == []


def grants(*minors: int, percent: int = 100) -> str:
    """The annotation of a pod that holds these GPUs, or this much of each."""
    memory = f"{16 * percent // 100}Gi"
    held = {names.GPU_CORE: str(percent), names.GPU_MEMORY_RATIO: str(percent), names.GPU_MEMORY: memory}
    return json.dumps({"gpu": [{"minor": minor, "resources": held} for minor in minors]})


async def bind(corner: Corner, pod: str, node: str, annotations: Json | None = None) -> None:
    """Bind a pod as its own scheduler would."""
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "annotations": annotations or {}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await corner.whole.call("POST", f"{PODS.format(corner.namespace)}/{pod}/binding", binding, user=KOORD_SCHEDULER)


async def theirs(corner: Corner, name: str, node: str, requests: Json, annotations: Json | None = None) -> None:
    """A pod of another scheduler, bound; Berth has seen it when this returns."""
    await corner.pod(name, requests, scheduler=OTHER)
    await bind(corner, name, node, annotations)
    await corner.whole.until_in_state(corner.namespace, name)


def minors(pod: Json) -> list[int]:
    return sorted(grant["minor"] for grant in devices_of(pod))


# --- pods of other schedulers ----------------------------------------------------------------------------------------


async def test_a_pod_of_another_scheduler_is_counted_and_left_alone(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="4")
    await corner.pod("waiting", {"cpu": "1"}, scheduler=OTHER)
    await theirs(corner, "running", node, {"cpu": "3"})
    await corner.bound(await corner.pod("small", {"cpu": "1"}))
    await corner.pod("late", {"cpu": "1"})
    await corner.refused("late", "Insufficient cpu")
    assert (await whole.why(corner.namespace, "waiting")).outcome == "foreign"
    waiting = await corner.see("waiting")
    assert not waiting["spec"].get("nodeName")
    assert not waiting.get("status", {}).get("conditions")
    await corner.delete_pod("running")
    await corner.bound("late")
    await check_capacity(whole)


async def test_the_gpus_that_another_schedulers_pod_holds_are_taken(whole: Whole, corner: Corner) -> None:
    node = await corner.node("g", gpus=3)
    await corner.until_counted(node, 3)
    held = {names.ANNOTATION_DEVICE_ALLOCATED: grants(0)}
    await theirs(corner, "whole", node, {"koordinator.sh/gpu": "100"}, held)
    half = {names.ANNOTATION_DEVICE_ALLOCATED: grants(1, percent=50)}
    await theirs(corner, "half", node, {"koordinator.sh/gpu": "50"}, half)
    (pod,) = await corner.bound(await corner.pod("one", {"nvidia.com/gpu": "1"}))
    assert minors(pod) == [2]
    (pod,) = await corner.bound(await corner.pod("rest", {"koordinator.sh/gpu": "50"}))
    assert minors(pod) == [1]
    await corner.pod("more", {"koordinator.sh/gpu": "10"})
    await corner.refused("more", "Insufficient")
    await corner.delete_pod("whole")
    (pod,) = await corner.bound("more")
    assert minors(pod) == [0]
    await check_capacity(whole)


async def test_where_somebody_holds_gpus_that_nobody_named_no_gpu_is_given(corner: Corner) -> None:
    node = await corner.node("g", gpus=2)
    await corner.until_counted(node, 2)
    await theirs(corner, "plugin", node, {"nvidia.com/gpu": "1"})
    await corner.pod("p", {"nvidia.com/gpu": "1"})
    await corner.refused("p", "nodes are available")
    await corner.bound(await corner.pod("plain", {"cpu": "1"}))
    await corner.delete_pod("plugin")
    await corner.bound("p")


# --- pods that nobody schedules, or that know their node -------------------------------------------------------------


async def test_static_pods_are_counted(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="2", pods="3")
    uid = (await whole.call("GET", f"{NODES}/{node}"))["metadata"]["uid"]
    manifest = corner.manifest("mirror", {"cpu": "1500m"}, scheduler=OTHER, nodeName=node)
    manifest["metadata"]["annotations"] = {
        "kubernetes.io/config.mirror": "0123",
        "kubernetes.io/config.hash": "0123",
        "kubernetes.io/config.source": "file",
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    manifest["metadata"]["ownerReferences"] = [owner]
    await whole.call("POST", PODS.format(corner.namespace), manifest)
    await whole.until_in_state(corner.namespace, "mirror")
    await corner.bound(await corner.pod("fits", {"cpu": "500m"}))
    await corner.pod("not", {"cpu": "100m"})
    await corner.refused("not", "Insufficient cpu")
    await check_capacity(whole)


def for_node(node: str) -> Json:
    """The affinity that a DaemonSet gives the pod of a node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


async def test_daemon_pods_go_to_their_node_even_when_it_is_cordoned(whole: Whole, corner: Corner) -> None:
    nodes = [await corner.node(name, cpu="2") for name in ("a", "b")]
    await whole.patch(f"{NODES}/{nodes[1]}", {"spec": {"unschedulable": True}})
    for node, name in zip(nodes, ("on-a", "on-b"), strict=True):
        await corner.pod(name, {"cpu": "1"}, affinity=for_node(node), tolerations=[UNSCHEDULABLE])
    await corner.pod("other", {"cpu": "1"}, scheduler=OTHER, affinity=for_node(nodes[0]))
    await bind(corner, "other", nodes[0])
    placed = await corner.bound("on-b")
    assert placed[0]["spec"]["nodeName"] == nodes[1]
    await whole.until_in_state(corner.namespace, "other")
    (pod,) = await corner.bound("on-a")
    assert pod["spec"]["nodeName"] == nodes[0]
    await corner.pod("late", {"cpu": "1"})
    said = await corner.refused("late", "unschedulable")
    assert "Insufficient cpu" in said
    await check_capacity(whole)


# --- scheduling gates ------------------------------------------------------------------------------------------------


async def open_gates(corner: Corner, name: str) -> None:
    await corner.whole.patch(f"{PODS.format(corner.namespace)}/{name}", {"spec": {"schedulingGates": None}})


async def test_a_gated_pod_waits_for_its_gates_and_holds_nothing(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="2")
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    await corner.pod("gated", {"cpu": "2"}, schedulingGates=gates)
    await whole.until_in_state(corner.namespace, "gated")
    await corner.bound(await corner.pod("first", {"cpu": "1"}))
    told = await whole.why(corner.namespace, "gated")
    assert told.outcome == "waiting"
    assert "example.com/a, example.com/b" in told.message
    one = {"spec": {"schedulingGates": gates[:1]}}
    await whole.patch(f"{PODS.format(corner.namespace)}/gated", one)
    await corner.bound(await corner.pod("second", {"cpu": "500m"}))
    assert not (await corner.see("gated"))["spec"].get("nodeName")
    await open_gates(corner, "gated")
    await corner.refused("gated", "Insufficient cpu")
    for name in ("first", "second"):
        await corner.delete_pod(name)
    await corner.bound("gated")


async def test_a_gang_waits_for_its_gated_member(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="4")
    notes = {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "2"}
    await corner.pod("m0", {"cpu": "1"}, annotations=notes)
    await corner.pod("m1", {"cpu": "1"}, annotations=notes, schedulingGates=[{"name": "example.com/a"}])
    await whole.until_in_state(corner.namespace, "m0", "m1")
    await corner.placed_now()
    assert not (await corner.see("m0"))["spec"].get("nodeName")
    await open_gates(corner, "m1")
    placed = await corner.bound("m0", "m1")
    assert len({note(pod, names.ANNOTATION_PLAN) for pod in placed}) == 1


# --- nodes that change under a decision ------------------------------------------------------------------------------


async def until_changed(whole: Whole, corner: Corner) -> None:
    """Return when the solver has seen what was written before: a later pod has been decided on."""
    await corner.pod("later", {"cpu": "10m"})
    await corner.decided("later")


async def test_a_node_that_goes_between_decision_and_bind_gets_no_pod(whole: Whole, corner: Corner) -> None:
    nodes = {name: await corner.node(name, cpu="2") for name in ("a", "b", "c")}
    await corner.placed_now()
    async with whole.paused("cluster-writer"):
        await corner.pod("p", {"cpu": "2"})
        chosen = await corner.decided("p")
        await corner.drop_node(chosen)
        await until_changed(whole, corner)
    (pod,) = await corner.bound("p", timeout_s=60)
    assert pod["spec"]["nodeName"] in set(nodes.values()) - {chosen}
    assert note(pod, names.ANNOTATION_ATTEMPT) == "1"
    await corner.bound("later")
    await check_capacity(whole)


@pytest.mark.parametrize(
    "spec",
    [{"unschedulable": True}, {"taints": [{"key": "broken", "effect": "NoExecute"}]}],
    ids=["cordoned", "tainted"],
)
async def test_a_node_that_is_closed_keeps_its_pods_and_gets_no_more(whole: Whole, corner: Corner, spec: Json) -> None:
    node = await corner.node("n", cpu="2")
    await corner.bound(await corner.pod("old", {"cpu": "1"}))
    await whole.patch(f"{NODES}/{node}", {"spec": spec})
    await corner.pod("new", {"cpu": "1"})
    await corner.refused("new", "unschedulable" if "unschedulable" in spec else "untolerated taint(s)")
    assert (await corner.see("old"))["spec"]["nodeName"] == node
    await whole.patch(f"{NODES}/{node}", {"spec": dict.fromkeys(spec)})
    await corner.bound("new")
    await corner.pod("late", {"cpu": "1"})
    await corner.refused("late", "Insufficient cpu")
    await check_capacity(whole)


async def test_a_node_that_comes_back_still_holds_its_pods(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="2", gpus=2)
    await corner.until_counted(node, 2)
    await corner.bound(await corner.pod("old", {"cpu": "1", "nvidia.com/gpu": "1"}))
    await corner.drop_node(node)
    await corner.pod("new", {"cpu": "1"})
    await corner.refused("new", "no nodes available to schedule pods")
    path = f"{DEVICES}/{node}"
    await whole.try_call("DELETE", path)
    assert await corner.node("n", cpu="2", gpus=2) == node
    await corner.bound("new")
    await corner.until_counted(node, 2)
    await corner.pod("late", {"cpu": "1"})
    await corner.refused("late", "Insufficient cpu")
    (pod,) = await corner.bound(await corner.pod("gpu", {"cpu": "0", "nvidia.com/gpu": "1"}))
    assert minors(pod) != minors(await corner.see("old"))
    await check_capacity(whole)
