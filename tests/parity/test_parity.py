"""The harness itself: worlds are repeatable, a difference is seen, shrunk, explained. kube-scheduler is not asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.parity.comparing import Difference, NotYet, compare, reasons_of
from tests.parity.explained import RULES
from tests.parity.generator import FEATURES, world_of
from tests.parity.report import Report, manifests
from tests.parity.schedule_log import ScheduleLog
from tests.parity.shrinking import fewest, paths, pinned, shrink, without
from tests.parity.world import Manifest, Outcome, Step, Trace, World, identity

DOCUMENT = Path(__file__).parents[2] / "docs" / "parity.md"


# --- worlds -----------------------------------------------------------------------------------------------------------


def test_the_same_seed_makes_the_same_world() -> None:
    assert world_of(3, 14) == world_of(3, 14)
    assert world_of(3, 14) != world_of(3, 15)


@pytest.mark.parametrize("number", range(40))
def test_a_feature_that_is_off_is_not_there(number: int) -> None:
    world = world_of(1, number, ("taints",))
    text = manifests(world)
    assert world.features == ("taints",)
    for word in ("podAffinity", "topologySpreadConstraints", "persistentVolumeClaim", "hostPort", "priorityClassName"):
        assert word not in text


def test_every_feature_is_in_some_world() -> None:
    words = {
        "taints": "tolerations:",
        "cordon": "unschedulable: true",
        "affinity": "nodeSelectorTerms",
        "preferred": "preference:",
        "ports": "hostPort",
        "requests": "restartPolicy: Always",
        "extended": "example.com/widget",
        "images": "sizeBytes",
        "spread": "DoNotSchedule",
        "softspread": "ScheduleAnyway",
        "peers": "podAntiAffinity",
        "preferredpeers": "podAffinityTerm",
        "volumes": "kind: PersistentVolumeClaim",
        "disks": "pdName",
        "preemption": "priorityClassName",
        "budgets": "kind: PodDisruptionBudget",
        "gates": "schedulingGates",
    }
    assert {*words, "nominated"} == set(FEATURES)
    for feature, word in words.items():
        assert any(word in manifests(world_of(1, number, (feature,))) for number in range(30)), feature


def test_names_are_unique() -> None:
    for number in range(30):
        world = world_of(2, number)
        names = [identity(each) for each in (*world.objects, *world.pending)]
        assert len(set(names)) == len(names)


# --- comparing --------------------------------------------------------------------------------------------------------


def served(kind: str, name: str, **parts: Any) -> Manifest:
    namespace = {} if kind == "Node" else {"namespace": "alpha"}
    meta = {"name": name, **namespace, "uid": f"uid-{name}", "resourceVersion": "7"}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **parts}


def node(name: str, cpu: str = "4", **spec: Any) -> Manifest:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
    return served("Node", name, spec=spec, status=status)


def waiting(name: str = "p0", cpu: str = "1") -> Manifest:
    resources = {"requests": {"cpu": cpu}}
    spec = {"schedulerName": "default-scheduler", "containers": [{"name": "c", "resources": resources}]}
    return served("Pod", name, spec=spec)


def trace_of(nodes: list[Manifest], pod: Manifest, outcome: Outcome) -> Trace:
    return Trace(World("0.0", pending=(pod,)), tuple(nodes), (Step(pod, outcome, ()),))


def test_equal_answers_are_no_difference() -> None:
    nodes = [node("n0"), node("n1", cpu="500m"), node("n2", unschedulable=True)]
    assert list(compare(trace_of(nodes, waiting(), Outcome("bound", "n0", feasible=("n0",))))) == []
    message = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: 0/3 nodes are ..."
    assert list(compare(trace_of(nodes, waiting(cpu="9"), Outcome("unschedulable", message=message)))) == []


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome("unschedulable", message="0/2 nodes are available: 2 Insufficient cpu."), "verdict"),
        (Outcome("bound", "n0", feasible=("n0",)), "feasible"),
        (Outcome("gated"), "verdict"),
    ],
)
def test_another_answer_is_a_difference(outcome: Outcome, kind: str) -> None:
    (found,) = compare(trace_of([node("n0"), node("n1")], waiting(), outcome))
    assert isinstance(found, Difference)
    assert found.kind == kind


def test_another_count_is_a_difference() -> None:
    message = "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."
    (found,) = compare(trace_of([node("n0"), node("n1")], waiting(cpu="9"), Outcome("unschedulable", message=message)))
    assert isinstance(found, Difference)
    assert found.kind == "reasons"
    assert found.signs == {"Insufficient memory"}


def test_what_happened_to_a_pod_is_shown_to_berth() -> None:
    first, second = waiting("p0", "3"), waiting("p1", "3")
    bound = {**first, "spec": {**first["spec"], "nodeName": "n0"}}
    steps = (
        Step(first, Outcome("bound", "n0", feasible=("n0",)), ((identity(bound), bound),)),
        Step(second, Outcome("unschedulable", message="0/1 nodes are available: 1 Insufficient cpu."), ()),
    )
    assert list(compare(Trace(World("0.0"), (node("n0"),), steps))) == []


def test_a_field_that_is_refused_by_name_is_not_yet() -> None:
    pod = waiting()
    pod["spec"]["resourceClaims"] = [{"name": "claim", "resourceClaimName": "claim"}]
    (found,) = compare(trace_of([node("n0")], pod, Outcome("bound", "n0", feasible=("n0",))))
    assert isinstance(found, NotYet)
    assert found.fields == ("spec.resourceClaims",)


def test_the_text_of_a_failure() -> None:
    head = "0/5 nodes are available: "
    text = f"{head}1 node(s) were unschedulable, 4 Insufficient cpu. no new claims to deallocate, preemption: 0/5 ..."
    assert reasons_of(text) == ({"node(s) were unschedulable": 1, "Insufficient cpu": 4}, "")
    text = f'{head}persistentvolumeclaim "a" not found. preemption: 0/5 nodes are available: 5 Preemption is not ...'
    assert reasons_of(text) == ({}, 'persistentvolumeclaim "a" not found')
    assert reasons_of("no nodes available to schedule pods") == ({}, "no nodes available to schedule pods")


def test_the_log_of_a_pod(tmp_path: Path) -> None:
    path = tmp_path / "log"
    line = '"Plugin scored node for pod" pod="alpha/{}" plugin="NodeResourcesFit" node="n1" score={}\n'
    begun = '"Start the preemption asynchronously" preemptor="alpha/p0" node="n1" numVictims=1\n'
    path.write_text(line.format("p0", 1))
    log = ScheduleLog(path)
    since = log.size
    with path.open("a") as file:
        file.write(line.format("p1", 2) + line.format("p0", 3) + begun)
    assert log.said_of("alpha/p0", since) == ({"n1": {"NodeResourcesFit": 3}}, True)
    with path.open("a") as file:
        file.write('"Async Preemption finished completely" preemptor="alpha/p0" node="n1" result="success"\n')
    assert not log.said_of("alpha/p0", since).is_preempting


def test_a_trace_survives_a_file() -> None:
    trace = trace_of([node("n0")], waiting(), Outcome("bound", "n0", feasible=("n0",), scores={"n0": {"a": 1}}))
    assert msgspec.json.decode(msgspec.json.encode(trace), type=Trace) == trace


# --- shrinking --------------------------------------------------------------------------------------------------------


async def test_the_fewest() -> None:
    async def holds(items: Any) -> bool:
        return {3, 17} <= set(items)

    assert await fewest(range(40), holds) == [3, 17]


async def test_a_world_shrinks_to_what_differs() -> None:
    world = world_of(1, 3, ("taints", "affinity", "ports"))
    (tainted, *_) = [each for each in world.objects if each["kind"] == "Node" and each["spec"].get("taints")]

    async def differs(smaller: World) -> bool:
        nodes = [each for each in smaller.objects if each["metadata"]["name"] == tainted["metadata"]["name"]]
        return bool(smaller.pending) and any(each.get("spec", {}).get("taints") for each in nodes)

    small = await shrink(world, differs)
    assert len(small.pending) == 1
    assert [identity(each) for each in small.objects] == [identity(tainted)]
    assert set(small.objects[0]["spec"]) == {"taints"}
    assert set(small.pending[0]["spec"]) == {"containers"}


def test_what_an_object_cannot_do_without_is_not_left_out() -> None:
    pod = {**waiting(), "spec": {**waiting()["spec"], "nodeName": "n0"}}
    found = list(paths(pod))
    assert ("spec", "nodeName") not in found
    assert ("spec", "containers") not in found
    assert ("spec", "containers", 0, "resources") in found
    assert "resources" not in without(pod, ("spec", "containers", 0, "resources"))["spec"]["containers"][0]
    assert "resources" in pod["spec"]["containers"][0], "the original stays"


def test_earlier_pods_are_pinned_to_where_they_went() -> None:
    pods = [waiting(f"p{number}") for number in range(3)]
    outcomes = [Outcome("bound", "n1"), Outcome("unschedulable"), Outcome("bound", "n0")]
    steps = tuple(Step(pod, outcome, ()) for pod, outcome in zip(pods, outcomes, strict=True))
    world = pinned(Trace(World("0.0", pending=tuple(pods)), (), steps), "p2")
    assert [(each["metadata"]["name"], each["spec"]["nodeName"]) for each in world.objects] == [("p0", "n1")]
    assert [each["metadata"]["name"] for each in world.pending] == ["p2"]


# --- the document -----------------------------------------------------------------------------------------------------


def test_every_rule_is_explained_and_every_explanation_has_a_rule() -> None:
    table = DOCUMENT.read_text().partition("| --- | --- |\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE) == [rule.name for rule in RULES]


def test_a_report_counts() -> None:
    report = Report()
    report.see(trace_of([], waiting(), Outcome("bound", "n0")))
    report.not_compared(("spec.volumes[0].iscsi", "spec.volumes[1].iscsi"))
    assert "1 spec.volumes[].iscsi" in report.text()
    assert "no unexplained difference" in report.text()
