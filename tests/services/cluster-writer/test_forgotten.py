"""A decision that cannot go on holds up nobody else, and nothing that is known of it is forgotten on the way."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.services.worlds.writer.bind_bench import BindBench
from tests.services.worlds.writer.objects import pod_path
from tests.services.worlds.writer.store_api import StoreApi

from berth.cluster_writer.outbox import BUSY_ABOVE
from berth.contracts import names, state, subjects
from berth.kube.answer import Answer
from berth.testing.views import eventually

CONCURRENCY = 4
"""So many decisions the desk carries out at once."""
SOON_S = 3.0


def bind_now(api: StoreApi, name: str, plan: str, node: str) -> None:
    notes = {names.ANNOTATION_PLAN: plan}
    body = {"metadata": {"name": name, "annotations": notes}, "target": {"kind": "Node", "name": node}}
    assert api.store.bind("default", name, body).status == 201


def leaving(api: StoreApi, name: str) -> state.Pod:
    """A pod that is being deleted and stays: somebody else's finalizer is on it."""
    api.pod(name)
    assert api.store.patch(pod_path(name), {"metadata": {"finalizers": ["x/y"]}}).status == 200
    assert api.store.delete(pod_path(name)).status == 200
    return api.seen(name)


async def test_binds_that_are_refused_for_now_do_not_hold_up_the_others(desk: BindBench, api: StoreApi) -> None:
    """As in a namespace that is being terminated, or one with a webhook that is down."""
    answered = api.bind

    async def bind(namespace: str, name: str, **more: Any) -> Answer:
        if not name.startswith("stuck"):
            return await answered(namespace, name, **more)
        await asyncio.sleep(0)
        return Answer(403, reason="Forbidden")

    api.bind = bind  # type: ignore[method-assign]
    for index in range(CONCURRENCY):
        desk.begin(f"stuck{index}", plan=f"p{index}")
    await asyncio.sleep(0.05)
    desk.begin("a", plan="q")
    await eventually(lambda: desk.node_of("a"), what="the other pod is bound", deadline_s=SOON_S)


async def test_withdrawals_that_are_refused_do_not_hold_up_the_others(desk: BindBench, api: StoreApi) -> None:
    answered = api.patch

    async def patch(resource: Any, namespace: str, name: str, body: Any, **more: Any) -> Answer:
        if not name.startswith("stuck"):
            return await answered(resource, namespace, name, body, **more)
        await asyncio.sleep(0)
        return Answer(422, reason="Invalid")

    api.patch = patch  # type: ignore[method-assign]
    for index in range(CONCURRENCY):
        pod = api.pod(f"stuck{index}")
        desk.show(f"stuck{index}")
        desk.binds.give_up(desk.decide(pod, plan=f"p{index}"), "a test")
    await asyncio.sleep(0.05)
    desk.begin("a", plan="q")
    await eventually(lambda: desk.node_of("a"), what="the other pod is bound", deadline_s=SOON_S)


async def test_decisions_that_wait_for_the_view_do_not_hold_back_events(desk: BindBench, api: StoreApi) -> None:
    for index in range(BUSY_ABOVE + 1):
        pod = leaving(api, f"p{index}")
        desk.put(subjects.pod_key("default", pod.name), pod, end=False)
        desk.binds.begin(desk.decide(pod, plan=f"plan{index}"))
    assert desk.binds.under_way() > BUSY_ABOVE
    await eventually(lambda: not desk.binds.under_way(), what="all are parked", deadline_s=SOON_S)
    assert len(desk.binds) == BUSY_ABOVE + 1


async def test_each_doubt_waits_for_an_end_of_its_own(desk: BindBench, api: StoreApi) -> None:
    """First its node is not seen; later, after a conflict, a former holder is still seen beside its successor."""
    pod = api.pod("a", cpu="6")
    desk.show("a")
    desk.binds.begin(desk.decide(pod, node="late", plan="p1"))
    await eventually(desk.binds.has_parked, what="its node is not seen yet")
    api.on("bind", lambda name: api.touch("a"))
    desk.put(subjects.named_key("node", "late"), api.node("late"))
    await eventually(lambda: api.calls["bind"] == 1 and desk.binds.has_parked(), what="the pod has changed meanwhile")
    api.pod("former", cpu="8")
    bind_now(api, "former", "p0", "late")
    desk.put(subjects.pod_key("default", "former"), api.seen("former"), end=False)
    api.remove("former")
    successor = api.pod("successor", cpu="8")
    desk.put(subjects.pod_key("default", "successor"), successor, end=False)
    desk.decide(successor, node="late", plan="p2")
    desk.put(subjects.pod_key("default", "a"), api.seen("a"), end=False)
    await asyncio.sleep(0.05)
    assert desk.lost == [], "the view is late"
    desk.vanish("former")
    await desk.over()
    assert (desk.lost, desk.node_of("a")) == ([], "late")


async def test_a_withdrawal_whose_answer_was_lost_is_told(desk: BindBench, api: StoreApi) -> None:
    def land(name: str, body: Any) -> Answer:
        assert api.store.patch(pod_path(name), body).status == 200
        return Answer(0)

    api.on("bind", lambda name: Answer(400))
    api.on("patch", land)
    desk.begin()
    await eventually(desk.binds.has_parked, what="it waits for the view")
    desk.show("a")
    await desk.over()
    assert api.seen("a").attempt == 1
    assert [name for name, _ in desk.withdrawn] == ["a"]
