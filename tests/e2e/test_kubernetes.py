"""What a Kubernetes API server and Berth do to each other: schemas, status, Events, budgets, and other schedulers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.e2e.corner import Corner
from tests.e2e.ledger_log import LedgerLog, following
from tests.e2e.objects import DEVICES, NODES, POD_GROUPS, PODS, QUOTAS, RESERVATIONS, Json, devices_of, note
from tests.e2e.recount import over_capacity
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.command import EvictionNote, EvictPod

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
EVENTS = "/api/v1/namespaces/{}/events"


async def check_capacity(whole: Whole) -> None:
    """Nothing is given out beyond what there is."""
    pods = await whole.items("/api/v1/pods")
    assert over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods) == []


# --- custom resources ------------------------------------------------------------------------------------------------

SCHEDULING = "scheduling.koordinator.sh/v1alpha1"
SIGS = "scheduling.sigs.k8s.io/v1alpha1"
WRONG = {
    "a list that is a number": (DEVICES, SCHEDULING, "Device", {"devices": 3}, "spec.devices"),
    "a number that is text": (DEVICES, SCHEDULING, "Device", {"devices": [{"minor": "one"}]}, "spec.devices[0].minor"),
    "a quantity that is none": (
        DEVICES,
        SCHEDULING,
        "Device",
        {"devices": [{"type": "gpu", "resources": {names.GPU_CORE: "many"}}]},
        "spec.devices[0].resources",
    ),
    "text for a count": (POD_GROUPS, SIGS, "PodGroup", {"minMember": "four"}, "spec.minMember"),
    "a minimum that is no quantity": (QUOTAS, SIGS, "ElasticQuota", {"min": {"cpu": "x"}}, "spec.min"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_the_server_refuses_by_the_schema(whole: Whole, corner: Corner, what: str) -> None:
    path, version, kind, spec, field = WRONG[what]
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": f"{corner.namespace}-wrong"}, "spec": spec}
    status, answer = await whole.try_call("POST", path.format(corner.namespace), manifest)
    assert status == 422, answer
    assert field in answer["message"]


async def test_the_status_of_a_reservation_is_written_through_its_own_door(whole: Whole, corner: Corner) -> None:
    name = await corner.reservation("r", {"cpu": "100"})
    path = f"{RESERVATIONS}/{name}"
    await whole.patch(path, {"status": {"phase": "Failed"}})
    seen = await whole.patch(f"{path}/status", {"spec": {"ttl": "7h"}, "status": {"nodeName": ""}})
    assert seen["spec"].get("ttl") != "7h"
    assert seen.get("status", {}).get("phase") != "Failed"


# --- what Berth writes -----------------------------------------------------------------------------------------------


async def test_the_sums_of_devices_are_in_the_status_of_their_node(whole: Whole, corner: Corner) -> None:
    node = await corner.node("g", gpus=2)
    await corner.until_counted(node, 2)
    seen = await whole.call("GET", f"{NODES}/{node}")
    wanted = {names.GPU_CORE: "200", names.GPU_MEMORY_RATIO: "200", names.GPU_MEMORY: "32Gi"}
    for part in ("allocatable", "capacity"):
        assert {name: seen["status"][part].get(name) for name in wanted} == wanted
        assert seen["status"][part]["cpu"] == "8"


async def test_node_and_annotations_appear_in_one_write(whole: Whole, corner: Corner) -> None:
    await corner.node("g", gpus=1)
    quota = await corner.quota("q", {"cpu": "4"}, {"cpu": "4"})
    first = (await whole.call("GET", PODS.format(corner.namespace)))["metadata"]["resourceVersion"]
    versions: list[Json] = []
    query = f"?watch=true&resourceVersion={first}&timeoutSeconds=60"
    url = f"{whole.cluster.url}{PODS.format(corner.namespace)}{query}"
    async with whole.session.get(url, headers=whole.cluster.headers) as response:
        name = await corner.pod("p", {"koordinator.sh/gpu": "50"}, labels={names.LABEL_QUOTA_NAME: quota})
        async for line in response.content:
            versions.append(json.loads(line)["object"])
            if versions[-1]["spec"].get("nodeName"):
                break
    assert versions[-1]["metadata"]["name"] == name
    for unbound in versions[:-1]:
        assert not devices_of(unbound)
        assert not note(unbound, names.ANNOTATION_PLAN)
    bound = versions[-1]
    (grant,) = devices_of(bound)
    assert grant["minor"] == 0
    assert grant["resources"][names.GPU_CORE] == "50"
    assert note(bound, names.ANNOTATION_QUOTA) == f"/{quota}"
    assert note(bound, names.ANNOTATION_PLAN)
    conditions = {each["type"]: each["status"] for each in bound["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


async def events_of(corner: Corner, pod: str) -> list[Json]:
    """The Events about a pod."""
    selector = f"fieldSelector=involvedObject.name%3D{pod}"
    return await corner.whole.items(f"{EVENTS.format(corner.namespace)}?{selector}")


async def test_events_tell_what_became_of_a_pod(corner: Corner) -> None:
    node = await corner.node("n", cpu="1")
    await corner.pod("fits", {"cpu": "1"})
    await corner.bound("fits")
    await corner.pod("waits", {"cpu": "1"})
    said = await corner.refused("waits", "Insufficient cpu")

    async def failed() -> list[Json]:
        return [each for each in await events_of(corner, "waits") if each["reason"] == "FailedScheduling"]

    found = await until(failed, "the Event of a refusal")
    assert [each["type"] for each in found] == ["Warning"]
    assert said in found[0]["message"] or found[0]["message"] in said
    uid = (await corner.see("waits"))["metadata"]["uid"]
    assert found[0]["involvedObject"]["uid"] == uid

    async def scheduled() -> list[Json]:
        return [each for each in await events_of(corner, "fits") if each["reason"] == "Scheduled"]

    (told,) = await until(scheduled, "the Event of a bind")
    assert node in told["message"]
    assert told["type"] == "Normal"


# --- evictions -------------------------------------------------------------------------------------------------------


async def run_pod(corner: Corner, name: str) -> None:
    """What a kubelet would say of a pod that runs; harmless where something says so already."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    path = f"{PODS.format(corner.namespace)}/{name}/status"
    await corner.whole.call("PATCH", path, {"status": status}, kind="application/strategic-merge-patch+json")


