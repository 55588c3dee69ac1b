"""What users see of placement, through the API server alone: where pods go, what is written onto them, and why not."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.clusters import cluster_of
from tests.e2e.recount import over_capacity
from tests.e2e.whole import (
    DEVICES,
    NODES,
    POD_GROUPS,
    PODS,
    QUOTAS,
    Corner,
    LedgerLog,
    Whole,
    devices_of,
    following,
    note,
    refusal_of,
    run_whole,
    until,
)

from berth.cli.judge import judge
from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

GANG = names.GANG_PREFIX


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(kind: str) -> AsyncIterator[Whole]:
    with cluster_of(kind) as cluster:
        async with run_whole(cluster) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def corner(whole: Whole) -> AsyncIterator[Corner]:
    async with whole.corner() as made:
        yield made


async def check_room(whole: Whole) -> None:
    """Nothing is given out beyond what there is: counted here once more, and every promise by name."""
    pods = await whole.items("/api/v1/pods")
    assert over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods) == []
    report = await judge(whole, whole.bus)
    assert report.ok, "\n".join(report.lines())


# --- single pods -----------------------------------------------------------------------------------------------------


async def test_pods_go_where_there_is_room_and_the_rest_is_told(whole: Whole, corner: Corner) -> None:
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
    await check_room(whole)


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
    await corner.pod("likes", affinity=affinity(preferredDuringSchedulingIgnoredDuringExecution=liked))
    for pod in await corner.bound("must", "likes"):
        assert pod["spec"]["nodeName"] == west


async def test_taints_keep_out_who_does_not_tolerate_them(corner: Corner) -> None:
    node = await corner.node("t", taints=[{"key": "team", "value": "red", "effect": "NoSchedule"}])
    await corner.pod("stranger")
    await corner.refused("stranger", "untolerated taint {team: red}")
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
    await check_room(whole)


async def test_the_pod_limit_of_a_node_holds(corner: Corner) -> None:
    await corner.node("n", pods="2")
    await corner.bound(await corner.pod("a"), await corner.pod("b"))
    await corner.pod("c")
    await corner.refused("c", "Too many pods")


# --- GPUs ------------------------------------------------------------------------------------------------------------

WHOLE_CARD = [
    {"nvidia.com/gpu": "1"},
    {"koordinator.sh/gpu": "100"},
    {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"},
]
HALF_CARD = [
    {"koordinator.sh/gpu": "50"},
    {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"},
    {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "8Gi"},
]


@pytest.mark.parametrize("request_", WHOLE_CARD, ids=lambda amounts: "+".join(amounts))
async def test_whole_gpus_under_every_name(whole: Whole, corner: Corner, request_: dict[str, str]) -> None:
    node = await corner.node("g", gpus=2)
    placed = await corner.bound(await corner.pod("a", request_), await corner.pod("b", request_))
    grants = [devices_of(pod) for pod in placed]
    assert sorted(grant["minor"] for (grant,) in grants) == [0, 1]
    for (grant,) in grants:
        assert grant["resources"] == {
            "koordinator.sh/gpu-core": "100",
            "koordinator.sh/gpu-memory-ratio": "100",
            "koordinator.sh/gpu-memory": "16Gi",
        }
        assert grant["id"] == f"GPU-{node}-{grant['minor']}"
    await corner.pod("c", request_)
    await corner.refused("c", "Insufficient gpu devices")
    await check_room(whole)


@pytest.mark.parametrize("request_", HALF_CARD, ids=lambda amounts: "+".join(amounts))
async def test_two_halves_share_a_card(whole: Whole, corner: Corner, request_: dict[str, str]) -> None:
    await corner.node("g", gpus=2)
    placed = await corner.bound(await corner.pod("a", request_), await corner.pod("b", request_))
    minors = [grant["minor"] for pod in placed for grant in devices_of(pod)]
    assert minors == [minors[0], minors[0]], "the second half belongs beside the first"
    (full,) = await corner.bound(await corner.pod("c", {"nvidia.com/gpu": "1"}))
    assert [grant["minor"] for grant in devices_of(full)] != minors[:1]
    await check_room(whole)


async def test_memory_alone_shares_a_card(whole: Whole, corner: Corner) -> None:
    await corner.node("g", gpus=1)
    request = {"koordinator.sh/gpu-memory": "6Gi"}
    await corner.bound(await corner.pod("a", request), await corner.pod("b", request))
    await corner.pod("c", request)
    await corner.refused("c", "Insufficient gpu devices")
    await check_room(whole)


async def test_two_cards_come_from_one_node(corner: Corner) -> None:
    await corner.node("small", gpus=1)
    big = await corner.node("big", gpus=2)
    (pod,) = await corner.bound(await corner.pod("p", {"nvidia.com/gpu": "2"}))
    assert pod["spec"]["nodeName"] == big
    assert sorted(grant["minor"] for grant in devices_of(pod)) == [0, 1]


async def test_gpus_free_again_are_given_again(whole: Whole, corner: Corner) -> None:
    await corner.node("g", gpus=1)
    for number in range(3):
        name = f"p{number}"
        await corner.bound(await corner.pod(name, {"nvidia.com/gpu": "1"}))
        await check_room(whole)
        await corner.delete_pod(name)


async def test_a_sick_card_is_not_given_out(whole: Whole, corner: Corner) -> None:
    node = await corner.node("g", gpus=2)
    await corner.until_counted(node, 2)
    device = await whole.call("GET", f"{DEVICES}/{node}")
    device["spec"]["devices"][0]["health"] = False
    await whole.call("PUT", f"{DEVICES}/{node}", device)
    await corner.until_counted(node, 1)
    (pod,) = await corner.bound(await corner.pod("a", {"nvidia.com/gpu": "1"}))
    assert [grant["minor"] for grant in devices_of(pod)] == [1]
    await corner.pod("b", {"nvidia.com/gpu": "1"})
    await corner.refused("b", "Insufficient gpu devices")


# --- gangs -----------------------------------------------------------------------------------------------------------


async def test_a_pod_group_starts_whole(whole: Whole, corner: Corner) -> None:
    await corner.node("a", cpu="2")
    await corner.node("b", cpu="2")
    labels = {names.LABEL_POD_GROUP: "team"}
    await corner.pod_group("team", 4)
    first = [await corner.pod(f"m{i}", {"cpu": "1"}, labels=labels) for i in range(3)]
    await corner.refused("m0", "3 of 4 members")
    first.append(await corner.pod("m3", {"cpu": "1"}, labels=labels))
    placed = await corner.bound(*first)
    assert {note(pod, names.ANNOTATION_BIND_GANG_GROUP) for pod in placed} == {f"{corner.namespace}/team"}
    assert {note(pod, names.ANNOTATION_BIND_GANG_COUNT) for pod in placed} == {"4"}
    assert len({note(pod, names.ANNOTATION_PLAN) for pod in placed}) == 1

    async def scheduled() -> bool:
        group = await whole.call("GET", f"{POD_GROUPS.format(corner.namespace)}/team")
        status: dict[str, Any] = group.get("status", {})
        return status.get("scheduled") == 4 or status.get("phase") == "Running"

    await until(scheduled, "the PodGroup's status")


async def test_a_strict_gang_starts_whole_or_not_at_all(corner: Corner) -> None:
    await corner.node("a", cpu="2")
    notes = {f"{GANG}name": "g", f"{GANG}min-available": "3"}
    members = [await corner.pod(f"m{i}", {"cpu": "1"}, annotations=notes) for i in range(3)]
    for member in members:
        await corner.refused(member, "room for 2 of 3 members")
    await corner.placed_now(requests={"cpu": "2"})
    await corner.node("b", cpu="1")
    await corner.bound(*members)


async def test_a_member_too_many_comes_later(corner: Corner) -> None:
    await corner.node("a", cpu="2")
    notes = {f"{GANG}name": "g", f"{GANG}min-available": "2"}
    members = [await corner.pod(f"m{i}", {"cpu": "1"}, annotations=notes) for i in range(3)]

    async def two() -> bool:
        pods = await corner.whole.items(PODS.format(corner.namespace))
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 2

    await until(two, "two members on nodes")
    await corner.node("b", cpu="1")
    await corner.bound(*members)


async def test_gangs_of_a_group_start_together(corner: Corner) -> None:
    await corner.node("a", cpu="2")
    groups = json.dumps([f"{corner.namespace}/left", f"{corner.namespace}/right"])

    def notes(gang: str) -> dict[str, str]:
        return {f"{GANG}name": gang, f"{GANG}min-available": "2", f"{GANG}groups": groups}

    left = [await corner.pod(f"l{i}", {"cpu": "1"}, annotations=notes("left")) for i in range(2)]
    await corner.refused("l0", "right")
    right = [await corner.pod(f"r{i}", {"cpu": "1"}, annotations=notes("right")) for i in range(2)]
    await corner.refused("r1", "members that must start together")
    await corner.node("b", cpu="2")
    placed = await corner.bound(*left, *right)
    assert len({note(pod, names.ANNOTATION_PLAN) for pod in placed}) == 1


async def test_a_gang_that_is_not_strict_says_so(corner: Corner) -> None:
    await corner.node("a", cpu="4")
    notes = {f"{GANG}name": "g", f"{GANG}min-available": "2", f"{GANG}mode": "NonStrict"}
    members = [await corner.pod(f"m{i}", {"cpu": "1"}, annotations=notes) for i in range(2)]
    await corner.bound(*members)


async def test_a_gang_on_gpus_is_all_or_nothing(whole: Whole, corner: Corner) -> None:
    await corner.node("a", gpus=2)
    await corner.bound(await corner.pod("other", {"koordinator.sh/gpu": "10"}))
    notes = {f"{GANG}name": "g", f"{GANG}min-available": "3"}
    members = [await corner.pod(f"m{i}", {"nvidia.com/gpu": "1"}, annotations=notes) for i in range(3)]
    await corner.refused("m2", "room for 1 of 3 members", "gpu")
    await corner.node("b", gpus=2)
    await corner.bound(*members)
    await check_room(whole)


# --- reservations ----------------------------------------------------------------------------------------------------


async def test_a_reservation_is_placed_used_by_its_owner_and_over(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="4")
    name = await corner.reservation("r", {"cpu": "3"}, ttl="1h", allocateOnce=True)
    reservation = await corner.phase(name, "Available")
    assert reservation["status"]["nodeName"] == node
    await corner.pod("stranger", {"cpu": "2"})
    await corner.refused("stranger", "Insufficient cpu")
    (owner,) = await corner.bound(await corner.pod("owner", {"cpu": "3"}, labels={"owner": "r"}))
    allocated = json.loads(note(owner, names.ANNOTATION_RESERVATION_ALLOCATED))
    assert allocated == {"name": name, "uid": reservation["metadata"]["uid"]}
    ended = await corner.phase(name, "Succeeded")
    assert [each["name"] for each in ended["status"]["currentOwners"]] == ["owner"]
    await check_room(whole)
    await corner.delete_pod("owner")
    await corner.bound("stranger")


async def test_a_reservation_serves_several_owners_until_it_is_full(corner: Corner) -> None:
    await corner.node("n", cpu="4")
    name = await corner.reservation(
        "r", {"cpu": "2", "memory": "512Mi"}, ttl="1h", allocateOnce=False, allocatePolicy="Restricted"
    )
    await corner.phase(name, "Available")
    affinity = {names.ANNOTATION_RESERVATION_AFFINITY: json.dumps({"name": name})}

    async def owner(pod: str) -> str:
        return await corner.pod(pod, {"cpu": "1"}, labels={"owner": "r"}, annotations=affinity)

    placed = await corner.bound(await owner("a"), await owner("b"))
    assert all(name in note(pod, names.ANNOTATION_RESERVATION_ALLOCATED) for pod in placed)
    await owner("c")
    await corner.refused("c", f"reservation {name}: Insufficient cpu")
    await corner.phase(name, "Available")
    await corner.delete_pod("a")
    await corner.bound("c")


async def test_an_expired_reservation_gives_its_room_back(corner: Corner) -> None:
    await corner.node("n", cpu="2")
    name = await corner.reservation("r", {"cpu": "2"}, ttl="3s")
    await corner.phase(name, "Available")
    await corner.pod("waits", {"cpu": "2"})
    await corner.refused("waits", "Insufficient cpu")
    await corner.phase(name, "Failed")
    await corner.bound("waits")
    affinity = {names.ANNOTATION_RESERVATION_AFFINITY: json.dumps({"name": name})}
    await corner.pod("owner", labels={"owner": "r"}, annotations=affinity)
    await corner.refused("owner", "no reservations match")


async def test_a_reservation_of_gpus_keeps_its_cards(whole: Whole, corner: Corner) -> None:
    await corner.node("g", gpus=2)
    request = {"nvidia.com/gpu": "1"}
    name = await corner.reservation("r", request, ttl="1h")
    await corner.phase(name, "Available")
    (other,) = await corner.bound(await corner.pod("other", request))
    await corner.pod("third", request)
    await corner.refused("third", "Insufficient gpu devices")
    (owner,) = await corner.bound(await corner.pod("owner", request, labels={"owner": "r"}))
    assert devices_of(owner)[0]["minor"] != devices_of(other)[0]["minor"]
    await check_room(whole)


# --- quotas ----------------------------------------------------------------------------------------------------------


async def test_a_quota_stops_at_its_max_and_goes_on_when_room_comes_back(corner: Corner) -> None:
    await corner.node("n", cpu="8")
    quota = await corner.quota("q", {"cpu": "1"}, {"cpu": "4"})
    labels = {names.LABEL_QUOTA_NAME: quota}
    placed = await corner.bound(*[await corner.pod(f"p{i}", {"cpu": "2"}, labels=labels) for i in range(2)])
    assert {note(pod, names.ANNOTATION_QUOTA) for pod in placed} == {f"/{quota}"}
    await corner.pod("third", {"cpu": "2"}, labels=labels)
    said = await corner.refused("third", f"quota {quota}", "exceeds its runtime 4")
    assert "To repair: free 2 cpu in quota" in said
    await corner.pod("outside", {"cpu": "2"})
    await corner.bound("outside")
    await corner.delete_pod("p0")
    await corner.bound("third")


async def test_what_may_not_be_preempted_stays_below_the_minimum(corner: Corner) -> None:
    await corner.node("n", cpu="8")
    quota = await corner.quota("q", {"cpu": "2"}, {"cpu": "6"})
    firm = {names.LABEL_QUOTA_NAME: quota, names.LABEL_QUOTA_PREEMPTIBLE: "false"}
    await corner.bound(await corner.pod("firm", {"cpu": "2"}, labels=firm))
    await corner.pod("firm-too", {"cpu": "1"}, labels=firm)
    await corner.refused("firm-too", "non-preemptible use of cpu", "exceeds its min 2")
    await corner.bound(await corner.pod("soft", {"cpu": "3"}, labels={names.LABEL_QUOTA_NAME: quota}))


async def test_idle_room_is_lent_and_shared_by_minimum(corner: Corner) -> None:
    await corner.node("n", cpu="16")
    top = await corner.quota("top", {"cpu": "8"}, {"cpu": "8"}, is_parent=True)
    one = await corner.quota("one", {"cpu": "4"}, {"cpu": "8"}, parent=top)
    two = await corner.quota("two", {"cpu": "4"}, {"cpu": "8"}, parent=top)
    mine, theirs = {names.LABEL_QUOTA_NAME: one}, {names.LABEL_QUOTA_NAME: two}
    await corner.bound(*[await corner.pod(f"t{i}", {"cpu": "2"}, labels=theirs) for i in range(2)])
    pods = [await corner.pod(f"m{i}", {"cpu": "2"}, labels=mine) for i in range(4)]

    async def runtime() -> int:
        found = await corner.whole.call("GET", f"{QUOTAS.format(corner.namespace)}/{one}")
        return int(json.loads(note(found, names.ANNOTATION_QUOTA_RUNTIME) or "{}").get("cpu", "0"))

    async def two_run_and_two_wait() -> bool:
        seen = [await corner.see(name) for name in pods]
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in seen)
        return bound == 2 and sum(f"quota {one}" in refusal_of(pod) for pod in seen) == 2

    await until(two_run_and_two_wait, "two pods within the minimum, two refused")
    assert await until(runtime, "the runtime in the object") == 4
    await corner.delete_pod("t0")
    await corner.delete_pod("t1")
    await corner.bound(*pods)


async def test_a_quota_by_namespace_holds_too(corner: Corner) -> None:
    await corner.node("n", cpu="8")
    quota = await corner.quota("q", {"cpu": "0"}, {"cpu": "1"})
    path = f"{QUOTAS.format(corner.namespace)}/{quota}"
    notes = {names.ANNOTATION_QUOTA_NAMESPACES: json.dumps([corner.namespace])}
    await corner.whole.patch(path, {"metadata": {"annotations": notes}})

    async def charged() -> bool:
        name = "probe"
        await corner.pod(name, {"cpu": "1"})
        (pod,) = await corner.bound(name)
        if note(pod, names.ANNOTATION_QUOTA) == f"/{quota}":
            return True
        await corner.delete_pod(name)
        return False

    await until(charged, "pods charged by their namespace")
    await corner.pod("second", {"cpu": "1"})
    await corner.refused("second", f"quota {quota}")


# --- what is not built yet -------------------------------------------------------------------------------------------

ANTI = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
]
UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "volume claim": (
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        "spec.volumes[0].persistentVolumeClaim",
    ),
    "anti-affinity": ({"affinity": ANTI}, "spec.affinity.podAntiAffinity"),
    "topology spread": ({"topologySpreadConstraints": SPREAD}, "spec.topologySpreadConstraints"),
    "cores of its own": ({"labels": {names.LABEL_QOS: "LSR"}}, "metadata.labels[koordinator.sh/qosClass]=LSR"),
    "core binding": (
        {"annotations": {names.ANNOTATION_RESOURCE_SPEC: '{"preferredCPUBindPolicy": "FullPCPUs"}'}},
        f"metadata.annotations[{names.ANNOTATION_RESOURCE_SPEC}]",
    ),
    "RDMA": ({"requests": {"koordinator.sh/rdma": "100"}}, "resources.requests[koordinator.sh/rdma]"),
}


@pytest.mark.parametrize("what", UNSUPPORTED)
async def test_what_is_not_supported_is_refused_by_name(corner: Corner, what: str) -> None:
    await corner.node("n")
    more, field = UNSUPPORTED[what]
    await corner.pod("p", **more)
    await corner.refused("p", f"unsupported: {field}")
    why = await corner.whole.why(corner.namespace, "p")
    assert why.outcome == "refused"
    assert field in [reason.field for reason in why.reasons]
    await corner.placed_now()


# --- order, neighbours, things that change meanwhile -----------------------------------------------------------------


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


async def test_pods_of_other_schedulers_are_left_alone_and_counted(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="2")
    await corner.pod("theirs", {"cpu": "1500m"}, scheduler="default-scheduler")
    await corner.placed_now()
    assert (await whole.why(corner.namespace, "theirs")).outcome == "foreign"
    assert not (await corner.see("theirs"))["spec"].get("nodeName")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "theirs"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await whole.call("POST", f"{PODS.format(corner.namespace)}/theirs/binding", binding)
    await corner.pod("ours", {"cpu": "1"})
    await corner.refused("ours", "Insufficient cpu")
    await corner.delete_pod("theirs")
    await corner.bound("ours")


async def test_gpus_bound_by_another_scheduler_are_not_given_again(whole: Whole, corner: Corner) -> None:
    node = await corner.node("g", gpus=2)
    given = {
        "gpu": [
            {
                "minor": 0,
                "resources": {
                    "koordinator.sh/gpu-core": "100",
                    "koordinator.sh/gpu-memory-ratio": "100",
                    "koordinator.sh/gpu-memory": "16Gi",
                },
            }
        ]
    }
    notes = {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(given)}
    request = {"nvidia.com/gpu": "1"}
    await corner.pod("theirs", request, scheduler="koord-scheduler", annotations=notes, nodeName=node)
    (ours,) = await corner.bound(await corner.pod("ours", request))
    assert [grant["minor"] for grant in devices_of(ours)] == [1]
    await check_room(whole)


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


async def decided(whole: Whole, corner: Corner, name: str) -> str:
    """The node that a pod is decided for, while nobody binds it."""

    async def look() -> str:
        answer = await whole.why(corner.namespace, name)
        return answer.node if answer.outcome == "decided" else ""

    return await until(look, f"a decision on {name}")


async def test_a_node_deleted_between_decision_and_bind(whole: Whole, corner: Corner) -> None:
    for name in ("a", "b"):
        await corner.node(name)
    await corner.placed_now()
    async with whole.paused("cluster-writer"):
        await corner.pod("p")
        node = await decided(whole, corner, "p")
        await corner.drop_node(node)
    (pod,) = await corner.bound("p")
    assert pod["spec"]["nodeName"] != node
    assert note(pod, names.ANNOTATION_ATTEMPT) == "1"


async def test_a_pod_deleted_between_decision_and_bind_gives_its_room_back(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="1")
    await corner.placed_now()
    async with whole.paused("cluster-writer"):
        await corner.pod("p", {"cpu": "1"})
        await decided(whole, corner, "p")
        await corner.delete_pod("p")
        await corner.pod("q", {"cpu": "1"})
    await corner.bound("q")


async def test_a_successor_of_the_same_name_is_a_pod_of_its_own(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="1")
    await corner.placed_now()
    log = LedgerLog()
    async with following(whole.bus, log):
        async with whole.paused("cluster-writer"):
            await corner.pod("p", {"cpu": "1"})
            await decided(whole, corner, "p")
            first = (await corner.see("p"))["metadata"]["uid"]
            await corner.delete_pod("p")
            await corner.pod("p", {"cpu": "500m"})
        (pod,) = await corner.bound("p")
        second = pod["metadata"]["uid"]
        committed = log.committed()
    assert first != second
    plans = {uid: {d.plan for d in found} for (uid, _), found in committed.items() if uid in (first, second)}
    assert note(pod, names.ANNOTATION_PLAN) in plans[second]
    assert not plans[first] & plans[second]
    await corner.bound(await corner.pod("beside", {"cpu": "500m"}))
    await check_room(whole)


async def test_many_come_and_go(whole: Whole, corner: Corner) -> None:
    for number in range(3):
        await corner.node(f"n{number}", cpu="4", gpus=2)

    async def life(number: int) -> None:
        for turn in range(3):
            name = f"p{number}-{turn}"
            await corner.pod(name, {"cpu": "1", "koordinator.sh/gpu": "50"})
            await corner.bound(name, timeout_s=60)
            await corner.delete_pod(name)

    await asyncio.gather(*(life(number) for number in range(16)))
    await check_room(whole)
