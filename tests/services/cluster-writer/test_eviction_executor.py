"""Nominations carried out: noted, marked, looked at, deleted; spared, given up, taken over where the marks stand."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.services.worlds.writer.eviction_bench import NOW, EvictingApi, EvictionBench

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Epoch, Plan, PlanStatus
from berth.contracts.state import PodGroup
from berth.kube.answer import Answer
from berth.rules.eviction_notes import Mark, mark_note, noted_mark, noted_nomination, refused_victims
from berth.simcluster import SimCluster, SimSettings
from berth.simcluster.store import Path


@pytest.fixture
def bench() -> EvictionBench:
    """A pod waits for two of lower priority."""
    made = EvictionBench(EvictingApi(SimCluster(SimSettings(kubelet=None)).store))
    made.pod("low", 0, "n")
    made.pod("lower", 1, "n")
    made.pod("waits", 9)
    return made


async def test_noted_marked_looked_at_and_deleted_in_this_order(bench):
    decision = bench.nominate("waits", "low", "lower")
    await bench.turn()
    note = noted_nomination({names.ANNOTATION_NOMINATED: bench.note("waits", names.ANNOTATION_NOMINATED)})
    assert note is not None
    assert (note.plan, note.node) == ("p", "n")
    assert bench.api.raw("waits")["status"]["nominatedNodeName"] == "n"
    assert bench.events.told == []
    await bench.turn()
    assert sorted(bench.events.told) == ["marked low", "marked lower"]
    assert not bench.is_leaving("low")
    mark = noted_mark({names.ANNOTATION_EVICTED_FOR: bench.note("low", names.ANNOTATION_EVICTED_FOR)})
    assert mark == Mark("p", "default/waits", decision.uid, "PreemptionByScheduler")
    await bench.turn()
    assert bench.events.told[2:] == ["sent low", "sent lower"]
    assert bench.is_leaving("low")
    assert bench.is_leaving("lower")
    condition = bench.api.raw("low")["status"]["conditions"][-1]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
    )
    assert bench.api.sent.index("patch status waits") < bench.api.sent.index("patch low")
    assert bench.api.sent.index("patch lower") < bench.api.sent.index("delete low")
    sent = list(bench.api.sent)
    await bench.turn(3)
    assert bench.api.sent == sent, "nothing is left to do but wait"


async def test_nothing_is_sent_on_a_view_older_than_the_solvers(bench):
    bench.cluster.reset_state()
    bench.nominate("waits", "low")
    await bench.executor.turn()
    assert bench.api.sent == []


async def test_nothing_is_sent_before_nodes_devices_and_groups_are_read(bench):
    bench.nominate("waits", "low")
    for kind in ("nodes", "devices", "podgroups"):
        bench.unread = kind
        await bench.turn(3)
        assert bench.api.sent == [], kind
    bench.unread = ""
    await bench.turn(3)
    assert bench.is_leaving("low")


@pytest.mark.parametrize("what", ["epoch", "plan", "decision", "lease", "gone", "ended", "attempt", "bound", "note"])
async def test_after_the_marks_whatever_has_changed_stops_the_deletions(bench, what):
    """The view shows none of it yet."""
    decision = bench.nominate("waits", "low")
    await bench.turn(2)
    assert bench.events.told == ["marked low"]
    waits = Path("", "v1", "pods", "default", "waits")
    match what:
        case "epoch":
            bench.write(subjects.EPOCH_KEY, Epoch(epoch=2), read_too=False)
        case "plan":
            bench.write(subjects.plan_key(1, "p"), Plan(id="p", status=PlanStatus.ABORTED), read_too=False)
        case "decision":
            bench.write(subjects.decision_key(1, "default", "waits"), None, read_too=False)
        case "lease":
            bench.lease.active = False
        case "gone":
            bench.api.store.delete(waits, grace="0")
        case "ended":
            bench.api.store.patch(waits._replace(subresource="status"), {"status": {"phase": "Failed"}})
        case "attempt":
            bench.api.store.patch(waits, {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "1"}}})
        case "bound":
            target = {"kind": "Node", "name": "n"}
            meta = {"name": "waits", "uid": decision.uid}
            assert bench.api.store.bind("default", "waits", {"metadata": meta, "target": target}).status == 201
        case "note":
            bench.api.store.patch(waits, {"metadata": {"annotations": {names.ANNOTATION_NOMINATED: None}}})
    await bench.executor.turn()
    assert not bench.is_leaving("low")
    assert "delete low" not in bench.api.sent


async def test_a_victim_that_changes_after_the_look_is_not_deleted(bench):
    bench.nominate("waits", "low")
    await bench.turn(2)
    bench.api.on("patch status", lambda name, body: bench.api.touch("low"))
    await bench.executor.turn()
    assert not bench.is_leaving("low")
    await bench.turn()
    assert bench.is_leaving("low"), "it is judged again once STATE shows the change"


@pytest.mark.parametrize("what", ["gone", "lease", "plan"])
async def test_between_two_deletions_it_looks_again(bench, what):
    bench.nominate("waits", "low", "lower")
    await bench.turn(2)

    def happens(name, guard):
        match what:
            case "gone":
                bench.api.store.delete(Path("", "v1", "pods", "default", "waits"), grace="0")
            case "lease":
                bench.lease.active = False
            case "plan":
                bench.write(subjects.plan_key(1, "p"), Plan(id="p", status=PlanStatus.ABORTED), read_too=False)

    bench.api.on("delete", happens)
    await bench.executor.turn()
    assert bench.is_leaving("low")
    assert not bench.is_leaving("lower")


async def test_between_two_deletions_the_view_counts_as_well(bench):
    bench.nominate("waits", "low", "lower")
    await bench.turn(2)

    def protects(name, guard):
        label = {"metadata": {"labels": {names.LABEL_QUOTA_PREEMPTIBLE: "false"}}}
        bench.api.store.patch(Path("", "v1", "pods", "default", "lower"), label)
        bench.show()

    bench.api.on("delete", protects)
    await bench.executor.turn()
    assert bench.api.sent.count("delete lower") == 0


async def test_a_deletion_names_uid_and_the_version_that_carries_the_mark(bench):
    seen = []
    bench.nominate("waits", "low")
    await bench.turn(2)
    bench.api.on("delete", lambda name, guard: seen.append((guard, bench.api.raw("low")["metadata"])))
    await bench.turn()
    ((guard, meta),) = seen
    assert guard == {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}


async def test_a_mark_whose_nomination_is_gone_is_taken_back(bench):
    bench.nominate("waits", "low")
    await bench.turn(2)
    bench.api.store.delete(Path("", "v1", "pods", "default", "waits"), grace="0")
    await bench.turn(2)
    assert bench.events.told == ["marked low", "spared low"]
    assert bench.note("low", names.ANNOTATION_EVICTED_FOR) == ""
    assert not bench.is_leaving("low")
    assert len(bench.executor) == 0


async def test_who_is_spared_is_no_target_of_a_disruption_any_more(bench):
    bench.nominate("waits", "low")
    await bench.turn(2)
    bench.api.refuse("ask low", 503, "not now")
    await bench.turn()
    assert bench.cluster.book.pods["default", "low"].disruption == "PreemptionByScheduler"
    bench.api.store.delete(Path("", "v1", "pods", "default", "waits"), grace="0")
    await bench.turn(3)
    assert bench.note("low", names.ANNOTATION_EVICTED_FOR) == ""
    condition = bench.api.raw("low")["status"]["conditions"][-1]
    assert (condition["type"], condition["status"]) == ("DisruptionTarget", "False")
    assert "reason" not in condition
    assert "message" not in condition


async def test_a_mark_that_somebody_forged_is_taken_back(bench):
    note = mark_note(Mark("x", "default/waits", bench.api.seen("waits").uid, ""))
    bench.api.store.patch(Path("", "v1", "pods", "default", "low"), {"metadata": {"annotations": note}})
    await bench.turn()
    assert bench.note("low", names.ANNOTATION_EVICTED_FOR) == ""


async def test_while_the_ledger_is_read_again_no_mark_is_taken_back(bench):
    bench.nominate("waits", "low")
    await bench.turn(2)
    bench.cluster.book.reset_ledger()
    await bench.turn()
    assert bench.events.told == ["marked low"]


async def test_who_takes_over_goes_on_where_the_marks_stand(bench):
    decision = bench.nominate("waits", "low", "lower")
    await bench.turn()
    bench.api.on("patch", lambda name, body: None, lambda name, body: Answer(0, reason="Timeout"))
    await bench.executor.turn()
    bench.executor = bench.another()
    bench.executor.begin(decision)
    bench.show()
    await bench.turn(2)
    assert bench.is_leaving("low")
    assert bench.is_leaving("lower")
    assert bench.events.told.count("marked low") == 1


async def test_a_victim_that_never_ends_ends_the_nomination_after_its_grace_period_and_patience(bench):
    bench.nominate("waits", "low")
    await bench.turn(3)
    assert bench.is_leaving("low")
    ends_at = bench.cluster.book.pods["default", "low"].deletes_at
    assert ends_at
    await bench.turn(2)
    assert bench.attempt("waits") == ""
    bench.now_s = NOW + 10_000_000_000
    await bench.turn()
    assert "given up waits: default/low does not end" in bench.events.told
    assert bench.attempt("waits") == "1"


async def test_a_place_that_is_free_and_not_taken_ends_the_nomination_after_patience(bench):
    bench.nominate("waits", "low")
    await bench.turn(3)
    bench.api.store.delete(Path("", "v1", "pods", "default", "low"), grace="0")
    await bench.turn(2)
    bench.now_s += 59
    await bench.turn()
    assert bench.attempt("waits") == ""
    bench.now_s += 2
    await bench.turn()
    assert "given up waits: nobody is in its way any more, and it was not placed for 60 s" in bench.events.told
    assert bench.attempt("waits") == "1"
    assert bench.note("waits", names.ANNOTATION_NOMINATED) == ""


async def test_patience_begins_when_others_that_are_nominated_there_have_no_victims_either(bench):
    bench.nominate("waits", "low")
    bench.pod("other", 9)
    bench.nominate("other", "lower", plan="q")
    await bench.turn(4)
    bench.api.store.delete(Path("", "v1", "pods", "default", "low"), grace="0")
    await bench.turn()
    bench.now_s += 61
    await bench.turn()
    assert bench.is_leaving("lower")
    assert bench.attempt("waits") == ""


async def test_it_is_given_up_too_where_the_ledger_has_forgotten_it(bench):
    bench.nominate("waits", "low")
    await bench.turn(3)
    bench.write(subjects.EPOCH_KEY, Epoch(epoch=2))
    bench.lease.record.epoch, bench.lease.record.plan = 2, ""
    bench.now_s = NOW + 10_000_000_000
    await bench.turn(2)
    assert [each for each in bench.events.told if each.startswith("given up")] == [
        "given up waits: default/low does not end"
    ]


async def test_a_place_that_is_free_and_not_taken_is_given_up_where_the_ledger_has_forgotten_it_too(bench):
    """Or else it is kept from everybody by a pod that has no quota for it any more."""
    bench.nominate("waits", "low")
    await bench.turn(3)
    bench.write(subjects.EPOCH_KEY, Epoch(epoch=2))
    bench.lease.record.epoch, bench.lease.record.plan = 2, ""
    await bench.turn()
    bench.now_s += 61
    await bench.turn()
    assert bench.attempt("waits") == "", "its victim has not left"
    bench.api.store.delete(Path("", "v1", "pods", "default", "low"), grace="0")
    await bench.turn()
    bench.now_s += 59
    await bench.turn()
    assert bench.attempt("waits") == ""
    bench.now_s += 2
    await bench.turn()
    assert "given up waits: nobody is in its way any more, and it was not placed for 60 s" in bench.events.told
    assert bench.attempt("waits") == "1"
    assert bench.note("waits", names.ANNOTATION_NOMINATED) == ""


async def test_a_cordoned_node_ends_the_nomination_once_the_view_is_certain(bench):
    bench.nominate("waits", "low")
    await bench.turn()
    cordoned = bench.api.store.patch(Path("", "v1", "nodes", "", "n"), {"spec": {"unschedulable": True}})
    assert cordoned.status == 200
    node = bench.cluster.nodes["n"]
    bench.cluster.nodes["n"] = type(node)(name="n", uid=node.uid, version=node.version, unschedulable=True)
    await bench.turn()
    assert "given up waits: node n is cordoned" in bench.events.told


@pytest.mark.parametrize(
    ("answer", "is_open"),
    [(None, True), (Answer(0, reason="Timeout"), True), (Answer(409), False)],
    ids=["landed", "no answer", "failed"],
)
async def test_who_is_let_go_is_known_until_it_shows(bench, answer, is_open):
    """A gang that has a newer plan does not begin meanwhile: the attempt of a member is not what the view says."""
    bench.nominate("waits", "low")
    await bench.turn(2)
    bench.pod("late", 0, "n", cpu="15")
    bench.show()
    if answer is not None:
        bench.api.policies["patch waits"] = answer
    await bench.executor.turn()
    uid = bench.cluster.book.pods["default", "waits"].uid
    assert (uid in bench.executor.letting_go) == is_open
    bench.api.policies.clear()
    bench.now_s += 30
    await bench.turn(2)
    assert not bench.executor.letting_go


async def test_a_place_that_others_hold_ends_the_nomination_before_anybody_dies(bench):
    bench.nominate("waits", "low")
    await bench.turn(2)
    assert bench.events.told == ["marked low"]
    bench.pod("late", 0, "n", cpu="15")
    await bench.turn(3)
    assert "given up waits: node n: Insufficient cpu" in bench.events.told
    assert not bench.is_leaving("low")
    assert "spared low" in bench.events.told


async def test_a_victim_that_is_protected_by_now_ends_the_nomination(bench):
    bench.nominate("waits", "low", "lower")
    await bench.turn(2)
    label = {"metadata": {"labels": {names.LABEL_QUOTA_PREEMPTIBLE: "false"}}}
    bench.api.store.patch(Path("", "v1", "pods", "default", "lower"), label)
    await bench.turn(2)
    why = "default/lower is protected: label quota.scheduling.koordinator.sh/preemptible=false"
    assert f"given up waits: {why}" in bench.events.told
    refused = refused_victims({names.ANNOTATION_REFUSED: bench.note("waits", names.ANNOTATION_REFUSED)}, bench.now_s)
    assert refused == {bench.api.seen("lower").uid}
    assert not bench.is_leaving("low")


async def test_nobody_gets_a_second_set_while_the_first_leaves(bench):
    """The ledger has lost the plan under which they were marked."""
    first = Mark("lost", "default/waits", bench.api.seen("waits").uid, "")
    low = Path("", "v1", "pods", "default", "low")
    bench.api.store.patch(low, {"metadata": {"annotations": mark_note(first)}})
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    bench.api.store.patch(low._replace(subresource="status"), {"status": {"conditions": [condition]}})
    bench.api.store.delete(low)
    bench.nominate("waits", "lower")
    await bench.turn(3)
    assert bench.api.sent == []
    bench.api.store.delete(low, grace="0")
    await bench.turn(3)
    assert bench.is_leaving("lower")


async def test_a_mark_that_somebody_has_put_on_a_pod_that_leaves_stops_nobody(bench):
    made_up = Mark("x", "default/waits", bench.api.seen("waits").uid, "")
    bench.pod("slow", 0, "n")
    slow = Path("", "v1", "pods", "default", "slow")
    bench.api.store.patch(slow, {"metadata": {"annotations": mark_note(made_up)}})
    bench.api.store.delete(slow)
    bench.nominate("waits", "low")
    await bench.turn(3)
    assert bench.is_leaving("low")


async def test_who_never_leaves_is_no_victim_again_soon(bench):
    bench.nominate("waits", "low")
    await bench.turn(3)
    bench.now_s = NOW + 10_000_000_000
    await bench.turn()
    assert bench.api.seen("low").uid in bench.note("waits", names.ANNOTATION_REFUSED)


async def test_after_a_deletion_that_did_not_land_nobody_else_is_deleted(bench):
    bench.nominate("waits", "low", "lower")
    await bench.turn(2)
    bench.api.on("delete", lambda name, guard: Answer(500, reason="not now"))
    await bench.turn()
    assert not bench.is_leaving("low")
    assert not bench.is_leaving("lower")


async def test_of_two_plans_that_share_victims_one_has_all_of_them(bench):
    """A mark that does not land leaves those behind it to whoever has those before it."""
    bench.pod("other", 9)
    bench.nominate("waits", "low", "lower")
    bench.nominate("other", "low", "lower", plan="q")
    await bench.turn()

    def changes(name, body):
        bench.api.touch(name)
        bench.show()

    bench.api.on("patch", changes)
    for _ in range(8):
        await bench.turn()
    marks = {bench.note(name, names.ANNOTATION_EVICTED_FOR) for name in ("low", "lower")}
    assert len(marks) == 1
    assert bench.is_leaving("low")
    assert bench.is_leaving("lower")


async def test_a_gang_begins_whole_or_not_at_all(bench):
    bench.nominate("waits", "low", size=2)
    await bench.turn(2)
    assert "given up waits: 1 of 2 members are there" in bench.events.told
    assert not any(each.startswith("marked") for each in bench.events.told)


async def test_a_victim_that_is_no_lower_is_no_victim(bench):
    bench.pod("equal", 9, "n")
    bench.nominate("waits", "equal")
    await bench.turn()
    assert bench.events.told == ["given up waits: a victim is not of lower priority any more"]


async def test_victims_leave_in_bounded_numbers(bench, monkeypatch):
    monkeypatch.setattr("berth.cluster_writer.eviction_executor.ON_NODE_MAX", 1)
    bench.pod("second", 9)
    bench.nominate("waits", "low")
    bench.nominate("second", "lower", plan="q")
    await bench.turn(4)
    assert [each for each in bench.events.told if each.startswith("sent")] == ["sent low"]
    bench.api.store.delete(Path("", "v1", "pods", "default", "low"), grace="0")
    await bench.turn(2)
    assert [each for each in bench.events.told if each.startswith("sent")] == ["sent low", "sent lower"]


async def test_a_plan_whose_beneficiary_is_bound_is_over(bench):
    bench.nominate("waits", "low")
    await bench.turn()
    seen = bench.api.seen("waits")
    target = {"kind": "Node", "name": "n"}
    bound = {"metadata": {"name": "waits", "uid": seen.uid}, "target": target}
    assert bench.api.store.bind("default", "waits", bound).status == 201
    await bench.turn()
    assert len(bench.executor) == 0
    assert bench.events.told == []


def as_gang(bench: EvictionBench, gang: str, minimum: int, *members: str) -> None:
    notes = {names.ANNOTATION_GANG_NAME: gang, names.ANNOTATION_GANG_MIN: str(minimum)}
    for name in members:
        bench.api.store.patch(Path("", "v1", "pods", "default", name), {"metadata": {"annotations": notes}})
    bench.show()


def pod_group(bench: EvictionBench, name: str, minimum: int) -> Path:
    path = Path("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", "default")
    bench.api.store.create(path, {"metadata": {"name": name}, "spec": {"minMember": minimum}})
    show_group(bench, path._replace(name=name))
    return path._replace(name=name)


def show_group(bench: EvictionBench, path: Path) -> dict[str, str]:
    raw = json.loads(bench.api.store.get(path).body)
    meta = raw["metadata"]
    notes = meta.get("annotations") or {}
    group = PodGroup(
        namespace="default",
        name=path.name,
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        min_member=raw["spec"]["minMember"],
        annotations=notes,
    )
    key = subjects.namespaced_key("podgroup", "default", path.name)
    bench.cluster.read_state(key, encode(group), deleted=False, gap=False)
    return notes


async def test_a_gang_that_leaves_whole_is_noted_on_its_pod_group_before_the_first_deletion(bench):
    path = pod_group(bench, "g", 2)
    as_gang(bench, "g", 2, "low", "lower")
    bench.nominate("waits", "low", "lower")
    await bench.turn(2)
    assert names.ANNOTATION_DISPLACED not in show_group(bench, path)
    await bench.turn()
    assert show_group(bench, path)[names.ANNOTATION_DISPLACED] == "p"
    assert bench.is_leaving("low")
    assert bench.is_leaving("lower")
    assert bench.api.sent.index("patch g") < bench.api.sent.index("delete low")


async def test_half_a_gang_is_not_made_to_leave(bench):
    as_gang(bench, "g", 2, "low", "lower")
    bench.nominate("waits", "low")
    await bench.turn(3)
    assert not bench.is_leaving("low")
    assert bench.events.told == ["given up waits: default/low leaves 1 of the strict gang default/g, which needs 2"]


async def test_a_gang_lets_go_when_its_waiting_time_is_over(bench):
    as_gang(bench, "w", 1, "waits")
    bench.nominate("waits", "low", size=1)
    decision = bench.cluster.book.ledger.decisions["default", "waits"].decision
    decision = msgspec.structs.replace(decision, decided_ms=int(NOW * 1000))
    bench.write(subjects.decision_key(1, "default", "waits"), decision)
    bench.api.policies["patch low"] = Answer(500)
    await bench.turn(3)
    bench.now_s += 599
    await bench.turn(1)
    assert bench.events.told == []
    bench.now_s += 2
    await bench.turn(1)
    assert bench.events.told == ["given up waits: the waiting time of its gang, 600 s, is over"]


async def test_once_somebody_has_left_a_gang_goes_on_without_a_member_that_it_can_spare(bench):
    bench.pod("mate", 9)
    as_gang(bench, "w", 1, "waits", "mate")
    bench.nominate("waits", "low", "lower", size=2, begin=False)
    bench.nominate("mate", "low", "lower", size=2)
    bench.api.policies["delete lower"] = Answer(500)
    await bench.turn(3)
    assert bench.is_leaving("low")
    assert not bench.is_leaving("lower")
    bench.api.store.delete(Path("", "v1", "pods", "default", "mate"), grace="0")
    del bench.api.policies["delete lower"]
    bench.now_s += 60
    await bench.turn(3)
    assert bench.is_leaving("lower")
    mark = noted_mark({names.ANNOTATION_EVICTED_FOR: bench.note("lower", names.ANNOTATION_EVICTED_FOR)})
    assert mark is not None
    assert mark.beneficiary == "default/waits"
    assert not [told for told in bench.events.told if told.startswith("given up")]
