"""What quotas let through: a max, a min for non-preemptible pods, idle capacity that is lent, and whom they charge."""

from __future__ import annotations

import json

import pytest
from tests.e2e.corner import Corner
from tests.e2e.objects import QUOTAS, note, refusal_of
from tests.e2e.placement.test_preemption import budget, leaving, leaving_or_gone, priority
from tests.e2e.waiting import until

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]


async def test_a_quota_stops_at_its_max_and_goes_on_when_capacity_comes_back(corner: Corner) -> None:
    await corner.node("n", cpu="8")
    quota = await corner.quota("q", {"cpu": "1"}, {"cpu": "4"})
    labels = {names.LABEL_QUOTA_NAME: quota}
    placed = await corner.bound(*[await corner.pod(f"p{i}", {"cpu": "2"}, labels=labels) for i in range(2)])
    assert {note(pod, names.ANNOTATION_QUOTA) for pod in placed} == {f"/{quota}"}
    await corner.pod("third", {"cpu": "2"}, labels=labels)
    said = await corner.refused("third", f"quota {quota}", "exceeds its runtime 4")
    assert f"To repair: raise min and max of quota {quota} to 6 cpu" in said
    await corner.pod("outside", {"cpu": "2"})
    await corner.bound("outside")
    await corner.delete_pod("p0")
    await corner.bound("third")


async def test_what_may_not_be_preempted_stays_below_the_minimum(corner: Corner) -> None:
    await corner.node("n", cpu="8")
    quota = await corner.quota("q", {"cpu": "2"}, {"cpu": "6"})
    non_preemptible = {names.LABEL_QUOTA_NAME: quota, names.LABEL_QUOTA_PREEMPTIBLE: "false"}
    await corner.bound(await corner.pod("non-preemptible", {"cpu": "2"}, labels=non_preemptible))
    await corner.pod("non-preemptible-too", {"cpu": "1"}, labels=non_preemptible)
    await corner.refused("non-preemptible-too", "non-preemptible use of cpu", "exceeds its min 2")
    await corner.bound(await corner.pod("soft", {"cpu": "3"}, labels={names.LABEL_QUOTA_NAME: quota}))


async def test_idle_capacity_is_lent_and_shared_by_minimum(corner: Corner) -> None:
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


async def test_what_was_lent_comes_back_by_eviction(corner: Corner) -> None:
    """A budget protects one of the pods that may leave; the others give way, whatever their priority."""
    await corner.node("n", cpu="16")
    top = await corner.quota("top", {"cpu": "4"}, {"cpu": "4"}, is_parent=True)
    mine = await corner.quota("mine", {"cpu": "2"}, {"cpu": "4"}, parent=top)
    theirs = await corner.quota("theirs", {"cpu": "2"}, {"cpu": "4"}, parent=top)
    kept = {names.LABEL_QUOTA_NAME: theirs, "app": "kept"}
    await budget(corner, "kept")
    await corner.pod("kept", {"cpu": "2"}, labels=kept)
    await corner.pod("lent", {"cpu": "2"}, labels={names.LABEL_QUOTA_NAME: theirs})
    await corner.bound("kept", "lent")
    await corner.pod("owner", {"cpu": "2"}, labels={names.LABEL_QUOTA_NAME: mine})
    await until(lambda: leaving_or_gone(corner, "lent"), "the pod that no budget protects to leave")
    if await leaving(corner):
        await corner.delete_pod("lent")  # where no kubelet says that it has ended
    await corner.bound("owner")
    assert "deletionTimestamp" not in (await corner.see("kept"))["metadata"]


async def test_within_a_group_the_more_important_pod_goes_first(corner: Corner) -> None:
    await corner.node("n", cpu="16")
    quota = await corner.quota("q", {"cpu": "2"}, {"cpu": "2"})
    high = await priority(corner, "high", 1_000)
    labels = {names.LABEL_QUOTA_NAME: quota}
    await corner.bound(await corner.pod("low", {"cpu": "2"}, labels=labels))
    await corner.pod("high", {"cpu": "2"}, labels=labels, priorityClassName=high)
    await until(lambda: leaving_or_gone(corner, "low"), "the lower pod to leave")
    if await leaving(corner):
        await corner.delete_pod("low")
    await corner.bound("high")