async def evict(corner: Corner, name: str, revision: int = 1) -> None:
    """The command to evict, as a service would send it."""
    pod = await corner.see(name)
    uid = pod["metadata"]["uid"]
    command = EvictPod(
        namespace=corner.namespace,
        name=name,
        uid=uid,
        reason="test",
        node=pod["spec"]["nodeName"],
        revision=revision,
        note=EvictionNote(need="memory", feature="MemoryEvict", accumulator="memory"),
    )
    subject = subjects.command_subject("evict", "pods", corner.namespace, name)
    identity = f"evict-{uid}-{revision}"
    await corner.whole.bus.commands().publish(subject, encode(command), id=identity, type="pod.evict.v1")


async def test_a_budget_stops_an_eviction_until_it_allows_it(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    labels = {"app": "web"}
    await corner.bound(await corner.pod("web", labels=labels))
    await run_pod(corner, "web")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": corner.namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }
    await whole.call("POST", BUDGETS.format(corner.namespace), budget)
    path = f"{BUDGETS.format(corner.namespace)}/web"
    numbers = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    await whole.patch(f"{path}/status", {"status": {**numbers, "expectedPods": 1}})
    tried = 'berth_writer_commands_total{kind="EvictPod",outcome="refused"}'
    before = (await whole.metrics("cluster-writer")).get(tried, 0)
    await evict(corner, "web")

    async def refused() -> bool:
        return (await whole.metrics("cluster-writer")).get(tried, 0) > before

    await until(refused, "an eviction that the budget forbids")
    stays = (await corner.see("web"))["metadata"]
    assert "deletionTimestamp" not in stays
    assert "disruption budget" in json.loads(stays["annotations"][names.ANNOTATION_NODE_EVICTION])["refused"]
    await whole.call("DELETE", path)
    await evict(corner, "web", revision=2)

    async def gone() -> bool:
        status, pod = await whole.try_call("GET", f"{PODS.format(corner.namespace)}/web")
        return status == 404 or "deletionTimestamp" in pod["metadata"]

    await until(gone, "the eviction", timeout_s=60)


async def test_an_eviction_is_for_one_pod_not_for_its_successor(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    await corner.bound(await corner.pod("p"))
    done = 'berth_writer_commands_total{kind="EvictPod",outcome="overtaken"}'
    before = (await whole.metrics("cluster-writer")).get(done, 0)
    async with whole.paused("cluster-writer"):
        await evict(corner, "p")
        await corner.delete_pod("p")
        await corner.pod("p")

    async def overtaken() -> bool:
        return (await whole.metrics("cluster-writer")).get(done, 0) > before

    await until(overtaken, "the eviction to be dropped")
    (pod,) = await corner.bound("p")
    assert "deletionTimestamp" not in pod["metadata"]


# --- another scheduler on the same nodes -----------------------------------------------------------------------------


async def bind_as_other(corner: Corner, pod: str, node: str) -> int:
    """Bind a pod as another scheduler would; the status of the answer."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    status, _ = await corner.whole.try_call("POST", f"{PODS.format(corner.namespace)}/{pod}/binding", binding)
    return status


async def test_what_another_scheduler_binds_first_stays_where_it_is(whole: Whole, corner: Corner) -> None:
    nodes = [await corner.node(name, cpu="4") for name in ("a", "b")]
    await corner.placed_now()
    ours = [f"p{number}" for number in range(4)]
    async with whole.paused("cluster-writer"):
        for name in ours:
            await corner.pod(name, {"cpu": "1"})
        stolen: dict[str, str] = {}
        for name in ours[:2]:
            chosen = await corner.decided(name)
            stolen[name] = next(node for node in nodes if node != chosen)
            assert await bind_as_other(corner, name, stolen[name]) == 201
    placed = {pod["metadata"]["name"]: pod for pod in await corner.bound(*ours)}
    for name, node in stolen.items():
        assert placed[name]["spec"]["nodeName"] == node
        assert not note(placed[name], names.ANNOTATION_PLAN)
    for name in ("t0", "t1"):
        await corner.pod(name, {"cpu": "1"}, scheduler="default-scheduler")
        free = await freest(corner, nodes)
        assert await bind_as_other(corner, name, free) == 201
    await whole.until_in_state(corner.namespace, *ours, "t0", "t1")
    await corner.bound(await corner.pod("q0", {"cpu": "1"}), await corner.pod("q1", {"cpu": "1"}))
    await corner.pod("q2", {"cpu": "1"})
    await corner.refused("q2", "Insufficient cpu")
    await check_capacity(whole)
    await corner.delete_pod("t0")
    await corner.bound("q2")


async def freest(corner: Corner, nodes: list[str]) -> str:
    """The node with the fewest pods."""
    pods = await corner.whole.items(PODS.format(corner.namespace))
    count = {node: sum(pod["spec"].get("nodeName") == node for pod in pods) for node in nodes}
    return min(nodes, key=lambda node: count[node])


async def test_two_schedulers_at_once_bind_each_pod_once(whole: Whole, corner: Corner) -> None:
    nodes = [await corner.node(f"n{number}", cpu="32") for number in range(3)]
    ours = [f"p{number}" for number in range(40)]
    log = LedgerLog()
    won: dict[str, str] = {}

    async def other() -> None:
        """Takes every third of our pods as soon as it is there, and places pods of its own meanwhile."""
        for number, name in enumerate(ours[::3]):
            node = nodes[number % 3]
            status = 404
            while status == 404:
                status = await bind_as_other(corner, name, node)
            if status == 201:
                won[name] = node
            await corner.pod(f"t{number}", {"cpu": "1"}, scheduler="default-scheduler", nodeName=node)

    async def create() -> None:
        for name in ours:
            await corner.pod(name, {"cpu": "1"})

    async with following(whole.bus, log):
        await asyncio.gather(other(), create())
        placed = {pod["metadata"]["name"]: pod for pod in await corner.bound(*ours)}
        for name, pod in placed.items():
            assert bool(note(pod, names.ANNOTATION_PLAN)) is (name not in won)
            if name in won:
                assert pod["spec"]["nodeName"] == won[name]
        uids = {pod["metadata"]["uid"] for pod in placed.values()}
        twice = [key for key, found in log.committed().items() if key[0] in uids and len(found) > 1]
    assert twice == []
    await corner.placed_now()
    await check_capacity(whole)


# --- the server goes away --------------------------------------------------------------------------------------------


async def test_the_server_goes_away_in_the_middle(whole: Whole, corner: Corner) -> None:
    for number in range(3):
        await corner.node(f"n{number}", cpu="20")
    first = [await corner.pod(f"p{number}", {"cpu": "1"}) for number in range(30)]
    log = LedgerLog()
    async with following(whole.bus, log):
        async with whole.cluster.down():
            pass
        await reachable(whole)
        second = [await corner.pod(f"q{number}", {"cpu": "1"}) for number in range(30)]
        placed = await corner.bound(*first, *second, timeout_s=60)
        uids = {pod["metadata"]["uid"] for pod in placed}
        twice = [key for key, found in log.committed().items() if key[0] in uids and len(found) > 1]
    assert twice == []
    await corner.pod("late", {"cpu": "1"})
    await corner.refused("late", "Insufficient cpu")
    await check_capacity(whole)
    await corner.delete_pod("p0")
    await corner.bound("late")


async def reachable(whole: Whole) -> None:
    """Return once the server answers again."""

    async def look() -> bool:
        try:
            return bool(await whole.call("GET", "/version"))
        except (aiohttp.ClientError, TimeoutError, AssertionError, msgspec.MsgspecError):
            return False

    await until(look, "the API server")


async def test_a_history_that_is_gone_is_listed_again(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="2")
    await corner.bound(await corner.pod("old", {"cpu": "2"}))
    async with whole.paused("cluster-watcher"):
        await corner.delete_pod("old")
        for number in range(20):
            await whole.patch(f"{NODES}/{node}", {"metadata": {"labels": {"turn": str(number)}}})
        await corner.pod("new", {"cpu": "2"}, nodeSelector={"turn": "19"})
        await whole.cluster.forget(whole.session)
        await reachable(whole)
    await corner.bound("new", timeout_s=60)
    await corner.pod("late", {"cpu": "2"})
    await corner.refused("late", "Insufficient cpu")
    await check_capacity(whole)


async def test_everything_at_once_on_one_server(whole: Whole, corner: Corner) -> None:
    """Singles, a gang, shared GPUs, a quota and a reservation, all pending together; within the rights of `k8s/`."""
    before = await whole.forbidden()
    await corner.node("a", cpu="8", gpus=2)
    await corner.node("b", cpu="8", gpus=2)
    quota = await corner.quota("q", {"cpu": "2"}, {"cpu": "2"})
    kept = await corner.reservation("r", {"cpu": "2"}, ttl="1h")
    await corner.phase(kept, "Available")
    notes = {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "3"}
    wanted = [await corner.pod(f"m{i}", {"cpu": "1", "nvidia.com/gpu": "1"}, annotations=notes) for i in range(3)]
    wanted += [await corner.pod(f"h{i}", {"cpu": "500m", "koordinator.sh/gpu": "50"}) for i in range(2)]
    wanted += [await corner.pod(f"q{i}", {"cpu": "1"}, labels={names.LABEL_QUOTA_NAME: quota}) for i in range(2)]
    wanted.append(await corner.pod("owner", {"cpu": "2"}, labels={"owner": "r"}))
    placed: dict[str, Any] = {pod["metadata"]["name"]: pod for pod in await corner.bound(*wanted)}
    await corner.pod("over", {"cpu": "1"}, labels={names.LABEL_QUOTA_NAME: quota})
    await corner.refused("over", f"quota {quota}")
    assert len({note(placed[f"m{i}"], names.ANNOTATION_PLAN) for i in range(3)}) == 1
    assert devices_of(placed["h0"])[0]["minor"] == devices_of(placed["h1"])[0]["minor"]
    assert kept in note(placed["owner"], names.ANNOTATION_RESERVATION_ALLOCATED)
    await check_capacity(whole)
    assert await whole.forbidden() == before
