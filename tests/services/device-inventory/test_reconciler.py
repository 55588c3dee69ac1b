"""The reconciler and its views: what is written, withdrawn, sent and announced, in every order of arrival."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.bus.port import Entry
from berth.contracts import names
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.command import MANAGER, ApplyObject, DeleteObject
from berth.contracts.event import NodeChanged, ObjectRefused
from berth.contracts.inventory import NodeInventory
from berth.contracts.node_report import NodeReport, ReportedDevice
from berth.contracts.state import Device, DeviceInfo, Node, Synced
from berth.contracts.subjects import named_key, synced_key
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.reconciler import Reconciler, Rules
from berth.device_inventory.views import AgentView, InventoryView, StateView
from berth.runtime import Moment

GI = 1 << 30
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI}


class Decision(NamedTuple):
    """What an outcome comes to for one node."""

    inventory: Message | None = None
    withdraw: bool = False
    patch: Any = None
    events: list[Message] = []


NOTHING = Decision()


def machine(name: str = "n", gpus: int = 2, *, version: int = 1, broken: int = 0) -> Device:
    entries = [DeviceInfo(kind="gpu", minor=m, healthy=m >= broken, amounts=WHOLE, position=m) for m in range(gpus)]
    return Device(name=name, uid="d", version=version, devices=entries)


def node(name: str = "n", gpus: int = 0, **more: Any) -> Node:
    sums = dict.fromkeys((names.GPU_CORE, names.GPU_MEMORY_RATIO, names.KOORD_GPU, names.GPU_SHARED), 100 * gpus)
    sums[names.GPU_MEMORY] = 80 * GI * gpus
    shown = sums if gpus else {}
    return Node(**({"name": name, "uid": "u", "version": 1, "allocatable": shown, "capacity": shown} | more))


class Bench:
    """A reconciler with its views, fed by hand."""

    def __init__(self, **rules: Any) -> None:
        self.marked: set[str] = set()
        self.view = StateView(self.marked.add, self.mark_all)
        self.agents = AgentView(self.marked.add)
        self.published = InventoryView(self.marked.add)
        self.reconciler = Reconciler(Rules(**rules), self.view, self.agents, self.published)

    def mark_all(self) -> None:
        self.marked |= set(self.reconciler.names())

    def decide(self, name: str, now: float) -> Decision:
        """Reconciled, and written as the harness does."""
        outcome = self.reconciler.reconcile(name, Moment(now, now))
        for write in outcome.writes:
            self.published.wrote(write.key, write.message)
        (written,) = [write.message for write in outcome.writes] or [None]
        (patch,) = [command.message for command in outcome.commands] or [None]
        events = [event.message for write in outcome.writes for event in write.events]
        return Decision(written, bool(outcome.writes) and written is None, patch, events)

    def asks(self, now: float, name: str = "n") -> list[Any]:
        """What is asked for about the Device object."""
        outcome = self.reconciler.reconcile(name, Moment(now, now))
        messages = [command.message for command in outcome.commands]
        return [message for message in messages if isinstance(message, ApplyObject | DeleteObject)]

    def overdue(self, now: float) -> list[str]:
        return self.reconciler.due(Moment(now, now))

    def show(self, message: Device | Node) -> None:
        kind = "device" if isinstance(message, Device) else "node"
        self.entry(named_key(kind, message.name), encode(message))

    def drop(self, kind: str, name: str) -> None:
        self.entry(named_key(kind, name), b"")

    def complete(self, *, listed: bool = True, version: int = 9) -> None:
        for kind in ("devices", "nodes"):
            self.entry(synced_key(kind), encode(Synced(kind=kind, version=version, complete=listed)))
        self.view.end(1)

    def report(self, message: NodeReport | None, name: str = "n") -> None:
        self.entry(named_key("report", name), b"" if message is None else encode(message), self.agents)

    def entry(self, key: str, value: bytes, sink: Any = None) -> None:
        (sink or self.view).apply(Entry(key, value, value == b"", 1, 0, False, None))


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


# --- Device objects of what agents report -----------------------------------------------------------------------------


def report(version: int = 1, *, gpus: int = 2, ill: int = 0, name: str = "n") -> NodeReport:
    devices = [
        ReportedDevice(kind="gpu", minor=minor, id=f"g{minor}", healthy=minor >= ill, amounts=WHOLE)
        for minor in range(gpus)
    ]
    return NodeReport(node=name, version=version, looks_at=["devices"], devices=devices)


def shown(apply: ApplyObject, *, version: int = 3, **more: Any) -> Device:
    """What STATE says once the request was carried out."""
    entries = [
        DeviceInfo(
            kind=entry["type"],
            minor=entry["minor"],
            uuid=entry["id"],
            healthy=entry["health"],
            amounts=WHOLE,
            position=position,
        )
        for position, entry in enumerate(apply.spec["devices"])
    ]
    fields: dict[str, Any] = {
        "labels": {**apply.labels, names.LABEL_MANAGED_BY: MANAGER},
        "annotations": {**apply.annotations, names.ANNOTATION_REVISION: str(apply.revision)},
    }
    return Device(**{"name": apply.name, "uid": "d", "version": version, "devices": entries, **fields, **more})


def reporting(**rules: Any) -> Bench:
    """A node whose agent reports, and that has no object yet."""
    bench = Bench(**rules)
    bench.show(node())
    bench.complete()
    bench.report(report())
    return bench


def test_a_report_asks_for_the_nodes_object_once() -> None:
    bench = reporting()
    assert "n" in bench.marked
    (apply,) = bench.asks(50.0)
    assert (apply.api, apply.name) == ("scheduling.koordinator.sh/v1alpha1/devices", "n")
    assert (apply.owner.kind, apply.owner.name, apply.owner.uid, apply.owner.controller) == ("Node", "n", "u", True)
    assert apply.revision == 50_000
    assert [entry["id"] for entry in apply.spec["devices"]] == ["g0", "g1"]
    assert bench.asks(51.0) == []
    bench.show(shown(apply))
    assert bench.asks(52.0) == []
    assert bench.overdue(9_999.0) == ["n"], "the sums of the node alone"


def test_a_request_that_does_not_show_is_repeated_and_is_above_the_object() -> None:
    bench = reporting(retry_s=30.0, sync_nodes=False)
    (apply,) = bench.asks(50.0)
    bench.show(shown(apply, annotations={names.ANNOTATION_REVISION: "9000000"}))
    assert bench.asks(79.0) == []
    assert bench.overdue(80.0) == ["n"]
    (again,) = bench.asks(80.0)
    assert again.revision == 9_000_001, "no clock that went back holds it up"
    assert bench.asks(139.0) == []
    assert len(bench.asks(140.0)) == 1, "later and later"


def test_a_new_report_is_asked_for_at_once() -> None:
    bench = reporting()
    bench.asks(50.0)
    bench.report(report(2, ill=1))
    (apply,) = bench.asks(50.1)
    assert [entry["health"] for entry in apply.spec["devices"]] == [False, True]


@pytest.mark.parametrize("labels", [{}, {names.LABEL_MANAGED_BY: "Koordinator"}])
def test_the_object_of_another_agent_is_let_alone(labels: dict[str, str]) -> None:
    bench = reporting()
    bench.show(machine())
    bench.show(Device(name="n", uid="d", version=2, labels=labels))
    assert bench.asks(50.0) == []
    bench.report(None)
    assert bench.asks(51.0) == []
    bench.drop("node", "n")
    assert bench.asks(52.0) == []
    assert bench.reconciler.facts["objects of others"] == 0
    bench.report(report())
    assert bench.reconciler.facts["objects of others"] == 1


def test_an_object_that_was_changed_by_hand_is_put_right() -> None:
    bench = reporting()
    (apply,) = bench.asks(50.0)
    bench.show(shown(apply))
    bench.asks(51.0)
    ours = shown(apply)
    bench.show(shown(apply, devices=ours.devices[:1], version=9))
    assert [entry["id"] for entry in bench.asks(52.0)[0].spec["devices"]] == ["g0", "g1"]


@pytest.mark.parametrize("why", ["withdrawn", "no devices", "not looked at", "no node"])
def test_our_object_goes_with_what_it_says(why: str) -> None:
    bench = reporting()
    (apply,) = bench.asks(50.0)
    bench.show(shown(apply))
    if why == "withdrawn":
        bench.report(None)
    elif why == "no devices":
        bench.report(report(2, gpus=0))
    elif why == "not looked at":
        bench.report(NodeReport(node="n", version=2))
    else:
        bench.drop("node", "n")
    (deletion,) = bench.asks(60.0)
    assert deletion == DeleteObject(api=apply.api, name="n", uid="d")
    assert bench.asks(61.0) == []
    bench.drop("device", "n")
    assert bench.asks(62.0) == []


def test_a_report_that_is_not_there_withdraws_nothing() -> None:
    """The bucket was lost, or is read anew: the agent will say."""
    bench = reporting()
    (apply,) = bench.asks(50.0)
    bench.show(shown(apply))
    bench.agents.reset()
    assert bench.asks(60.0) == []


def test_a_node_that_is_not_known_to_be_gone_keeps_its_object() -> None:
    bench = reporting()
    (apply,) = bench.asks(50.0)
    bench.show(shown(apply))
    bench.entry(synced_key("nodes"), encode(Synced(kind="nodes", version=9, complete=False)))
    bench.drop("node", "n")
    assert bench.asks(60.0) == []


@pytest.mark.parametrize("missing", ["list", "kind", "setting", "node", "leaving node"])
def test_nothing_is_asked_for_before_it_can_be(missing: str) -> None:
    bench = Bench(sync_objects=missing != "setting")
    if missing not in ("node", "leaving node"):
        bench.show(node())
    elif missing == "leaving node":
        bench.show(node(deleting=True))
    bench.report(report())
    if missing != "list":
        bench.complete(version=0 if missing == "kind" else 9)
    assert bench.asks(50.0) == []
    if missing == "kind":
        bench.marked.clear()
        bench.complete(version=10)
        assert "n" in bench.marked, "the kind was installed"
        assert len(bench.asks(51.0)) == 1


def test_a_report_that_cannot_be_read_or_is_anothers_leaves_what_was_known() -> None:
    bench = reporting()
    (first,) = bench.asks(50.0)
    bench.entry(named_key("report", "n"), b"{", bench.agents)
    bench.entry(named_key("report", "n"), encode(report(9, name="other")), bench.agents)
    bench.entry(named_key("node", "n"), encode(report(9)), bench.agents)
    bench.entry("report.%", b"{", bench.agents)
    assert bench.agents.unreadable == 2
    bench.reconciler.begin()
    assert bench.asks(51.0)[0].spec == first.spec


def test_a_cordoned_device_is_withdrawn_and_comes_back() -> None:
    bench = Bench()
    bench.show(machine())
    bench.show(node())
    bench.complete()
    bench.decide("n", 0.0)
    bench.show(node(version=2, annotations={names.ANNOTATION_DEVICE_CORDON: "gpu/1,gpu/x"}))
    outcome = bench.decide("n", 1.0)
    assert isinstance(outcome.inventory, NodeInventory)
    assert [(slot.healthy, slot.reason) for slot in outcome.inventory.devices] == [(True, ""), (False, "Cordoned")]
    assert outcome.inventory.totals[names.GPU_CORE] == 100
    assert outcome.patch.resources[names.GPU_CORE] == "100"
    assert [problem.field for problem in outcome.inventory.problems] == [
        f"metadata.annotations[{names.ANNOTATION_DEVICE_CORDON}][1]"
    ]
    assert outcome.events[0] == NodeChanged(node="n", message="gpu 1 became unhealthy")
    bench.show(node(version=3))
    again = bench.decide("n", 2.0).inventory
    assert again == inventory_of(machine())
