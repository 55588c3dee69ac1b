"""What is given out within a node: CPUs, virtual functions, NUMA nodes, partitions, and what cards are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.libs.invariants.stage import stage
from tests.libs.invariants.story import Json, Story
from tests.libs.invariants.worlds import check_of, meta, node, pod

from berth.contracts import names
from berth.contracts.grants import CPU, allocation_of, device, function, one
from berth.contracts.ledger import Grant
from berth.invariants import Excuse
from berth.invariants.observer.sight import Reader
from berth.rules.records.resource_status import zone_grant

GIB = 1 << 30


def topology(name: str = "n1", *, kept: str = "", cpus: int = 8, zones: tuple[int, ...] = (0, 1)) -> Json:
    """CPUs in pairs, NUMA nodes with four of them and 16 GiB each."""
    lies = [zones[cpu * len(zones) // cpus] for cpu in range(cpus)]
    detail = [{"id": cpu, "core": cpu // 2, "socket": 0, "node": lying} for cpu, lying in enumerate(lies)]
    notes = {names.ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    if kept:
        notes[names.ANNOTATION_NODE_RESERVATION] = json.dumps({"reservedCPUs": kept})
    amounts = [{"name": "cpu", "allocatable": "4"}, {"name": "memory", "allocatable": "16Gi"}]
    made = [{"name": f"node-{zone}", "type": "Node", "resources": amounts} for zone in zones]
    return {"metadata": meta(name, annotations=notes), "zones": made}


def show(story: Story, body: Json) -> None:
    """The topology object, as it is from now on."""
    story.put("noderesourcetopologies", "n1", {"metadata": dict(body["metadata"]), "zones": body["zones"]})


def cpus(*ids: int) -> list[Grant]:
    return [one(CPU, str(each)) for each in ids]


def zone(number: int, milli: int) -> list[Grant]:
    return [zone_grant(number, {"cpu": milli})]


def card(minor: int, percent: int = 100) -> Grant:
    return device("gpu", minor, {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent})


def chip(minor: int, size: str = "") -> Grant:
    return device("gpu", minor, {names.GPU_MEMORY_RATIO: 30}, size)


def give(story: Story, name: str, grants: list[Grant], **fields: Any) -> None:
    story.place(name, allocation=allocation_of({"cpu": 1000}, grants), **fields)


def begun() -> Story:
    story = stage()
    show(story, topology(kept="7"))
    story.wait(20)
    return story


# --- once, and no more than there is ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "first", "second", "free"),
    [
        ("I23", cpus(0, 1), cpus(1, 2), cpus(2, 3)),
        ("I24", [function("0000:1", "rdma", 0)], [function("0000:1", "rdma", 0)], [function("0000:2", "rdma", 0)]),
        ("I25", zone(0, 3000), zone(0, 1001), zone(0, 1000)),
        ("I25", zone(1, 2000), zone(1, 1001), zone(1, 1000)),
        ("I1", [card(0, 60)], [card(0, 41)], [card(0, 40)]),
        ("I27", [chip(0, "vir02")], [chip(0)], [chip(0, "vir01")]),
        ("I27", [chip(0)], [chip(0, "vir02")], [chip(1, "vir02")]),
    ],
)
def test_nothing_is_given_out_beyond_itself(
    law: str, first: list[Grant], second: list[Grant], free: list[Grant]
) -> None:
    for grants, broken in ((second, [law]), (free, [])):
        story = begun()
        give(story, "a", first)
        give(story, "b", grants)
        assert story.broken == broken
        assert story.observer.verdicts.judgements[law] >= (1 if law == "I27" else 2)


def test_a_numa_node_that_is_not_known_has_nothing() -> None:
    story = begun()
    give(story, "a", zone(2, 1))
    give(story, "b", zone(0, 1), node="n2")
    assert [each.promise for each in story.observer.violations] == ["I25", "I25"]


def test_what_shows_more_cpu_than_it_has_may_give_more() -> None:
    for ratio, broken in (("2.0", []), ("1.2", ["I25"])):
        story = begun()
        notes = {names.ANNOTATION_AMPLIFICATION_RATIO: json.dumps({"cpu": float(ratio)})}
        story.change("nodes", "n1", {"metadata": {"annotations": notes}})
        give(story, "a", zone(0, 6000))
        assert story.broken == broken


# --- what may not be given out at all ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "law", "grants"),
    [
        (topology(kept="0,7"), "I23b", cpus(0)),
        (topology(cpus=6), "I23b", cpus(6)),
        (topology(kept="0-2,7"), "I25", zone(0, 2000)),
        (topology(zones=(0,)), "I25", zone(1, 1000)),
    ],
)
def test_a_change_counts_once_everybody_can_have_seen_it(change: Json, law: str, grants: list[Grant]) -> None:
    for wait_s, broken in ((5.0, []), (11.0, [law])):
        story = begun()
        show(story, change)
        story.wait(wait_s)
        give(story, "a", grants)
        assert story.broken == broken
        assert story.observer.verdicts.excuses[law, Excuse.UNSEEN.value] == (not broken)
    story = begun()
    story.observer.blind(30.0, [Reader.INVENTORY])
    show(story, change)
    story.wait(15.0)
    give(story, "a", grants)
    assert (story.broken, story.observer.verdicts.excuses[law, Excuse.HIDDEN.value]) == ([], 1)


def test_what_came_to_be_kept_after_the_decision_is_not_bound() -> None:
    for kept, wait_s, broken in (("0,7", 5.0, []), ("0,7", 11.0, ["I23b"]), ("1,7", 11.0, [])):
        story = begun()
        give(story, "a", cpus(0))
        story.lease(story.decisions["a"].plan)
        show(story, topology(kept=kept))
        story.wait(wait_s)
        notes = {
            names.ANNOTATION_PLAN: story.decisions["a"].plan,
            names.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": "0"}),
        }
        story.change("pods", "a", {"metadata": {"annotations": notes}, "spec": {"nodeName": "n1"}})
        assert story.broken == broken


def test_a_kept_cpu_was_never_to_be_given() -> None:
    story = begun()
    give(story, "a", cpus(7))
    assert story.broken == ["I23b"]


def test_a_topology_with_a_fault_gives_nothing() -> None:
    story = begun()
    faulty = topology()
    faulty["metadata"]["annotations"][names.ANNOTATION_CPU_MANAGER_POLICY] = "{"
    show(story, faulty)
    story.wait(11)
    give(story, "a", [*cpus(0), *zone(0, 1)])
    assert sorted(each.promise for each in story.observer.violations) == ["I23b", "I25"]


def test_who_has_a_part_of_a_numa_node_that_shrinks_keeps_it() -> None:
    story = begun()
    give(story, "a", zone(0, 3000))
    show(story, topology(kept="0-1,7"))
    assert story.broken == []
    assert story.observer.finish(quiet=False).ok
    assert story.observer.verdicts.excuses["I25", Excuse.LEFT_OVER.value] == 1
    story.wait(11)
    give(story, "b", zone(0, 500))
    assert story.broken == ["I25"]


def stranger_without_a_record(story: Story, **more: str) -> None:
    notes = {names.ANNOTATION_RESOURCE_STATUS: "{", **more}
    spec = {"schedulerName": "other", "nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "2"}}}]}
    body = {"metadata": {"labels": {names.LABEL_QOS: "LSR"}, "annotations": notes}, "spec": spec}
    story.put("pods", "foreign", {**body, "status": {"phase": "Running"}}, "default")


def test_where_nobody_knows_whose_cpus_are_whose_none_is_given_out() -> None:
    for wait_s, grants, broken in ((11.0, cpus(0), ["I23"]), (11.0, [card(0)], []), (5.0, cpus(0), [])):
        story = begun()
        stranger_without_a_record(story)
        story.wait(wait_s)
        give(story, "a", grants)
        assert story.broken == broken


# --- cards that kubelet picks -----------------------------------------------------------------------------------------


def counted(story: Story, cards: str) -> None:
    """A pod of another scheduler on n1, whose cards kubelet picks."""
    requests = {"requests": {names.NVIDIA_GPU: cards}}
    spec: Json = {"schedulerName": "other", "nodeName": "n1", "containers": [{"name": "main", "resources": requests}]}
    story.put("pods", "foreign", {"spec": spec, "status": {"phase": "Running"}}, "default")


@pytest.mark.parametrize(
    ("said", "minor", "broken"),
    [
        ("[0,1]", 2, []),
        ("[0,1]", 1, ["I1"]),
        ("[0]", 2, ["I1"]),
        ("", 2, ["I1"]),
    ],
)
def test_a_card_goes_by_minor_beside_those_that_kubelet_has_named(said: str, minor: int, broken: list[str]) -> None:
    story = stage()
    story.node(gpus=4)
    counted(story, "2")
    uid = story.observer.pods["default", "foreign"].uid
    if said:
        notes = {names.ANNOTATION_KUBELET_CARDS: f'{{"{uid}":{said}}}'}
        story.change("devices", "n1", {"metadata": {"annotations": notes}})
    story.wait(11)
    give(story, "a", [card(minor)])
    assert story.broken == broken


# --- partitions -------------------------------------------------------------------------------------------------------


def honoring(story: Story) -> None:
    """Cards 0 and 1 go together, and 2 and 3."""
    table = {"2": [{"minors": [0, 1]}, {"minors": [2, 3]}]}
    labels = {names.LABEL_GPU_PARTITION_POLICY: "Honor"}
    notes = {names.ANNOTATION_GPU_PARTITIONS: json.dumps(table)}
    story.change("devices", "n1", {"metadata": {"labels": labels, "annotations": notes}})


@pytest.mark.parametrize(
    ("grants", "broken"),
    [
        ([card(0), card(1)], []),
        ([card(1), card(2)], ["I26"]),
        ([card(1)], ["I26"]),
        ([card(1, 50), card(2, 50)], []),
    ],
)
def test_whole_cards_are_a_partition_where_no_others_are_given_out(grants: list[Grant], broken: list[str]) -> None:
    story = stage()
    story.node(gpus=4)
    honoring(story)
    story.wait(11)
    give(story, "a", grants)
    assert story.broken == broken


def test_a_table_counts_once_everybody_can_have_seen_it() -> None:
    story = stage()
    story.node(gpus=4)
    honoring(story)
    give(story, "a", [card(1), card(2)])
    assert (story.broken, story.observer.verdicts.excuses["I26", "unseen"]) == ([], 1)


# --- names ------------------------------------------------------------------------------------------------------------


def named(uuid: str) -> Json:
    entry = {"type": "gpu", "minor": 0, "health": True, "id": uuid}
    return {"spec": {"devices": [entry]}}


def noted(uuid: str) -> dict[str, str]:
    return {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": 0, "id": uuid}]})}


def decided_as(story: Story, uuid: str) -> None:
    give(story, "a", [card(0)], annotations=noted(uuid))


def bound_as(story: Story, uuid: str) -> None:
    story.observer.blind(1000.0, [Reader.INVENTORY])
    decided_as(story, uuid)
    story.change("pods", "a", {"metadata": {"annotations": noted(uuid)}, "spec": {"nodeName": "n1"}})


@pytest.mark.parametrize("given", [decided_as, bound_as])
def test_a_card_that_was_swapped_under_its_minor_is_another_one(given: Callable[[Story, str], None]) -> None:
    for wait_s, uuid, broken in ((11.0, "old", True), (11.0, "new", False), (5.0, "old", False)):
        story = stage()
        story.change("devices", "n1", named("old"))
        story.wait(60)
        story.change("devices", "n1", named("new"))
        story.wait(wait_s)
        given(story, uuid)
        assert ("I1g" in story.broken) == broken


# --- one moment -------------------------------------------------------------------------------------------------------


def sharing(name: str, number: int, milli: int) -> Json:
    status = {"numaNodeResources": [{"node": number, "resources": {"cpu": f"{milli}m"}}]}
    notes = {names.ANNOTATION_RESOURCE_STATUS: json.dumps(status), names.ANNOTATION_NUMA_SPEC: "{}"}
    return pod(name, "n1", {"cpu": f"{milli}m"}, notes=notes)


def test_one_moment_shows_numa_nodes_that_are_overfull() -> None:
    world = {"nodes": [node()], "topologies": [topology(kept="3")]}
    assert check_of(pods=[sharing("a", 0, 2000), sharing("b", 0, 1000)], **world) == []
    assert check_of(pods=[sharing("a", 0, 2000), sharing("b", 0, 1001)], **world) == ["I25"]
    assert check_of(pods=[sharing("a", 0, 2000), sharing("b", 0, 1001)], nodes=[node()]) == [], (
        "nobody says what it has"
    )


def test_what_a_numa_node_lends_may_fall_below_what_is_held() -> None:
    status = {"numaNodeResources": [{"node": 0, "resources": {names.BATCH_CPU: "2000"}}]}
    notes = {names.ANNOTATION_RESOURCE_STATUS: json.dumps(status), names.ANNOTATION_NUMA_SPEC: "{}"}
    borrows = pod("a", "n1", {names.BATCH_CPU: "2000"}, notes=notes)
    assert check_of(pods=[borrows], nodes=[node()], topologies=[topology()]) == []
