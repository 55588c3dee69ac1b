"""The whole watcher against a real nats-server and the simulated API: what it reads is what followers see."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from berth import telemetry
from berth.contracts import buckets, names, state
from berth.contracts.codec import decode
from berth.kube import CONFIG_MAPS, PODS, REPLICA_SETS, RESERVATIONS, SERVICES
from berth.testing.views import eventually


async def test_the_first_list_then_changes_then_deletions(world: Any, patched: Any) -> None:
    await world.create_node("n1")
    for index in range(30):
        await world.create_pod(f"p{index}")
    shell, _ = await world.watcher(list_page=7)
    await world.synced()
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
    answer = await world.status()
    assert (answer.service, answer.active, answer.ready) == ("cluster-watcher", True, True)
    assert answer.facts["pods"] == 29
    assert answer.facts["pods are"] == "synced"
    assert shell._check() == (True, "synced")


async def test_a_pod_made_again_under_its_name(world: Any) -> None:
    await world.watcher()
    await world.synced()
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
    await world.synced()
    await eventually(lambda: "configmap.default.a" in world.cluster.values)
    assert "configmap.default.b" not in world.cluster.values
    proven = {"configmap.default.a", "configmap.default.absent"}
    await eventually(lambda: proven <= {marker.kind for marker in world.cluster.markers if marker.complete})
    reserved = decode(world.cluster.values["reservation.r"], state.Reservation)
    assert reserved.template.requests == {"cpu": 2000}
    assert [problem.field for problem in reserved.problems] == [f"metadata.annotations[{names.ANNOTATION_ATTEMPT}]"]
    assert world.cluster.complete["reservations"].version >= reserved.version
    answer = await world.status()
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
    facts = (await world.status()).facts
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
    await world.synced()
    version = await world.create_node("n1")  # a version that no pod has
    await eventually(lambda: world.cluster.complete["pods"].version >= version)
    await eventually(lambda: world.cluster.complete["reservations"].version >= version)


async def test_an_unbound_pod_begins_a_trace(world: Any) -> None:
    with telemetry.recorded_spans() as spans:
        await world.create_pod("before")
        await world.watcher()
        await world.synced()
        await world.create_pod("after")
        await eventually(lambda: world.cluster.pods == {"before", "after"})
        for name in ("before", "after"):
            trace = world.cluster.traces[f"pod.default.{name}"]
            assert trace is not None
            assert any(f"{span.context.trace_id:032x}" in trace for span in spans.get_finished_spans())


async def test_a_pod_that_cannot_be_read_is_refused_with_a_reason(world: Any) -> None:
    await world.create_pod("bad", annotations={names.ANNOTATION_ATTEMPT: "x" * 100_000})
    await world.watcher()
    await world.synced()
    await eventually(lambda: world.cluster.pod("bad"))
    seen = world.cluster.pod("bad")
    assert f"metadata.annotations[{names.ANNOTATION_ATTEMPT}]" in [problem.field for problem in seen.problems]
    assert len(world.cluster.values["pod.default.bad"]) < 64 << 10


async def test_a_burst_of_changes_of_the_same_pods_arrives_in_order(world: Any, patched: Any) -> None:
    """A follower never reads a version before all that came before it."""
    await world.watcher()
    await world.synced()
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


async def test_a_config_map_that_outgrows_the_bus_after_its_list_moves_the_marker_on(world: Any) -> None:
    await world.restart_api(bookmark_s=3600)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    await world.create(CONFIG_MAPS, "default", body)
    await world.watcher(config_maps=("default/c",))
    await eventually(lambda: world.complete_markers("configmap.default.c"))
    answer = await world.kube.patch(CONFIG_MAPS, "default", "c", {"data": {"a": "x" * (600 << 10)}})
    assert answer.ok, answer
    version = int(msgspec.json.decode(answer.body)["metadata"]["resourceVersion"])
    await eventually(lambda: world.complete_markers("configmap.default.c")[-1] >= version, deadline_s=8)


async def test_of_what_selects_pods_only_another_selector_is_written(world: Any) -> None:
    """A ReplicaSet's status changes with each of its pods; followers learn of that by the marker alone."""
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {}},
    }
    made = await world.create(REPLICA_SETS, "default", body)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "a"}}}
    await world.create(SERVICES, "default", service)
    await world.watcher()
    await eventually(lambda: world.complete_markers("replicasets") and world.complete_markers("services"))
    key = "replicaset.default.web"
    assert decode(world.cluster.values[key], state.ReplicaSet).version == made
    answer = await world.kube.patch(REPLICA_SETS, "default", "web", {"metadata": {"annotations": {"a": "b"}}})
    newest = int(msgspec.json.decode(answer.body)["metadata"]["resourceVersion"])
    await eventually(lambda: world.complete_markers("replicasets")[-1] >= newest)
    assert world.cluster.versions[key] == made
    await world.kube.patch(SERVICES, "default", "web", {"spec": {"selector": {"app": "b"}}})
    await eventually(
        lambda: decode(world.cluster.values["service.default.web"], state.Service).selector == {"app": "b"}
    )
    assert (await world.kube.delete(REPLICA_SETS, "default", "web")).ok
    await eventually(lambda: key not in world.cluster.values)
    again = await world.create(REPLICA_SETS, "default", body)
    await eventually(lambda: key in world.cluster.values)
    assert world.cluster.versions[key] == again
    assert not world.cluster.went_back
