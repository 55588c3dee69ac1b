"""Who leaves for a pod of higher priority, and what people see of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.objects import POD_GROUPS, PODS
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.cli.past import past_of
from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

Json = dict[str, Any]


async def priority(corner: Corner, name: str, value: int, policy: str = "") -> str:
    """A PriorityClass; its real name."""
    full = f"{corner.namespace}-{name}"
    manifest: Json = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": full},
        "value": value,
    }
    if policy:
        manifest["preemptionPolicy"] = policy
    await corner.create("/apis/scheduling.k8s.io/v1/priorityclasses", manifest)
    return full


async def budget(corner: Corner, app: str) -> None:
    """A PodDisruptionBudget by which no pod of the app may be missing; Berth knows of it when this returns."""
    manifest = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": corner.namespace},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
    }
    await corner.create(f"/apis/policy/v1/namespaces/{corner.namespace}/poddisruptionbudgets", manifest)
    await corner.whole.until_in_state(corner.namespace, app, kind="poddisruptionbudget")


async def leaving(corner: Corner) -> list[Json]:
    """The pods of the corner that are being deleted."""
    items = await corner.whole.items(PODS.format(corner.namespace))
    return [pod for pod in items if pod["metadata"].get("deletionTimestamp")]


async def leaving_or_gone(corner: Corner, name: str) -> bool:
    """Whether the pod is being deleted, or was."""
    pods = {pod["metadata"]["name"]: pod for pod in await corner.whole.items(PODS.format(corner.namespace))}
    return name not in pods or "deletionTimestamp" in pods[name]["metadata"]


async def test_a_lower_pod_leaves_and_the_higher_one_gets_its_node(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="2")
    high = await priority(corner, "high", 1_000)
    for name in ("low-0", "low-1"):
        # A finalizer holds whoever is deleted for as long as the test looks.
        manifest = corner.manifest(name, {"cpu": "1"})
        manifest["metadata"]["finalizers"] = ["example.com/hold"]
        await corner.create(PODS.format(corner.namespace), manifest)
    await corner.bound("low-0", "low-1")
    await corner.pod("high", {"cpu": "1"}, priorityClassName=high)
    await until(lambda: leaving(corner), "a victim that is being deleted")
    (victim,) = await leaving(corner)
    condition = next(each for each in victim["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    waits = await corner.see("high")
    assert waits["status"]["nominatedNodeName"] == node
    assert names.ANNOTATION_NOMINATED in waits["metadata"]["annotations"]
    assert "waiting for" in (await whole.why(corner.namespace, "high")).message
    await corner.refused("high", "Insufficient cpu")
    name = victim["metadata"]["name"]
    await corner.delete_pod(name)
    await whole.patch(f"{PODS.format(corner.namespace)}/{name}", {"metadata": {"finalizers": None}})
    (bound,) = await corner.bound("high")
    assert bound["spec"]["nodeName"] == node
    assert await leaving(corner) == [], "the other one stays"
    past = [each.line() for each in await past_of(whole.bus, corner.namespace, name)]
    assert any(f"evicted     {corner.namespace}/{name}" in line and "/high" in line for line in past), past
    await check_capacity(whole)
    for each in await whole.items(PODS.format(corner.namespace)):
        path = f"{PODS.format(corner.namespace)}/{each['metadata']['name']}"
        await whole.patch(path, {"metadata": {"finalizers": None}})


async def test_whom_a_budget_protects_stays_while_another_can_leave(whole: Whole, corner: Corner) -> None:
    """By priority alone it would be the first to leave."""
    for name in ("a", "b"):
        await corner.node(name, cpu="1", labels={"side": name})
    values = {"lowest": 10, "low": 100, "high": 1_000}
    classes = {name: await priority(corner, name, value) for name, value in values.items()}
    await budget(corner, "kept")
    for side, name, labels in (("a", "lowest", {"app": "kept"}), ("b", "low", {"app": "other"})):
        more = {"priorityClassName": classes[name], "nodeSelector": {"side": side}}
        await corner.bound(await corner.pod(name, {"cpu": "1"}, labels=labels, **more))
    await corner.pod("high", {"cpu": "1"}, priorityClassName=classes["high"])
    await until(lambda: leaving_or_gone(corner, "low"), "the pod without a budget to leave")
    if await leaving(corner):
        await corner.delete_pod("low")  # where no kubelet says that it has ended
    (bound,) = await corner.bound("high")
    assert bound["spec"]["nodeName"] == f"{corner.namespace}-b"
    assert "deletionTimestamp" not in (await corner.see("lowest"))["metadata"]
    await check_capacity(whole)


async def test_a_budget_gives_way_when_nobody_else_can_leave(corner: Corner) -> None:
    """As with kube-scheduler: a budget is honoured if possible."""
    await corner.node("n", cpu="1")
    high = await priority(corner, "high", 1_000)
    await budget(corner, "kept")
    await corner.bound(await corner.pod("low", {"cpu": "1"}, labels={"app": "kept"}))
    await corner.pod("high", {"cpu": "1"}, priorityClassName=high)
    await until(lambda: leaving_or_gone(corner, "low"), "the only pod that can leave")
    if await leaving(corner):
        await corner.delete_pod("low")
    await corner.bound("high")


async def test_a_pod_that_may_not_preempt_is_told_so(corner: Corner) -> None:
    await corner.node("n", cpu="1")
    patient = await priority(corner, "patient", 1_000, policy="Never")
    await corner.pod("low", {"cpu": "1"})
    await corner.bound("low")
    await corner.pod("high", {"cpu": "1"}, priorityClassName=patient)
    await corner.refused("high", "preemption: not eligible due to preemptionPolicy=Never.")
    assert await leaving(corner) == []


async def test_equal_pods_stay(corner: Corner) -> None:
    await corner.node("n", cpu="1")
    await corner.pod("first", {"cpu": "1"})
    await corner.bound("first")
    await corner.pod("second", {"cpu": "1"})
    await corner.refused("second", "No preemption victims found for incoming pod")
    assert await leaving(corner) == []


async def test_a_gang_displaces_a_lower_gang_whole(whole: Whole, corner: Corner) -> None:
    for name in ("a", "b"):
        await corner.node(name, cpu="1")
    high = await priority(corner, "high", 1_000)
    await corner.pod_group("old", 2)
    labels = {names.LABEL_POD_GROUP: "old"}
    old = [await corner.pod(f"old-{number}", {"cpu": "1"}, labels=labels) for number in range(2)]
    await corner.bound(*old)
    notes = {names.ANNOTATION_GANG_NAME: "job", names.ANNOTATION_GANG_MIN: "2"}
    job = [
        await corner.pod(f"job-{number}", {"cpu": "1"}, annotations=notes, priorityClassName=high)
        for number in range(2)
    ]

    async def all_leave() -> bool:
        return all([await leaving_or_gone(corner, name) for name in old])

    await until(all_leave, "both members of the gang to leave")
    for name in old:
        # Where no kubelet says that it has ended.
        path = f"{PODS.format(corner.namespace)}/{name}"
        now: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        status, answer = await whole.try_call("DELETE", path, now)
        assert status in (200, 404), answer
    await corner.bound(*job)
    group = await whole.call("GET", f"{POD_GROUPS.format(corner.namespace)}/old")
    assert group["metadata"]["annotations"][names.ANNOTATION_DISPLACED]
    await check_capacity(whole)
