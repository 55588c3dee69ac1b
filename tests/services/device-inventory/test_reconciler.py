"""The reconciler and its views: what is written, withdrawn, sent and announced, in every order of arrival."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.worlds.inventory import NOTHING, Bench, Decision, machine, node

from berth.contracts import names
from berth.contracts.codec import encode
from berth.contracts.event import NodeChanged, ObjectRefused
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device, DeviceInfo, Node, NodeResourceTopology, Synced
from berth.contracts.subjects import named_key, synced_key
from berth.device_inventory.core.count import inventory_of
from berth.rules.cpus.node_topology import topology_of


def test_a_device_is_published_and_its_node_patched_once() -> None:
    bench = Bench()
    bench.show(machine())
    bench.show(node())
    bench.complete()
    assert "n" in bench.marked
    outcome = bench.decide("n", 0.0)
    assert outcome.inventory == inventory_of(machine())
    assert outcome.patch is not None
    assert outcome.patch.resources[names.GPU_CORE] == "200"
    assert outcome.patch.resources[names.GPU_SHARED] == "200"
    assert outcome.events == [NodeChanged(node="n", message="gpu 0, 1 appeared")]
    assert bench.decide("n", 1.0) == NOTHING


def test_an_unanswered_patch_is_asked_again_after_a_while_and_not_once_it_shows() -> None:
    bench = Bench(retry_s=30.0)
    bench.show(machine())
    bench.show(node())
    bench.complete()
    first = bench.decide("n", 0.0).patch
    assert bench.overdue(29.0) == []
    assert bench.overdue(30.0) == ["n"]
    assert bench.decide("n", 30.0).patch == first
    bench.show(node(gpus=2))
    assert bench.decide("n", 31.0) == NOTHING
    assert bench.overdue(99.0) == []


def test_a_changed_wish_is_asked_for_at_once() -> None:
    bench = Bench()
    bench.show(machine())
    bench.show(node())
    bench.complete()
    bench.decide("n", 0.0)
    bench.show(machine(version=2, broken=1))
    outcome = bench.decide("n", 0.1)
    assert outcome.patch is not None
    assert outcome.patch.resources[names.GPU_CORE] == "100"
    assert outcome.events == [NodeChanged(node="n", message="gpu 0 became unhealthy")]


def test_a_kubelet_that_drops_the_names_is_repaired() -> None:
    bench = Bench()
    bench.show(machine())
    bench.show(node(gpus=2))
    bench.complete()
    assert bench.decide("n", 0.0).patch is None
    bench.show(node(version=2))
    assert bench.decide("n", 1.0).patch is not None


def test_a_new_version_with_the_same_devices_is_published_and_no_news() -> None:
    bench = Bench()
    bench.show(machine())
    bench.complete()
    bench.decide("n", 0.0)
    bench.show(machine(version=2))
    assert bench.decide("n", 1.0) == Decision(inventory=inventory_of(machine(version=2)))
    assert bench.decide("n", 2.0) == NOTHING


def test_a_deleted_device_takes_inventory_and_resources_with_it() -> None:
    bench = Bench()
    bench.show(machine())
    bench.show(node(gpus=2))
    bench.complete()
    bench.decide("n", 0.0)
    bench.drop("device", "n")
    outcome = bench.decide("n", 1.0)
    assert outcome.withdraw
    assert outcome.patch is not None
    assert set(outcome.patch.resources.values()) == {None}
    assert outcome.events == [NodeChanged(node="n", message="gpu 0, 1 vanished")]
    bench.show(node())
    assert bench.decide("n", 2.0) == NOTHING


@pytest.mark.parametrize("step", ["nothing", "end only", "relist begun"])
def test_nothing_is_withdrawn_without_proof(step: str) -> None:
    bench = Bench()
    bench.entry(named_key("node", "n"), encode(inventory_of(machine())), bench.published)
    bench.show(node(gpus=2))
    if step == "end only":
        bench.view.end(1)
    elif step == "relist begun":
        bench.complete()
        bench.complete(listed=False)
    assert bench.decide("n", 0.0) == NOTHING
    bench.marked.clear()
    bench.complete()
    assert "n" in bench.marked
    assert bench.decide("n", 1.0).withdraw


def test_a_lost_state_withdraws_nothing() -> None:
    bench = Bench()
    bench.show(machine())
    bench.show(node(gpus=2))
    bench.complete()
    bench.decide("n", 0.0)
    bench.view.reset()
    assert bench.decide("n", 1.0) == NOTHING
    bench.view.end(0)
    bench.show(node(gpus=2))
    assert bench.decide("n", 2.0) == NOTHING, "an empty bucket proves nothing"


def test_problems_are_told_when_they_are_new() -> None:
    bench = Bench()
    bad = DeviceInfo(kind="gpu", minor=0, healthy=True, amounts={names.GPU_CORE: 500})
    bench.show(Device(name="n", uid="d", version=1, devices=[bad]))
    bench.complete()
    refused = [event for event in bench.decide("n", 0.0).events if isinstance(event, ObjectRefused)]
    assert [problem.field for problem in refused[0].problems] == [f"spec.devices[0].resources[{names.GPU_CORE}]"]
    bench.show(Device(name="n", uid="d", version=2, devices=[bad]))
    assert bench.decide("n", 1.0).events == []


def test_unreadable_messages_are_counted_and_leave_what_was_known() -> None:
    bench = Bench()
    bench.show(machine())
    bench.complete()
    bench.decide("n", 0.0)
    for key, value in (
        ("device.n", b"{"),
        ("device.n", b'{"type":"device.seen.v1","name":7}'),
        ("node.n", encode(machine())),
        (synced_key("devices"), b"[]"),
        ("device.=zz", b""),
        ("device.n", encode(machine(name="x" * 5000))),
    ):
        bench.entry(key, value)
    assert bench.view.unreadable == 6
    assert bench.decide("n", 1.0) == NOTHING
    bench.entry("something.else", b"{")
    assert bench.view.unreadable == 6


def test_an_unreadable_or_foreign_inventory_is_written_again() -> None:
    bench = Bench()
    bench.show(machine())
    bench.complete()
    bench.decide("n", 0.0)
    for value in (b"{", encode(NodeInventory(node="n", version=1)), b""):
        bench.marked.clear()
        bench.entry(named_key("node", "n"), value, bench.published)
        assert bench.marked == {"n"}
        assert bench.decide("n", 1.0).inventory == inventory_of(machine())
    bench.marked.clear()
    bench.entry(named_key("node", "n"), encode(inventory_of(machine())), bench.published)
    assert not bench.marked, "the echo of our own write is no news"


def test_an_unreadable_inventory_without_a_device_is_withdrawn() -> None:
    bench = Bench()
    bench.entry(named_key("node", "old"), b"{", bench.published)
    bench.complete()
    assert bench.decide("old", 0.0).withdraw
    assert bench.decide("old", 1.0) == NOTHING


def test_nodes_can_be_left_to_another_manager() -> None:
    bench = Bench(sync_nodes=False)
    bench.show(machine())
    bench.show(node())
    bench.complete()
    assert bench.decide("n", 0.0).patch is None


def test_a_node_that_is_going_is_not_patched() -> None:
    bench = Bench()
    bench.show(machine())
    bench.show(node(deleting=True))
    bench.complete()
    assert bench.decide("n", 0.0).patch is None


def test_counts_follow_what_is_published() -> None:
    bench = Bench()
    bench.complete()
    for device in (machine("a"), machine("b", broken=1), machine("a", version=2, gpus=1)):
        bench.show(device)
        bench.decide(device.name, 0.0)
    assert dict(bench.published.devices) == {("gpu", True): 2, ("gpu", False): 1}
    bench.drop("device", "a")
    bench.decide("a", 1.0)
    assert +bench.published.devices == {("gpu", True): 1, ("gpu", False): 1}


steps = st.lists(
    st.one_of(
        st.builds(
            machine, st.sampled_from("ab"), st.integers(0, 3), version=st.integers(1, 9), broken=st.integers(0, 3)
        ),
        st.builds(node, st.sampled_from("ab"), st.integers(0, 3)),
        st.sampled_from([("device", "a"), ("device", "b"), ("node", "a"), ("decide", "a"), ("decide", "b")]),
    ),
    max_size=25,
)


@given(steps)
def test_whatever_came_before_what_is_published_ends_as_the_devices_are(history: list[Any]) -> None:
    bench = Bench()
    bench.complete()
    for step in history:
        if isinstance(step, Device | Node):
            bench.show(step)
        elif step[0] == "decide":
            bench.decide(step[1], 0.0)
        else:
            bench.drop(*step)
    for name in bench.marked:
        bench.decide(name, 1.0)
    expected = {name: inventory_of(device) for name, device in bench.view.devices.items()}
    assert {n: (i.devices, i.totals) for n, i in bench.published.messages.items()} == {
        n: (i.devices, i.totals) for n, i in expected.items()
    }
    assert all(bench.decide(name, 2.0) == NOTHING for name in bench.reconciler.names())


@given(
    st.sampled_from(["device.n", "node.n", "synced.devices", "device.", "device", "node.=", "", "a.b.c", "device.n.m"]),
    st.binary(max_size=60)
    | st.sampled_from([encode(machine()), encode(node()), encode(machine("=")), b"null", b"[" * 5000, b"\xff{}"]),
)
def test_no_bytes_on_the_bus_stop_the_views(key: str, value: bytes) -> None:
    bench = Bench()
    bench.complete()
    bench.entry(key, value)
    bench.entry(key, value, bench.published)
    for name in bench.reconciler.names():
        bench.decide(name, 0.0)


# --- topologies -------------------------------------------------------------------------------------------------------


def report(name: str = "n", *, version: int = 1, cpus: str = "") -> NodeResourceTopology:
    detail = '{"detail":[{"id":0,"core":0,"socket":0,"node":0}]}'
    return NodeResourceTopology(name=name, version=version, annotations={names.ANNOTATION_CPU_TOPOLOGY: cpus or detail})


def test_a_topology_is_published_for_each_version_and_withdrawn_when_the_list_proves_it() -> None:
    bench, key = Bench(), named_key("topology", "n")
    bench.show(report())
    assert bench.marked == {"n"}
    assert bench.decide("n", 0.0).inventory == topology_of(report())
    assert bench.decide("n", 0.0) == NOTHING
    bench.show(report(version=2))
    assert bench.decide("n", 0.0).inventory == topology_of(report(version=2))
    bench.drop("noderesourcetopology", "n")
    assert bench.decide("n", 0.0) == NOTHING, "nothing says that this is all"
    marker = Synced(kind="noderesourcetopologies", version=3, complete=True)
    bench.entry(synced_key("noderesourcetopologies"), encode(marker))
    bench.view.end(1)
    assert bench.decide("n", 0.0).withdraw
    assert (bench.published.name_of(key), bench.published.topologies.messages) == (None, {})


def test_problems_of_a_topology_are_announced_once() -> None:
    bench = Bench()
    for version in (1, 2):
        bench.show(report(version=version, cpus="{}"))
        events = bench.decide("n", 0.0).events
        assert [type(each) for each in events] == ([ObjectRefused] if version == 1 else [])
    assert bench.reconciler.facts["topologies with problems"] == 1


def test_what_somebody_else_wrote_of_a_topology_is_put_right() -> None:
    bench = Bench()
    bench.show(report())
    bench.decide("n", 0.0)
    for value in (b"{", encode(topology_of(report(cpus="{}")))):
        bench.marked.clear()
        bench.entry(named_key("topology", "n"), value, bench.published)
        assert bench.marked == {"n"}
        assert bench.decide("n", 0.0).inventory == topology_of(report())
