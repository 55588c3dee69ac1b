"""The whole watcher against a real nats-server and the simulated API."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from berth import telemetry
from berth.bus import Bus
from berth.cluster_watcher import publisher as publishing
from berth.cluster_watcher import shell as watcher
from berth.contracts import buckets, names, state
from berth.contracts.codec import decode, encode
from berth.contracts.question import StatusAnswer
from berth.contracts.subjects import question_subject
from berth.kube import CONFIG_MAPS, PODS, RESERVATIONS, Outages, Reflector
from berth.simcluster import Fault
from berth.testing.views import eventually


async def status_of(bus: Bus) -> StatusAnswer:
    return decode(await bus.ask(question_subject("cluster-watcher", "status"), b"{}"), StatusAnswer)


def complete_markers(world: Any, kind: str) -> list[int]:
    return [marker.version for marker in world.cluster.markers if marker.kind == kind and marker.complete]


async def synced(world: Any) -> None:
    await eventually(
        lambda: all(
            any(marker.kind == kind and marker.complete for marker in world.cluster.markers)
            for kind in ("pods", "nodes", "reservations", "devices", "elasticquotas")
        ),
        what=f"markers: {world.cluster.markers}",
    )


async def test_the_first_list_then_changes_then_deletions(world: Any, patched: Any) -> None:
    await world.create_node("n1")
    for index in range(30):
        await world.create_pod(f"p{index}")
    shell, _ = await world.watcher(list_page=7)
    await synced(world)
    cluster = world.cluster
    assert cluster.pods == {f"p{index}" for index in range(30)}
    assert cluster.pod("p3").template.requests == {"cpu": 1000}
    node = decode(cluster.values["node.n1"], state.Node)
    assert node.allocatable == {"cpu": 8000, "memory": 16 << 30, "pods": 110}
    markers = [marker.complete for marker in cluster.markers if marker.kind == "pods"]
    assert markers[:2] == [False, True]
    await patched(world, "p3", {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "1"}}})
    await eventually(lambda: cluster.pod("p3").attempt == 1)
    current = cluster.pod("p3")
    bound = await world.kube.bind(
        "default",
        "p3",
        uid=current.uid,
        version=str(current.version),
        node="n1",
        annotations={names.ANNOTATION_PLAN: "x"},
    )
    assert bound.ok, bound
    await eventually(lambda: cluster.pod("p3").node == "n1")
    assert cluster.pod("p3").plan == "x"
    version = cluster.pod("p3").version
    await world.delete_pod("p4")
    await eventually(lambda: "p4" not in cluster.pods)
    assert cluster.versions["pod.default.p4"] > version
    assert cluster.complete["pods"].version >= cluster.versions["pod.default.p4"]
    assert not cluster.went_back
    answer = await status_of(world.bus)
    assert (answer.service, answer.active, answer.ready) == ("cluster-watcher", True, True)
    assert answer.facts["pods"] == 29
    assert answer.facts["pods are"] == "synced"
    assert shell._check() == (True, "synced")


async def test_a_pod_made_again_under_its_name(world: Any) -> None:
    await world.watcher()
    await synced(world)
    await world.create_pod("a")
    await eventually(lambda: world.cluster.pod("a"))
    first = world.cluster.pod("a")
    await world.delete_pod("a")
    await world.create_pod("a")
    await eventually(lambda: world.cluster.pod("a") is not None and world.cluster.pod("a").uid != first.uid)
    assert world.cluster.pod("a").version > first.version
    assert not world.cluster.went_back


async def test_every_kind_and_what_is_wrong_with_it(world: Any) -> None:
    await world.create(
        CONFIG_MAPS, "default", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}}
    )
    await world.create(
        CONFIG_MAPS, "default", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {}}
    )
    await world.create(
        RESERVATIONS,
        "",
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "r", "annotations": {names.ANNOTATION_ATTEMPT: "many"}},
            "spec": {
                "owners": [{"object": {"name": "p"}}],
                "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}},
            },
        },
    )
    await world.watcher(config_maps=["default/a", "default/absent"])
    await synced(world)
    await eventually(lambda: "configmap.default.a" in world.cluster.values)
    assert "configmap.default.b" not in world.cluster.values
    proven = {"configmap.default.a", "configmap.default.absent"}
    await eventually(lambda: proven <= {marker.kind for marker in world.cluster.markers if marker.complete})
    reserved = decode(world.cluster.values["reservation.r"], state.Reservation)
    assert reserved.template.requests == {"cpu": 2000}
    assert [problem.field for problem in reserved.problems] == [f"metadata.annotations[{names.ANNOTATION_ATTEMPT}]"]
    assert world.cluster.complete["reservations"].version >= reserved.version
    answer = await status_of(world.bus)
    assert answer.facts["reservations with problems, seen"] == 1


def told(world: Any, kind: str) -> bool | None:
    """What the newest marker of a kind says."""
    return next((marker.complete for marker in reversed(world.cluster.markers) if marker.kind == kind), None)


async def test_a_config_map_that_is_not_followed_any_more_proves_nothing(world: Any) -> None:
    await world.create(
        CONFIG_MAPS, "default", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}}
    )
    _, task = await world.watcher(config_maps=("default/a",))
    await eventually(lambda: "configmap.default.a" in world.cluster.values)
    await eventually(lambda: told(world, "configmap.default.a") is True)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await world.watcher(config_maps=("default/b",))
    await eventually(lambda: "configmap.default.a" not in world.cluster.values)
    await eventually(lambda: told(world, "configmap.default.a") is False)
    await eventually(lambda: told(world, "configmap.default.b") is True)


async def test_kinds_that_are_not_installed_hold_nothing_up(world: Any) -> None:
    await world.restart_api(install_crds=False)
    await world.create_pod("a")
    shell, _ = await world.watcher()
    await eventually(lambda: shell.term is not None and shell._check() == (True, "synced"))
    await eventually(lambda: world.cluster.pod("a"))
    facts = (await status_of(world.bus)).facts
    assert facts["devices are"] == "not installed"
    assert facts["pods are"] == "synced"
    absent = [
        state.Synced(kind=kind, version=0, complete=True) for kind in ("devices", "elasticquotas", "reservations")
    ]
    await eventually(lambda: all(marker in world.cluster.markers for marker in absent))
    assert world.cluster.complete["reservations"].is_known


async def test_bookmarks_move_the_version_in_a_quiet_cluster(world: Any) -> None:
    await world.create_pod("a")
    await world.watcher()
    await synced(world)
    version = await world.create_node("n1")  # a version that no pod has
    await eventually(lambda: world.cluster.complete["pods"].version >= version)
    await eventually(lambda: world.cluster.complete["reservations"].version >= version)


async def test_all_watches_share_the_end_of_an_outage(world: Any, monkeypatch: Any) -> None:
    shared: list[object] = []

    class Noted(Reflector[Any]):
        def __init__(self, *args: Any, outages: Outages | None = None, **more: Any) -> None:
            shared.append(outages)
            super().__init__(*args, outages=outages, **more)

    monkeypatch.setattr(watcher, "Reflector", Noted)
    shell, _ = await world.watcher()
    await eventually(lambda: shell.term is not None and len(shared) >= len(shell.term.sources))
    assert isinstance(shared[0], Outages)
    assert all(each is shared[0] for each in shared)


async def test_an_expired_watch_leads_to_a_list_and_a_difference(world: Any) -> None:
    for name in ("stays", "goes"):
        await world.create_pod(name)
    await world.watcher()
    await synced(world)
    before = world.cluster.versions["pod.default.stays"]
    entries = world.cluster.entries
    # No stream while this happens, and no history to resume from afterwards.
    world.sim.faults.set((Fault(kind="error", verbs=("watch",), status=503),))
    world.sim.hub.close()
    await world.delete_pod("goes")
    await world.create_pod("comes")
    for collection in world.sim.store.state.collections.values():
        collection.compact(0)
    world.sim.faults.set(())
    await eventually(lambda: world.cluster.pods == {"stays", "comes"})
    assert world.cluster.versions["pod.default.stays"] == before
    assert world.cluster.entries < entries + 60
    assert not world.cluster.went_back


async def test_another_api_server_with_other_objects(world: Any) -> None:
    for index in range(20):
        await world.create_pod(f"p{index}")
    await world.watcher()
    await synced(world)
    await eventually(lambda: len(world.cluster.pods) == 20)
    await world.restart_api()
    listed = await world.create_pod("only")
    await eventually(lambda: world.cluster.pods == {"only"})
    await eventually(lambda: world.cluster.complete["pods"].version >= listed)
    gone = world.cluster.versions["pod.default.p0"]
    assert gone >= listed  # tombstones carry the list's version
    assert not world.cluster.went_back


async def test_a_list_that_changes_nothing_writes_nothing_but_a_marker(world: Any) -> None:
    for index in range(10):
        await world.create_pod(f"p{index}")
    _, task = await world.watcher()
    await synced(world)
    await eventually(lambda: len(world.cluster.pods) == 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    world.cluster.markers.clear()
    entries = world.cluster.entries
    reached = await world.create_pod("new") - 1
    await world.delete_pod("new")
    await world.watcher("w2")
    await eventually(lambda: complete_markers(world, "pods"))
    await eventually(lambda: complete_markers(world, "nodes"))
    assert all(marker.complete and marker.version > reached for marker in world.cluster.markers)
    assert world.cluster.entries - entries == len(world.cluster.markers)


async def test_the_bus_is_killed_and_comes_back(world: Any) -> None:
    for index in range(50):
        await world.create_pod(f"p{index}")
    await world.watcher()
    await synced(world)
    await eventually(lambda: len(world.cluster.pods) == 50)
    world.nats.kill()
    for index in range(25):
        await world.delete_pod(f"p{index}")
    for index in range(50, 60):
        await world.create_pod(f"p{index}")
    world.nats.start()
    last = await world.create_pod("last")
    expected = {f"p{index}" for index in range(25, 60)} | {"last"}
    await eventually(lambda: world.cluster.pods == expected, deadline_s=40)
    await eventually(lambda: world.cluster.complete["pods"].version >= last, deadline_s=40)
    assert not world.cluster.went_back


async def test_the_bus_loses_the_tail_of_state(world: Any) -> None:
    await world.create_pod("a")
    shell, _ = await world.watcher()
    await synced(world)
    await eventually(lambda: world.cluster.pod("a"))
    world.nats.stop()
    saved = world.nats.save_store()
    world.nats.start()
    for index in range(20):
        await world.create_pod(f"lost{index}")
    await world.delete_pod("a")
    await eventually(lambda: len(world.cluster.pods) == 20, deadline_s=40)
    world.nats.kill()
    world.nats.restore_store(saved)
    for index in range(60):
        await world.create_pod(f"new{index}")
    world.nats.start()
    expected = {f"lost{index}" for index in range(20)} | {f"new{index}" for index in range(60)}
    await eventually(lambda: world.cluster.resets, deadline_s=40)
    await eventually(lambda: world.cluster.pods == expected, deadline_s=40)
    await eventually(lambda: shell.term is not None and shell._check() == (True, "synced"), deadline_s=40)
    assert not world.cluster.went_back


async def test_state_is_deleted_and_made_again(world: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(watcher, "ENSURE_S", 0.5)
    for index in range(10):
        await world.create_pod(f"p{index}")
    shell, _ = await world.watcher()
    await synced(world)
    await eventually(lambda: len(world.cluster.pods) == 10)
    await world.bus._link.request(f"$JS.API.STREAM.DELETE.KV_{buckets.STATE}", b"", timeout_s=5)
    await eventually(lambda: world.cluster.resets, deadline_s=40)
    last = await world.create_pod("after")
    await eventually(lambda: len(world.cluster.pods) == 11, deadline_s=40)
    await eventually(lambda: world.cluster.complete["pods"].version >= last, deadline_s=40)
    assert shell._check() == (True, "synced")


async def test_a_deleted_state_is_noticed_at_the_next_write(world: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(publishing, "STUCK_S", 0.5)
    await world.create_pod("before")
    await world.watcher()
    await synced(world)
    await world.bus._link.request(f"$JS.API.STREAM.DELETE.KV_{buckets.STATE}", b"", timeout_s=5)
    last = await world.create_pod("after")
    await eventually(lambda: world.cluster.resets, deadline_s=40)
    await eventually(lambda: world.cluster.complete["pods"].version >= last, deadline_s=40)
    assert world.cluster.pods == {"before", "after"}


async def test_the_bucket_of_leases_is_deleted(world: Any) -> None:
    await world.create_pod("before")
    shell, _ = await world.watcher()
    await synced(world)
    await world.bus._link.request(f"$JS.API.STREAM.DELETE.KV_{buckets.LEASE}", b"", timeout_s=5)
    await eventually(lambda: not shell.standby.active, deadline_s=20)
    await eventually(lambda: shell.standby.active, deadline_s=20)
    await world.create_pod("after")
    await eventually(lambda: world.cluster.pods == {"before", "after"}, deadline_s=20)


async def test_a_standby_takes_over(world: Any) -> None:
    await world.create_pod("a")
    first, task = await world.watcher("w1")
    await synced(world)
    second, _ = await world.watcher("w2")
    assert second.term is None
    assert second._check() == (True, "standby")
    await eventually(lambda: first.standby.active)
    assert not second.standby.active
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await world.create_pod("b")
    await eventually(lambda: second.standby.active)
    await eventually(lambda: world.cluster.pods == {"a", "b"})
    last = await world.create_pod("c")
    await eventually(lambda: world.cluster.complete["pods"].version >= last)
    assert not world.cluster.went_back


async def test_two_that_both_believe_to_be_active_do_no_harm(world: Any, monkeypatch: Any) -> None:
    """The lease is broken on purpose: every write is still fenced, and the end is right."""
    for index in range(20):
        await world.create_pod(f"p{index}")
    for instance in ("w1", "w2"):
        shell, _ = await world.watcher(instance)
        monkeypatch.setattr(type(shell.standby._lease), "active", property(lambda self: True), raising=False)
    await eventually(lambda: all(each.term is not None and each._check()[0] for each in world.shells))
    for index in range(20, 60):
        await world.create_pod(f"p{index}")
        if index % 2:
            await world.delete_pod(f"p{index - 20}")
    expected = {f"p{index}" for index in range(60)} - {f"p{index - 20}" for index in range(20, 60) if index % 2}
    await eventually(lambda: world.cluster.pods == expected, deadline_s=40)
    assert not world.cluster.went_back


async def test_what_a_woken_predecessor_left_behind_is_put_right(world: Any) -> None:
    """Somebody else writes a pod that does not exist, and an older state of one that does."""
    version = await world.create_pod("a")
    await world.watcher()
    await synced(world)
    await eventually(lambda: world.cluster.pod("a"))
    other = (await world.connect("other")).owned(buckets.STATE)
    await other.ready()
    ghost = state.Pod(namespace="default", name="ghost", uid="g", version=version - 1)
    other.put("pod.default.ghost", encode(ghost))
    await other.drain()
    await eventually(lambda: "pod.default.ghost" in world.cluster.versions)
    await eventually(lambda: world.cluster.pods == {"a"})
    old = state.Pod(namespace="default", name="a", uid="old", version=version - 1)
    other.put("pod.default.a", encode(old))
    await other.drain()
    await eventually(lambda: world.cluster.pod("a").version == version)
    assert world.cluster.pod("a").uid != "old"


async def test_a_marker_written_by_somebody_else_leads_to_a_list(world: Any) -> None:
    await world.create_pod("a")
    await world.watcher()
    await synced(world)
    other = (await world.connect("other")).owned(buckets.STATE)
    await other.ready()
    other.put("synced.pods", encode(state.Synced(kind="pods", version=1, complete=False)))
    await other.drain()
    count = len(complete_markers(world, "pods"))
    await eventually(lambda: len(complete_markers(world, "pods")) > count)


async def test_an_unbound_pod_begins_a_trace(world: Any) -> None:
    with telemetry.recorded_spans() as spans:
        await world.create_pod("before")
        await world.watcher()
        await synced(world)
        await world.create_pod("after")
        await eventually(lambda: world.cluster.pods == {"before", "after"})
        for name in ("before", "after"):
            trace = world.cluster.traces[f"pod.default.{name}"]
            assert trace is not None
            assert any(f"{span.context.trace_id:032x}" in trace for span in spans.get_finished_spans())


async def test_a_pod_that_cannot_be_read_is_refused_with_a_reason(world: Any) -> None:
    await world.create_pod("bad", annotations={names.ANNOTATION_ATTEMPT: "x" * 100_000})
    await world.watcher()
    await synced(world)
    await eventually(lambda: world.cluster.pod("bad"))
    seen = world.cluster.pod("bad")
    assert f"metadata.annotations[{names.ANNOTATION_ATTEMPT}]" in [problem.field for problem in seen.problems]
    assert len(world.cluster.values["pod.default.bad"]) < 64 << 10


async def test_a_burst_of_changes_of_the_same_pods_arrives_in_order(world: Any, patched: Any) -> None:
    """A follower never reads a version before all that came before it."""
    await world.watcher()
    await synced(world)
    order: list[int] = []

    class Order:
        def reset(self) -> None: ...

        def apply(self, entry: Any) -> None:
            if entry.key.startswith("pod."):
                order.append(int(entry.value) if entry.deleted else decode(entry.value, state.Pod).version)

        def end(self, sequence: int) -> None: ...

    follower = asyncio.create_task(world.bus.follow(buckets.STATE, Order()).run())
    for index in range(10):
        await world.create_pod(f"p{index}")
    for turn in range(10):
        answers = await asyncio.gather(
            *(
                world.kube.patch(PODS, "default", f"p{index}", {"metadata": {"labels": {"turn": str(turn)}}})
                for index in range(10)
            )
        )
        last = max(decode_version(answer) for answer in answers)
    await eventually(lambda: order and order[-1] >= last)
    follower.cancel()
    assert order == sorted(order)


def decode_version(answer: Any) -> int:
    assert answer.ok, answer
    return int(msgspec.json.decode(answer.body)["metadata"]["resourceVersion"])
