"""The same client against the simulated cluster, over Kubernetes' HTTP and over the simulated network."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from berth.contracts.kube import AnyObject, Node, Pod, PodGroup
from berth.kube import (
    EVENTS,
    NODES,
    POD_GROUPS,
    PODS,
    RESERVATIONS,
    ChangeKind,
    Handler,
    Kube,
    KubeLease,
    KubeSettings,
    Listing,
    ObjectRef,
    Outcome,
    Patch,
    Reflector,
    Selection,
    SystemClock,
    WatchSettings,
    event,
)
from berth.simcluster import SimSettings, serve
from berth.testing.simulation.kube_server import SimKube
from berth.testing.simulation.kube_transport import SimTransport
from berth.testing.simulation.scheduling import LoopScheduler


@pytest.fixture(params=["http", "simulated"])
async def kube(request: pytest.FixtureRequest) -> AsyncIterator[Kube]:
    if request.param == "http":
        async with (
            serve(SimSettings(bookmark_s=0.2, kubelet=None)) as sim,
            await Kube.connect(KubeSettings(url=sim.url)) as client,
        ):
            yield client
        return
    scheduler = LoopScheduler()
    server = SimKube(scheduler, random.Random(1), wall=time.time, bookmark_s=0.2)
    async with Kube(SimTransport(server, "test", scheduler, KubeSettings()), "simulated") as client:
        yield client


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "schedulerName": "berth-scheduler", **spec},
    }


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "8"}}}


async def created_pod(kube: Kube, name: str) -> Pod:
    answer = await kube.create(PODS, "default", pod(name))
    assert answer.status == 201, answer
    return msgspec.json.decode(answer.body, type=Pod)


class View(Handler[Pod]):
    """The pods as followed: name -> node."""

    def __init__(self) -> None:
        self.pods: dict[str, str] = {}
        self.bookmarks = 0

    def began(self) -> None:
        self.pods.clear()

    def seen(self, raw: bytes, item: Pod, version: int) -> None:
        self.pods[item.metadata.name] = item.spec.node_name

    def changed(self, kind: ChangeKind, item: Pod) -> None:
        self.pods[item.metadata.name] = item.spec.node_name

    def deleted(self, item: Pod | AnyObject, version: int) -> None:
        self.pods.pop(item.metadata.name)

    def bookmark(self, version: int) -> None:
        self.bookmarks += 1


async def test_list_in_pages_and_selectors(kube: Kube) -> None:
    for i in range(7):
        assert (await kube.create(NODES, "", node(f"n{i}"))).status == 201
    listing = await kube.list(NODES, Node, limit=3)
    assert isinstance(listing, Listing)
    assert [n.metadata.name for n in listing.items] == [f"n{i}" for i in range(7)]
    assert listing.version >= max(int(n.metadata.resource_version) for n in listing.items)
    one = await kube.list(NODES, Node, field_selector="metadata.name=n3")
    assert isinstance(one, Listing)
    assert [n.metadata.name for n in one.items] == ["n3"]


async def test_a_follower_sees_what_happens_to_pods(kube: Kube) -> None:
    await kube.create(NODES, "", node("n1"))
    await created_pod(kube, "before")
    view = View()
    reflector = Reflector(
        kube, Selection(PODS), Pod, view, clock=SystemClock(), rng=random.Random(1), settings=WatchSettings(limit=1)
    )
    task = asyncio.create_task(reflector.run())
    await _until(reflector.listed.is_set)
    assert view.pods == {"before": ""}
    late = await created_pod(kube, "late")
    await _until(lambda: "late" in view.pods)
    meta = late.metadata
    bound = await kube.bind(
        "default", "late", uid=meta.uid, version=meta.resource_version, node="n1", annotations={"a": "b"}
    )
    assert bound.status == 201, bound
    await _until(lambda: view.pods.get("late") == "n1")
    assert (await kube.delete(PODS, "default", "before", grace_s=0)).ok
    await _until(lambda: "before" not in view.pods)
    await _until(lambda: view.bookmarks > 0)
    assert reflector.last_refusal is None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_bind_is_guarded_and_carries_annotations(kube: Kube) -> None:
    await kube.create(NODES, "", node("n1"))
    meta = (await created_pod(kube, "p")).metadata
    good = {"uid": meta.uid, "version": meta.resource_version, "node": "n1", "annotations": {"a": "b"}}
    wrong_uid = await kube.bind("default", "p", **{**good, "uid": "other"})  # type: ignore[arg-type]
    wrong_version = await kube.bind("default", "p", **{**good, "version": "1"})  # type: ignore[arg-type]
    assert (wrong_uid.status, wrong_version.status) == (409, 409)
    assert (await kube.bind("default", "p", **good)).status == 201  # type: ignore[arg-type]
    assert (await kube.bind("default", "p", **good)).status == 409  # type: ignore[arg-type]
    assert (await kube.bind("default", "missing", **good)).status == 404  # type: ignore[arg-type]
    stored = msgspec.json.decode((await kube.get(PODS, "default", "p")).body, type=Pod)
    assert stored.spec.node_name == "n1"
    assert (stored.metadata.annotations or {})["a"] == "b"


async def test_evict_and_delete_with_preconditions(kube: Kube) -> None:
    meta = (await created_pod(kube, "p")).metadata
    assert (await kube.evict("default", "p", uid="other")).conflict
    assert (await kube.delete(PODS, "default", "p", uid="other")).conflict
    assert (await kube.delete(PODS, "default", "p", version="1")).conflict
    assert (await kube.evict("default", "p", uid=meta.uid, grace_s=0)).ok
    assert (await kube.get(PODS, "default", "p")).missing


async def test_a_deletion_that_is_only_asked_about_has_no_effect(kube: Kube) -> None:
    meta = (await created_pod(kube, "p")).metadata
    guard = {"uid": meta.uid, "version": meta.resource_version, "dry_run": True}
    assert (await kube.delete(PODS, "default", "p", **guard)).ok
    assert (await kube.delete(PODS, "default", "p", **{**guard, "uid": "other"})).conflict
    assert (await kube.delete(PODS, "default", "p", **{**guard, "version": "1"})).conflict
    stored = msgspec.json.decode((await kube.get(PODS, "default", "p")).body, type=Pod)
    assert stored.metadata.resource_version == meta.resource_version
    assert stored.metadata.deletion_timestamp is None


async def test_a_withdrawal_is_a_guarded_patch(kube: Kube) -> None:
    meta = (await created_pod(kube, "p")).metadata
    notes = {"annotations": {"scheduling.berth.sh/attempt": "1"}}
    body = {"metadata": {**notes, "uid": meta.uid, "resourceVersion": meta.resource_version}}
    assert (await kube.patch(PODS, "default", "p", body)).ok
    assert (await kube.patch(PODS, "default", "p", body)).conflict
    other = await kube.patch(PODS, "default", "p", {"metadata": {**notes, "uid": "other"}})
    assert other.status in (409, 422)


async def test_status_patches_events_and_custom_resources(kube: Kube) -> None:
    meta = (await created_pod(kube, "p")).metadata
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no capacity"}
    body = {"status": {"conditions": [condition]}}
    assert (await kube.patch(PODS, "default", "p", body, content_type=Patch.STRATEGIC, subresource="status")).ok
    about = ObjectRef("v1", "Pod", "default", "p", meta.uid)
    warning = event(
        about,
        reason="FailedScheduling",
        message="no capacity",
        warning=True,
        component="berth",
        instance="i",
        now=1.0,
        token="a1",
    )
    assert (await kube.create(EVENTS, "default", warning)).status == 201
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 2},
    }
    assert (await kube.create(POD_GROUPS, "default", group)).status == 201
    assert (await kube.patch(POD_GROUPS, "default", "g", {"status": {"phase": "Pending"}})).ok
    listing = await kube.list(POD_GROUPS, PodGroup)
    assert isinstance(listing, Listing)
    assert [(g.spec.min_member, g.status.phase) for g in listing.items] == [(2, "Pending")]
    broken = {**group, "metadata": {"name": "h"}, "spec": {"minMember": "two"}}
    refused = await kube.create(POD_GROUPS, "default", broken)
    assert refused.status == 422
    assert "minMember" in refused.message
    applied = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r"},
        "spec": {"template": {"spec": {}}, "owners": [{"labelSelector": {}}]},
    }
    answer = await kube.patch(
        RESERVATIONS, "", "r", applied, content_type=Patch.APPLY, field_manager="berth", force=True
    )
    assert answer.ok, answer


async def test_the_lease(kube: Kube) -> None:
    clock = SystemClock()
    one = KubeLease(kube, "kube-system", "cluster-writer", "one", clock=clock, rng=random.Random(1))
    two = KubeLease(kube, "kube-system", "cluster-writer", "two", clock=clock, rng=random.Random(2))
    assert await one.try_acquire()
    assert not await two.try_acquire()
    assert one.record is not None
    assert await one.remember(epoch=1, plan="p", seen=one.record) is Outcome.DONE
    assert await one.renew() is Outcome.DONE
    await one.release()
    assert await two.try_acquire()
    assert two.record is not None
    assert two.record.mark == (1, "p")
    assert await two.renew() is Outcome.DONE
    assert not await one.try_acquire()


async def _until(condition: Any, timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
