"""For every invariant a world in which it holds and worlds in which it alone is broken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Allocation, Decision, DeviceGrant, Epoch, Plan, PlanStatus
from berth.invariants import INVARIANTS, NodeHold, Report, World, check
from berth.invariants.facts import Facts
from berth.invariants.pictures import differences, picture_of_facts
from berth.testing.builders import pod as state_pod

GI = 1 << 30


def meta(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", **fields}


def pod(
    name: str,
    node: str = "",
    requests: dict[str, str] | None = None,
    *,
    labels: dict[str, str] | None = None,
    notes: dict[str, str] | None = None,
    phase: str = "Running",
    scheduler: str = names.SCHEDULER_NAME,
    plan: str = "plan-1",
) -> dict[str, Any]:
    annotations = {**(notes or {}), **({names.ANNOTATION_PLAN: plan} if node and plan else {})}
    return {
        "metadata": meta(name, namespace="default", labels=labels or {}, annotations=annotations),
        "spec": {
            "nodeName": node,
            "schedulerName": scheduler,
            "containers": [{"name": "main", "resources": {"requests": requests or {}}}],
        },
        "status": {"phase": phase if node else "Pending"},
    }


def on_gpu(name: str, minor: int, percent: int, node: str = "n1", **fields: Any) -> dict[str, Any]:
    resources = {names.GPU_CORE: str(percent), names.GPU_MEMORY_RATIO: str(percent)}
    note = msgspec.json.encode({"gpu": [{"minor": minor, "resources": resources}]}).decode()
    return pod(name, node, resources, notes={names.ANNOTATION_DEVICE_ALLOCATED: note}, **fields)


def node(name: str = "n1", cpu: str = "8", pods: str = "110") -> dict[str, Any]:
    return {"metadata": meta(name), "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": pods}}}


def quota(name: str, most: dict[str, str], least: dict[str, str] | None = None, parent: str = "") -> dict[str, Any]:
    labels = {names.LABEL_QUOTA_PARENT: parent} if parent else {}
    spec = {"max": most, "min": least or {}}
    return {"metadata": meta(name, namespace="quotas", labels=labels), "spec": spec}


def reservation(name: str = "r1", amounts: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": meta(name, annotations=spec.pop("notes", {})),
        "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "db"}}}], **spec},
        "status": {"phase": "Available", "nodeName": "n1", "allocatable": amounts or {"cpu": "4"}},
    }


def decision(name: str, node: str = "n1", **fields: Any) -> Decision:
    return Decision(
        **{
            "plan": "plan-1",
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "attempt": 0,
            "node": node,
            "pod_version": 1,
            "basis": 1,
            **fields,
        }
    )


def ledger(*decisions: Decision, status: PlanStatus | None = PlanStatus.COMMITTED) -> dict[str, tuple[int, bytes]]:
    messages: dict[str, bytes] = {
        subjects.decision_key(1, each.namespace, each.name): encode(each) for each in decisions
    }
    if status is not None:
        messages[subjects.plan_key(1, "plan-1")] = encode(Plan(id="plan-1", status=status))
    messages[subjects.EPOCH_KEY] = encode(Epoch(epoch=1))
    return {key: (sequence, value) for sequence, (key, value) in enumerate(messages.items(), 1)}


def broken(report: Report) -> list[str]:
    return [result.name for result in report.results if not result.ok]


def check_of(**world: Any) -> list[str]:
    return broken(check(World.of(**world)))


def test_an_empty_world_breaks_nothing() -> None:
    report = check(World.of())
    assert report.ok
    assert [result.name for result in report.results] == [each.name for each in INVARIANTS]
    assert len({each.name for each in INVARIANTS}) == len(INVARIANTS)


def test_evidence_is_bounded_and_printed() -> None:
    report = check(World.of(pods=[pod(f"p{i}", "n1", plan="") for i in range(50)]))
    (result,) = report.broken
    assert len(result.evidence) == 21
    assert result.evidence[-1] == "and 30 more"
    lines = report.lines()
    assert any(line.startswith("BROKEN I5") for line in lines)
    assert any(line.startswith("ok     I1:") for line in lines)


# --- I0 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [{}, {"metadata": 3}, {"metadata": {"name": "x"}, "spec": {"nodeName": 5}}])
def test_what_cannot_be_read_is_named(bad: dict[str, Any]) -> None:
    assert check_of(pods=[bad]) == ["I0"]


def test_a_broken_ledger_entry_is_named() -> None:
    entries = ledger()
    entries[subjects.decision_key(1, "default", "p")] = (9, b"{")
    assert check_of(ledger=entries) == ["I0"]


# --- I1 -----------------------------------------------------------------------------------------------------------


def test_shares_up_to_a_whole_are_fine() -> None:
    assert check_of(pods=[on_gpu("a", 0, 60), on_gpu("b", 0, 40), on_gpu("c", 1, 100)]) == []


def test_one_percent_too_much_is_not() -> None:
    report = check(World.of(pods=[on_gpu("a", 0, 60), on_gpu("b", 0, 41)]))
    assert broken(report) == ["I1"]
    assert "default/a 60, default/b 41" in report.broken[0].evidence[0]


@pytest.mark.parametrize("free", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"node": "n2"}])
def test_what_has_ended_or_is_elsewhere_does_not_count(free: dict[str, str]) -> None:
    assert check_of(pods=[on_gpu("a", 0, 60), on_gpu("b", 0, 41, **free)]) == []


def test_a_decision_holds_like_a_bound_pod_while_it_is_current() -> None:
    grant = DeviceGrant(kind="gpu", minor=0, amounts={names.GPU_CORE: 41})
    held = ledger(decision("b", allocation=Allocation(devices=[grant])))
    waiting = pod("b")
    assert check_of(pods=[on_gpu("a", 0, 60), waiting], ledger=held, is_quiet=False) == ["I1"]
    withdrawn = {**waiting, "metadata": {**waiting["metadata"], "annotations": {names.ANNOTATION_ATTEMPT: "1"}}}
    assert check_of(pods=[on_gpu("a", 0, 60), withdrawn], ledger=held, is_quiet=False) == []


def test_memory_is_bounded_by_the_device() -> None:
    device = {
        "metadata": meta("n1"),
        "spec": {"devices": [{"type": "gpu", "minor": 0, "health": True, "resources": {names.GPU_MEMORY: "16Gi"}}]},
    }

    def taking(name: str, memory: str) -> dict[str, Any]:
        note = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"%s"}}]}' % memory  # noqa: UP031
        return pod(name, "n1", {names.GPU_MEMORY: memory}, notes={names.ANNOTATION_DEVICE_ALLOCATED: note})

    assert check_of(pods=[taking("a", "8Gi"), taking("b", "8Gi")], devices=[device]) == []
    assert check_of(pods=[taking("a", "8Gi"), taking("b", "9Gi")], devices=[device]) == ["I1"]


def test_what_others_do_among_themselves_is_theirs() -> None:
    others = {"scheduler": "default-scheduler", "plan": ""}
    assert check_of(pods=[on_gpu("a", 0, 60, **others), on_gpu("b", 0, 60, **others)]) == []
    assert check_of(pods=[on_gpu("a", 0, 60, **others), on_gpu("b", 0, 60)]) == ["I1"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 70)), max_size=6))
def test_devices_are_judged_by_their_sum(shares: list[tuple[int, int]]) -> None:
    pods = [on_gpu(f"p{index}", minor, percent) for index, (minor, percent) in enumerate(shares)]
    sums = [sum(percent for minor, percent in shares if minor == each) for each in (0, 1)]
    assert ("I1" in check_of(pods=pods)) == any(total > 100 for total in sums)


# --- I1b, I1c -----------------------------------------------------------------------------------------------------


def test_a_node_filled_to_the_brim_is_fine() -> None:
    pods = [pod("a", "n1", {"cpu": "5"}), pod("b", "n1", {"cpu": "3"})]
    assert check_of(pods=pods, nodes=[node(pods="2")]) == []


def test_a_node_beyond_what_it_offers_is_not() -> None:
    pods = [pod("a", "n1", {"cpu": "5"}), pod("b", "n1", {"cpu": "3001m"})]
    assert check_of(pods=pods, nodes=[node()]) == ["I1b"]
    assert check_of(pods=[pod("a", "n1"), pod("b", "n1")], nodes=[node(pods="1")]) == ["I1b"]
    assert check_of(pods=[pod("a", "n1", {"example.org/thing": "1"})], nodes=[node()]) == ["I1b"]


def test_a_node_that_has_gone_is_not_judged() -> None:
    assert check_of(pods=[pod("a", "n1", {"cpu": "5"})]) == []


def test_node_reports_are_summed() -> None:
    two = [NodeHold("n1", "gpu", 0, "u1", 60), NodeHold("n1", "gpu", 0, "u2", 40)]
    assert check_of(holds=two) == []
    assert check_of(holds=[*two, NodeHold("n1", "gpu", 0, "u3", 1)]) == ["I1c"]


# --- I2 -----------------------------------------------------------------------------------------------------------


def of_quota(name: str, group: str, cpu: str, *, firm: bool = False) -> dict[str, Any]:
    labels = {names.LABEL_QUOTA_NAME: group} | ({names.LABEL_QUOTA_PREEMPTIBLE: "false"} if firm else {})
    return pod(name, "n1", {"cpu": cpu}, labels=labels)


TREE = [
    quota("company", {"cpu": "10"}),
    quota("blue", {"cpu": "8"}, {"cpu": "2"}, parent="company"),
    quota("red", {"cpu": "8"}, parent="company"),
]


def test_quotas_used_up_are_fine() -> None:
    pods = [of_quota("a", "blue", "8"), of_quota("b", "red", "2")]
    assert check_of(pods=pods, quotas=TREE) == []


def test_a_group_above_its_max() -> None:
    assert check_of(pods=[of_quota("a", "blue", "8001m")], quotas=TREE) == ["I2"]


def test_an_ancestor_above_its_max() -> None:
    report = check(World.of(pods=[of_quota("a", "blue", "6"), of_quota("b", "red", "5")], quotas=TREE))
    assert broken(report) == ["I2"]
    assert report.broken[0].evidence == ("quota company: 11000 of 10000 cpu",)


def test_what_was_charged_counts_rather_than_the_label() -> None:
    moved = pod(
        "a", "n1", {"cpu": "9"}, notes={names.ANNOTATION_QUOTA: "/company"}, labels={names.LABEL_QUOTA_NAME: "blue"}
    )
    assert check_of(pods=[moved], quotas=TREE) == []


def test_non_preemptible_pods_stay_within_the_min() -> None:
    assert check_of(pods=[of_quota("a", "blue", "2", firm=True)], quotas=TREE) == []
    assert check_of(pods=[of_quota("a", "blue", "3", firm=True)], quotas=TREE) == ["I2b"]


def test_a_circle_of_groups_ends() -> None:
    circle = [quota("a", {"cpu": "1"}, parent="b"), quota("b", {"cpu": "1"}, parent="a")]
    assert check_of(pods=[of_quota("p", "a", "2")], quotas=circle) == ["I2"]


# --- I3 -----------------------------------------------------------------------------------------------------------


def member(name: str, node: str, *, minimum: int = 3, mode: str = "Strict", gang: str = "g") -> dict[str, Any]:
    notes = {
        names.ANNOTATION_GANG_NAME: gang,
        names.ANNOTATION_GANG_MIN: str(minimum),
        names.ANNOTATION_GANG_MODE: mode,
    }
    return pod(name, node, notes=notes)


@pytest.mark.parametrize(("bound", "holds"), [(0, True), (1, False), (2, False), (3, True), (4, True)])
def test_a_strict_gang_is_whole_or_not_there(bound: int, holds: bool) -> None:
    pods = [member(f"p{index}", "n1" if index < bound else "") for index in range(4)]
    assert check_of(pods=pods) == ([] if holds else ["I3"])
    assert check_of(pods=pods, is_quiet=False) == []
    assert check_of(pods=pods, excused_gangs=["default/g"]) == []


def test_other_gangs_may_be_half_there() -> None:
    assert check_of(pods=[member("a", "n1", mode="NonStrict"), member("b", "", mode="NonStrict")]) == []


def test_the_pod_group_says_how_many() -> None:
    group = {"metadata": meta("g", namespace="default"), "spec": {"minMember": 2}}
    labels = {names.LABEL_POD_GROUP: "g"}
    pods = [pod("a", "n1", labels=labels), pod("b", labels=labels)]
    assert check_of(pods=pods, pod_groups=[group]) == ["I3"]
    assert check_of(pods=[pods[0], pod("b", "n2", labels=labels)], pod_groups=[group]) == []


def test_a_group_of_gangs_begins_together() -> None:
    def two(b_node: str) -> list[dict[str, Any]]:
        pods = [member("a", "n1", minimum=1, gang="one"), member("b", b_node, minimum=1, gang="two")]
        for each in pods:
            each["metadata"]["annotations"][names.ANNOTATION_GANG_GROUPS] = '["default/one","default/two"]'
        return pods

    assert check_of(pods=two("n2")) == []
    assert check_of(pods=two("")) == ["I3"]


# --- I4 -----------------------------------------------------------------------------------------------------------


def test_a_decision_that_nobody_carried_out() -> None:
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a"))) == ["I4"]
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a"), status=None)) == ["I4"]
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a")), is_quiet=False) == []


def test_decisions_that_came_to_their_end() -> None:
    assert check_of(pods=[pod("a", "n1")], ledger=ledger(decision("a"))) == []
    assert check_of(ledger=ledger(decision("a"))) == []
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a", uid="predecessor"))) == []
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a"), status=PlanStatus.ABORTED)) == []


def test_an_open_plan_with_decisions() -> None:
    assert check_of(ledger=ledger(decision("a"), status=PlanStatus.OPEN)) == ["I4"]


def test_a_reservation_that_was_not_placed() -> None:
    held = ledger(decision("r1", namespace="", kind="reservation"))
    waiting = {**reservation(), "status": {"phase": "Pending"}}
    assert check_of(reservations=[waiting], ledger=held) == ["I4"]
    assert check_of(reservations=[reservation()], ledger=held) == []


def test_keys_of_another_epoch_are_not_read() -> None:
    entries = ledger()
    entries[subjects.decision_key(7, "default", "a")] = (9, encode(decision("a")))
    assert check_of(pods=[pod("a")], ledger=entries) == []


# --- I5 -----------------------------------------------------------------------------------------------------------


def test_a_pod_bound_without_a_plan() -> None:
    assert check_of(pods=[pod("a", "n1", plan="")]) == ["I5"]
    assert check_of(pods=[pod("a", "n1", plan="", scheduler="default-scheduler")]) == []


def test_a_pod_bound_elsewhere_than_decided() -> None:
    assert check_of(pods=[pod("a", "n2")], ledger=ledger(decision("a", "n1"))) == ["I5"]


def test_devices_other_than_decided() -> None:
    def decided(minor: int) -> dict[str, tuple[int, bytes]]:
        amounts = {names.GPU_CORE: 50, names.GPU_MEMORY_RATIO: 50}
        return ledger(
            decision("a", allocation=Allocation(devices=[DeviceGrant(kind="gpu", minor=minor, amounts=amounts)]))
        )

    assert check_of(pods=[on_gpu("a", 0, 50)], ledger=decided(0)) == []
    assert check_of(pods=[on_gpu("a", 0, 50)], ledger=decided(1)) == ["I5"]
    assert check_of(pods=[pod("a", "n1", {names.NVIDIA_GPU: "1"})]) == ["I5"]


def test_a_successor_bound_by_its_predecessors_decision() -> None:
    assert check_of(pods=[pod("a", "n1")], ledger=ledger(decision("a", uid="predecessor"))) == ["I5"]


def test_a_second_decision_for_a_bound_pod() -> None:
    assert check_of(pods=[pod("a", "n1", plan="plan-0")], ledger=ledger(decision("a"))) == ["I5"]


@pytest.mark.parametrize("fields", [{"quota": "/blue"}, {"reservation_uid": "uid-r1"}])
def test_a_charge_other_than_decided(fields: dict[str, str]) -> None:
    assert check_of(pods=[pod("a", "n1")], ledger=ledger(decision("a", **fields))) == ["I5"]


# --- I10 ----------------------------------------------------------------------------------------------------------


def user(name: str, app: str = "db", node: str = "n1", cpu: str = "4") -> dict[str, Any]:
    note = {names.ANNOTATION_RESERVATION_ALLOCATED: '{"name":"r1","uid":"uid-r1"}'}
    return pod(name, node, {"cpu": cpu}, labels={"app": app}, notes=note)


def test_an_owner_uses_its_reservation() -> None:
    assert check_of(pods=[user("a")], reservations=[reservation()], nodes=[node()]) == []


@pytest.mark.parametrize(
    "pods", [[user("a", "web")], [user("a", node="n2")], [user("a", cpu="1"), user("b", cpu="1")]], ids=str
)
def test_wrong_users(pods: Iterable[Any]) -> None:
    assert check_of(pods=pods, reservations=[reservation()]) == ["I10"]


def test_several_users_where_that_is_meant() -> None:
    pods = [user("a", cpu="2"), user("b", cpu="2")]
    assert check_of(pods=pods, reservations=[reservation(allocateOnce=False)], nodes=[node()]) == []


def test_reserved_amounts_given_to_a_stranger() -> None:
    room = [reservation()]  # 4 of 8 cores
    assert check_of(pods=[pod("a", "n1", {"cpu": "4"})], reservations=room, nodes=[node()]) == []
    assert check_of(pods=[pod("a", "n1", {"cpu": "5"})], reservations=room, nodes=[node()]) == ["I10b"]
    used = [pod("a", "n1", {"cpu": "4"}), user("b", cpu="4")]
    assert check_of(pods=used, reservations=room, nodes=[node()]) == []
    ended = {**reservation(), "status": {"phase": "Failed", "nodeName": "n1", "allocatable": {"cpu": "4"}}}
    assert check_of(pods=[pod("a", "n1", {"cpu": "5"})], reservations=[ended], nodes=[node()]) == []


def test_reserved_devices_given_to_a_stranger() -> None:
    note = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}'
    room = [reservation(amounts={names.GPU_CORE: "50"}, notes={names.ANNOTATION_DEVICE_ALLOCATED: note})]
    assert check_of(pods=[on_gpu("a", 0, 50)], reservations=room, nodes=[node()]) == []
    report = check(World.of(pods=[on_gpu("a", 0, 51)], reservations=room))
    assert broken(report) == ["I10b"]
    assert check_of(pods=[on_gpu("a", 1, 51)], reservations=room) == []


# --- I1d, I8 ------------------------------------------------------------------------------------------------------


def test_a_device_used_by_a_pod_that_was_given_another() -> None:
    pods = [on_gpu("a", 0, 100)]
    assert check_of(pods=pods, holds=[NodeHold("n1", "gpu", 0, "uid-a")]) == []
    assert check_of(pods=pods, holds=[NodeHold("n1", "gpu", 1, "uid-a")]) == ["I1d"]
    assert check_of(pods=[pod("a", "n1")], holds=[NodeHold("n1", "gpu", 1, "uid-a", 10)]) == ["I1d"]
    foreign = [on_gpu("a", 0, 100, scheduler="default-scheduler", plan="")]
    for others in ([], foreign, [on_gpu("a", 0, 100, phase="Succeeded")], [on_gpu("a", 0, 100, node="n2")]):
        assert check_of(pods=others, holds=[NodeHold("n1", "gpu", 1, "uid-a")]) == []


def in_state(name: str, node: str, minor: int | None = None) -> tuple[str, tuple[int, bytes]]:
    builder = (
        state_pod(name).on(node).set(uid=f"uid-{name}").requests(cpu=1000).annotation(names.ANNOTATION_QUOTA, "/q")
    )
    if minor is not None:
        builder = builder.on(node, [DeviceGrant(kind="gpu", minor=minor, amounts={names.GPU_CORE: 50})])
    return subjects.pod_key("default", name), (1, encode(builder.build(1)))


def test_state_shows_what_the_cluster_shows() -> None:
    note = {names.ANNOTATION_DEVICE_ALLOCATED: '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}'}
    quotas = {names.ANNOTATION_QUOTA: "/q"}
    pods = [pod("a", "n1", {"cpu": "1"}, notes=quotas), pod("b", "n1", {"cpu": "1"}, notes=quotas | note)]
    seen = dict([in_state("a", "n1"), in_state("b", "n1", 0)])
    assert check_of(pods=pods, believed=seen) == []
    assert check_of(pods=pods, believed=seen | dict([in_state("a", "n2")])) == ["I8"]
    assert check_of(pods=pods, believed=seen | dict([in_state("b", "n1", 1)])) == ["I8"]
    assert check_of(pods=pods, believed=dict([in_state("b", "n1", 0)])) == ["I8"]
    assert check_of(pods=pods, believed=seen | dict([in_state("gone", "n1")])) == ["I8"]
    assert check_of(pods=pods, believed={}, is_quiet=False) == []
    assert check_of(pods=[], believed={"pod.default.a": (1, b"{")}) == ["I0"]


def test_two_pictures_differ_in_what_they_differ_in() -> None:
    world = World.of(pods=[user("a")], reservations=[reservation()])
    picture = picture_of_facts(Facts(world))
    assert differences(picture, picture) == []
    without = picture._replace(reservations={})
    (found,) = differences(picture, without)
    assert found.subject == "reservation uid-r1"
    assert "before ('r1', 'n1', ('uid-a',)), after nothing" in found.text
