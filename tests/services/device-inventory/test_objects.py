"""The objects that are made of what agents report: when they are asked for, let alone and deleted."""

from typing import Any

import msgspec
import pytest
from tests.services.worlds.inventory import GI, WHOLE, Bench, machine, node

from berth.contracts import names
from berth.contracts.codec import encode
from berth.contracts.command import MANAGER, ApplyObject, DeleteObject
from berth.contracts.event import NodeChanged
from berth.contracts.inventory import NodeInventory
from berth.contracts.node_report import NodeReport, ReportedCore, ReportedDevice, ReportedZone
from berth.contracts.slo import NodeOffer, ZoneOffer
from berth.contracts.state import Device, DeviceInfo, NodeResourceTopology, Pod, PodTemplate, Synced
from berth.contracts.subjects import named_key, synced_key
from berth.device_inventory.core.count import inventory_of


def report(version: int = 1, *, gpus: int = 2, ill: int = 0, name: str = "n") -> NodeReport:
    devices = [
        ReportedDevice(kind="gpu", minor=minor, id=f"g{minor}", healthy=minor >= ill, amounts=WHOLE)
        for minor in range(gpus)
    ]
    return NodeReport(node=name, version=version, parts={"devices": version}, devices=devices)


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
    bench.show(node(version=2, annotations={names.ANNOTATION_DEVICE_CORDON: "gpu/1,gpu/x,gpu=0"}))
    outcome = bench.decide("n", 1.0)
    assert isinstance(outcome.inventory, NodeInventory)
    assert [(slot.healthy, slot.reason) for slot in outcome.inventory.devices] == [(True, ""), (False, "Cordoned")]
    assert outcome.inventory.totals[names.GPU_CORE] == 100
    assert outcome.patch.resources[names.GPU_CORE] == "100"
    field = f"metadata.annotations[{names.ANNOTATION_DEVICE_CORDON}]"
    assert [(problem.field, "'gpu=0'" in problem.message) for problem in outcome.inventory.problems] == [
        (f"{field}[1]", False),
        (field, True),
    ]
    assert outcome.events[0] == NodeChanged(node="n", message="gpu 1 became unhealthy")
    bench.show(node(version=3))
    again = bench.decide("n", 2.0).inventory
    assert again == inventory_of(machine())


# --- NodeResourceTopology objects -------------------------------------------------------------------------------------


def layout(version: int = 1) -> NodeReport:
    cores = [ReportedCore(socket=0, core=core, zone=0, cpus=str(core)) for core in range(4)]
    zones = [ReportedZone(zone=0, memory=GI)]
    return NodeReport(node="n", version=version, parts={"cpus": version}, cores=cores, zones=zones)


def laid_out() -> Bench:
    """A node whose agent reports its CPUs."""
    bench = Bench(sync_nodes=False)
    bench.show(node())
    bench.complete()
    for kind in ("noderesourcetopologies", "pods"):
        sink = bench.pods if kind == "pods" else None
        bench.entry(synced_key(kind), encode(Synced(kind=kind, version=9, complete=True)), sink)
    bench.pods.end(1)
    bench.report(layout())
    return bench


def topology(apply: ApplyObject, **more: Any) -> NodeResourceTopology:
    fields: dict[str, Any] = {
        "labels": {names.LABEL_MANAGED_BY: MANAGER},
        "annotations": {**apply.annotations, names.ANNOTATION_REVISION: str(apply.revision)},
        "zones": apply.fields["zones"],
        "policies": apply.fields["topologyPolicies"],
    }
    return NodeResourceTopology(**{"name": "n", "uid": "t", "version": 4, **fields, **more})


def pod(cpus: str, *, uid: str = "p", phase: str = "Running") -> bytes:
    template = PodTemplate(annotations={names.ANNOTATION_RESOURCE_STATUS: f'{{"cpuset":"{cpus}"}}'})
    return encode(Pod(namespace="a", name=uid, uid=uid, version=1, template=template, node="n", phase=phase))


def see(bench: Bench, seen: NodeResourceTopology) -> None:
    bench.entry(named_key("noderesourcetopology", "n"), encode(seen))


def test_reported_cpus_ask_for_the_nodes_topology_once() -> None:
    bench = laid_out()
    (apply,) = bench.asks(50.0)
    assert isinstance(apply, ApplyObject)
    assert (apply.api, apply.spec) == ("topology.node.k8s.io/v1alpha1/noderesourcetopologies", {})
    assert [zone["name"] for zone in apply.fields["zones"]] == ["node-0"]
    assert bench.asks(51.0) == []
    see(bench, topology(apply))
    assert bench.asks(52.0) == []
    bench.report(layout(2))
    assert bench.asks(53.0) == [], "another report of the same CPUs"


def test_a_pod_with_cpus_of_its_own_changes_the_pools_and_others_change_nothing() -> None:
    bench = laid_out()
    see(bench, topology(bench.asks(50.0)[0]))
    bench.entry("pod.a.q", pod(""), bench.pods)
    assert bench.asks(51.0) == []
    bench.entry("pod.a.p", pod("2-3"), bench.pods)
    (apply,) = bench.asks(52.0)
    assert apply.annotations[names.ANNOTATION_CPU_SHARED_POOLS] == '[{"socket":0,"node":0,"cpuset":"0-1"}]'
    see(bench, topology(apply))
    bench.entry("pod.a.p", pod("2-3", phase="Succeeded"), bench.pods)
    (apply,) = bench.asks(53.0)
    assert apply.annotations[names.ANNOTATION_CPU_SHARED_POOLS] == '[{"socket":0,"node":0,"cpuset":"0-3"}]'


def test_no_topology_is_made_before_all_pods_are_shown() -> None:
    """A pool would have the CPUs of a pod that was not read yet."""
    bench = laid_out()
    bench.pods.reset()
    assert bench.asks(50.0) == []
    bench.entry("pod.a.p", b"{", bench.pods)
    assert bench.pods.unreadable == 1


@pytest.mark.parametrize("labels", [{}, {names.LABEL_MANAGED_BY: "Koordinator"}])
def test_the_topology_of_another_agent_is_let_alone(labels: dict[str, str]) -> None:
    bench = laid_out()
    (apply,) = bench.asks(50.0)
    see(bench, topology(apply, labels=labels, zones=[]))
    assert bench.asks(51.0) == []
    bench.report(None)
    assert bench.asks(52.0) == []


@pytest.mark.parametrize("why", ["withdrawn", "not looked at", "no node"])
def test_our_topology_goes_with_what_it_says(why: str) -> None:
    bench = laid_out()
    (apply,) = bench.asks(50.0)
    see(bench, topology(apply))
    if why == "withdrawn":
        bench.report(None)
    elif why == "not looked at":
        bench.report(NodeReport(node="n", version=2))
    else:
        bench.drop("node", "n")
    assert bench.asks(60.0) == [DeleteObject(api=apply.api, name="n", uid="t")]


def test_a_layout_that_cannot_be_leaves_the_object_as_it_is() -> None:
    bench = laid_out()
    see(bench, topology(bench.asks(50.0)[0]))
    bench.report(
        NodeReport(
            node="n", version=2, parts={"cpus": 2}, cores=[ReportedCore(socket=0, core=0, zone=0, cpus="0-99999999")]
        )
    )
    assert bench.asks(60.0) == []
    assert str(bench.reconciler.facts["reports that cannot be"]).startswith("n: cores[0].cpus")


# --- what its NUMA nodes lend -----------------------------------------------------------------------------------------


def two_zones() -> Bench:
    bench = laid_out()
    cores = [ReportedCore(socket=0, core=core, zone=core // 2, cpus=str(core)) for core in range(4)]
    zones = [ReportedZone(zone=zone, memory=GI) for zone in (0, 1)]
    bench.report(NodeReport(node="n", version=2, parts={"cpus": 2}, cores=cores, zones=zones))
    return bench


def offers(bench: Bench, *zones: ZoneOffer, uid: str = "u", is_said: bool = True) -> None:
    offer = NodeOffer(node="n", uid=uid, revision=7, zones_written=list(zones) if is_said else None)
    bench.entry(named_key("offer", "n"), encode(offer), bench.offers)


def lends(zone: int, milli: int) -> ZoneOffer:
    return ZoneOffer(zone=zone, amounts={names.BATCH_CPU: milli, names.BATCH_MEMORY: GI})


def batch(apply: ApplyObject) -> list[str | None]:
    """What is to be shown of batch cpu by NUMA node; None: nothing."""
    shown = [{each["name"]: each for each in zone["resources"]} for zone in apply.fields["zones"]]
    for resources in shown:
        assert all(each["available"] == each["allocatable"] for each in resources.values())
        assert (names.BATCH_CPU in resources) == (names.BATCH_MEMORY in resources)
    return [resources.get(names.BATCH_CPU, {}).get("capacity") for resources in shown]


def test_the_topology_shows_what_slo_says_that_its_numa_nodes_lend() -> None:
    bench = two_zones()
    (apply,) = bench.asks(50.0)
    assert batch(apply) == [None, None]
    see(bench, topology(apply))
    bench.marked.clear()
    offers(bench, lends(0, 1_500))
    assert bench.marked == {"n"}
    (apply,) = bench.asks(51.0)
    assert batch(apply) == ["1500", "0"], "one that is not named lends nothing"
    see(bench, topology(apply))
    assert bench.asks(52.0) == []
    offers(bench, lends(0, 1_500))
    offers(bench, lends(0, 1_400), lends(1, 200))
    (apply,) = bench.asks(52.1)
    assert batch(apply) == ["1400", "200"]
    see(bench, topology(apply))
    offers(bench)
    assert batch(bench.asks(53.0)[0]) == [None, None]


def test_what_changes_of_an_offer_and_is_not_to_be_shown_marks_nobody() -> None:
    bench = two_zones()
    offers(bench, lends(0, 1_500))
    bench.marked.clear()
    offer = NodeOffer(node="n", uid="u", revision=9, zones=[lends(0, 9)], zones_written=[lends(0, 1_500)])
    bench.entry(named_key("offer", "n"), encode(offer), bench.offers)
    assert bench.marked == set()


@pytest.mark.parametrize("why", ["lost", "nobody says", "another node", "unreadable"])
def test_where_nobody_says_it_what_is_shown_stays_while_the_node_lends(why: str) -> None:
    bench = two_zones()
    offers(bench, lends(0, 1_500), lends(1, 100))
    (apply,) = bench.asks(50.0)
    see(bench, topology(apply))
    bench.show(node(version=2, allocatable={names.BATCH_CPU: 1_600}))
    if why == "lost":
        bench.offers.reset()
    elif why == "nobody says":
        offers(bench, is_said=False)
    elif why == "another node":
        offers(bench, uid="former")
    else:
        bench.entry(named_key("offer", "n"), b"{", bench.offers)
        assert bench.reconciler.unreadable == 1
    assert bench.asks(51.0) == []
    bench.report(msgspec.structs.replace(bench.agents.reports["n"], version=3, parts={"cpus": 3}))
    assert bench.asks(52.0) == []
    bench.show(node(version=3))
    asked = bench.asks(53.0)
    assert [batch(each) for each in asked] == ([] if why == "unreadable" else [[None, None]])
