"""The harness itself: worlds are repeatable, a difference is seen, shrunk, explained. kube-scheduler is not asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.parity.berth_side import BerthSide
from tests.parity.comparing import Difference, NotYet, compare, reasons_of
from tests.parity.explained import RULES, explanation
from tests.parity.generator import FEATURES, world_of
from tests.parity.report import Report, manifests
from tests.parity.schedule_log import ScheduleLog
from tests.parity.shrinking import fewest, paths, pinned, shrink, without
from tests.parity.traces import read_traces, write_traces
from tests.parity.world import Identity, Manifest, Outcome, Step, Trace, World, identity

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
        "nominated": "nominatedNodeName",
        "owners": "kind: ReplicaSet",
    }
    assert set(words) == set(FEATURES)
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
    message = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. "
    message += "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
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
    assert log.said_of("alpha/p0", since) == ({"n1": {"NodeResourcesFit": 3}}, True, ())
    with path.open("a") as file:
        file.write('"Async Preemption finished completely" preemptor="alpha/p0" node="n1" result="success"\n')
        file.write('"Preemptor Pod preempted victim Pod" preemptor="alpha/p0" victim="beta/b1" node="n1"\n')
    assert not log.said_of("alpha/p0", since).is_preempting
    assert log.said_of("alpha/p0", since).victims == ("beta/b1",)
    assert log.said_of("alpha/p1", since).victims == ()


@pytest.mark.parametrize("name", ["traces.json", "traces.json.xz"])
def test_traces_survive_a_file(name: str, tmp_path: Path) -> None:
    trace = trace_of([node("n0")], waiting(), Outcome("bound", "n0", feasible=("n0",), scores={"n0": {"a": 1}}))
    write_traces(tmp_path / name, [trace])
    assert read_traces(tmp_path / name) == [trace]


# --- preemption -------------------------------------------------------------------------------------------------------


def held(name: str, on: str, priority: int = 0, start: str = "", port: int = 0, cpu: str = "3") -> Manifest:
    pod = waiting(name, cpu)
    pod["spec"] |= {"nodeName": on, "priority": priority}
    if port:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return {**pod, "status": {"phase": "Running", **({"startTime": start} if start else {})}}


def preempting(name: str = "p0", **spec: Any) -> Manifest:
    pod = waiting(name, "3")
    pod["spec"] |= {"priority": 10, **spec}
    return pod


def refusal(nominated: str, *victims: str, text: str = "2 Insufficient cpu", after: str = "") -> Outcome:
    message = f"0/2 nodes are available: {text}.{after}"
    return Outcome("unschedulable", message=message, nominated=nominated, victims=victims)


NODES = [node("n0"), node("n1")]
BOUND = [held("b0", "n0", 1, "2026-01-01T00:00:00Z"), held("b1", "n1", 2, "2026-01-01T00:00:00Z")]


def test_the_same_victims_are_no_difference() -> None:
    assert list(compare(trace_of([*NODES, *BOUND], preempting(), refusal("n0", "alpha/b0")))) == []


def test_of_equal_nodes_each_is_as_good() -> None:
    alike = [held("b0", "n0"), held("b1", "n1")]
    for nominated, victim in (("n0", "alpha/b0"), ("n1", "alpha/b1")):
        assert list(compare(trace_of([*NODES, *alike], preempting(), refusal(nominated, victim)))) == []


@pytest.mark.parametrize(
    ("outcome", "kind", "sign"),
    [
        (refusal("n1", "alpha/b1"), "victims", "other"),
        (refusal("n0", "alpha/b0", "alpha/b1"), "victims", "other"),
        (refusal(""), "victims", "more"),
    ],
)
def test_other_victims_are_a_difference(outcome: Outcome, kind: str, sign: str) -> None:
    (found,) = compare(trace_of([*NODES, *BOUND], preempting(), outcome))
    assert isinstance(found, Difference)
    assert (found.kind, found.signs) == (kind, {sign})


def test_nobody_leaves_where_somebody_does_or_for_another_reason() -> None:
    pod = preempting(preemptionPolicy="Never")
    (found,) = compare(trace_of([*NODES, *BOUND], pod, refusal("n0", "alpha/b0")))
    assert isinstance(found, Difference)
    assert (found.kind, found.signs) == ("victims", {"less"})
    said = refusal("", after=" no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.")
    assert list(compare(trace_of([*NODES, *BOUND], pod, said))) == []
    (found,) = compare(trace_of([*NODES, *BOUND], pod, refusal("", after=" preemption: another reason.")))
    assert isinstance(found, Difference)
    assert found.kind == "preemption"


def test_a_node_that_a_pod_was_nominated_to_is_its_own() -> None:
    pod = {**preempting(), "status": {"nominatedNodeName": "n1"}}
    assert list(compare(trace_of(NODES, pod, Outcome("bound", "n1", feasible=("n1",))))) == []
    (found,) = compare(trace_of(NODES, pod, Outcome("bound", "n0", feasible=("n0",))))
    assert isinstance(found, Difference)


def test_what_others_are_nominated_to_is_held() -> None:
    first = preempting("p0")
    nominated = {**first, "status": {"nominatedNodeName": "n0"}}
    second = waiting("p1", "2")
    refused = refusal("", text="1 Insufficient cpu")
    objects = (node("n0", cpu="4"), held("b0", "n0", cpu="2"))
    for after, verdict in (((identity(first), nominated), []), ((identity(first), first), ["verdict"])):
        steps = (
            Step(first, refusal("n0", "alpha/b0", text="1 Insufficient cpu"), (after,)),
            Step(second, refused, ()),
        )
        found = [each.kind for each in compare(Trace(World("0.0"), objects, steps)) if isinstance(each, Difference)]
        assert found == verdict


# --- what is meant ----------------------------------------------------------------------------------------------------


def explained(objects: list[Manifest], pod: Manifest, outcome: Outcome, before: tuple[Step, ...] = ()) -> str:
    trace = Trace(World("0.0", pending=(pod,)), tuple(objects), (*before, Step(pod, outcome, ())))
    found = [each for each in compare(trace) if isinstance(each, Difference) and each.name == pod["metadata"]["name"]]
    assert found
    return explanation(found[0], trace)


def test_victims_of_equal_importance() -> None:
    rule = "victims of equal importance"
    start = "2026-01-01T00:00:00Z"
    alike = [held(name, "n0", 1, start, cpu="2") for name in ("b0", "b1")]
    one = preempting()
    one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert explained([node("n0"), *alike], one, refusal("n0", "alpha/b0", text="1 Insufficient cpu")) == rule
    apart = [held("b0", "n0", 1, start, cpu="2"), held("b1", "n0", 1, "2026-01-01T00:00:01Z", cpu="2")]
    assert explained([node("n0"), *apart], one, refusal("n0", "alpha/b0", text="1 Insufficient cpu")) == ""


def test_a_host_port_that_two_pods_have() -> None:
    pod = preempting()
    pod["spec"]["containers"][0] = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}
    ports = "1 node(s) didn't have free ports for the requested pod ports"
    twice = [held("b0", "n0", 1, port=80, cpu="1"), held("b1", "n0", 20, port=80, cpu="1")]
    assert (
        explained([node("n0"), *twice], pod, refusal("n0", "alpha/b0", text=ports)) == "a host port that two pods have"
    )
    once = [held("b0", "n0", 1, port=81, cpu="1"), held("b1", "n0", 20, port=80, cpu="1")]
    assert explained([node("n0"), *once], pod, refusal("n0", "alpha/b0", text=ports)) == ""


def test_a_host_port_that_somebody_has_still_whose_fellow_has_left() -> None:
    pod = waiting("p1", "1")
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    first = preempting()
    gone = Step(first, refusal("n0", "alpha/b0", text="1 Insufficient cpu"), ((Identity("Pod", "alpha", "b0"), None),))
    for port, expected in ((80, "a host port that two pods have"), (81, "")):
        bound = [held("b0", "n0", 1, port=port, cpu="1"), held("b1", "n0", 20, port=80, cpu="1")]
        assert explained([node("n0"), *bound], pod, Outcome("bound", node="n0"), (gone,)) == expected


def test_a_victim_that_leaves_already_and_spread() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    outcome = refusal("n0", "alpha/b0", "alpha/b1", text="1 Insufficient cpu")
    leaving = held("b0", "n0", 1)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    rule = "a victim that leaves already, and spread"
    for pod, bound, expected in (
        (preempting(topologySpreadConstraints=[spread]), leaving, rule),
        (preempting(topologySpreadConstraints=[spread]), held("b0", "n0", 1), ""),
        (preempting(topologySpreadConstraints=[{**spread, "whenUnsatisfiable": "ScheduleAnyway"}]), leaving, ""),
    ):
        assert explained([node("n0"), bound], pod, outcome) == expected


def test_a_nominated_node_that_is_not_worth_a_try() -> None:
    wanted = {"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [wanted]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    text = "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    pod = preempting(affinity=affinity)
    nominated = {**pod, "status": {"nominatedNodeName": "n0"}}
    assert explained(NODES, nominated, refusal("", text=text)) == "a nominated node that is not worth a try"
    assert explained(NODES, pod, refusal("", text=text)) == ""


def test_scores_beside_a_nominated_pod() -> None:
    first = preempting("p0")
    nominated = {**first, "status": {"nominatedNodeName": "n0"}}
    before = (Step(first, refusal("n0"), ((identity(first), nominated),)),)
    nodes = [node("n0", cpu="16"), node("n1", cpu="16")]
    low = waiting("p1", "1")
    fit, balance = "NodeResourcesFit", "NodeResourcesBalancedAllocation"
    answer = BerthSide(nodes).decide(low)
    free = {name: dict(scores) for name, scores in answer.scores.items()}
    outcome = Outcome("bound", "n0", feasible=("n0", "n1"), scores=free)
    assert explained(nodes, low, outcome, before) == "scores beside a nominated pod"
    for node_name, plugin in (("n1", fit), ("n1", balance), ("n0", "TaintToleration")):
        wrong = {**free, node_name: {**free[node_name], plugin: 1}}
        outcome = Outcome("bound", "n0", feasible=("n0", "n1"), scores=wrong)
        assert explained(nodes, low, outcome, before) == ""


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ("Never", "1 Insufficient cpu"),
        ("PreemptLowerPriority", "preemption: not eligible due to a terminating pod on the nominated node."),
    ],
)
def test_a_nomination_that_its_pod_could_not_have(policy: str, text: str) -> None:
    never = preempting("p0", preemptionPolicy=policy)
    never["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9"
    never["status"] = {"nominatedNodeName": "n0"}
    first = Step(never, refusal("n0", text=text), ((identity(never), never),))
    low = waiting("p1", "1")
    outcome = refusal("", text="1 Insufficient cpu")
    assert explained([node("n0")], low, outcome, (first,)) == "a nomination that its pod could not have"
    assert explained([node("n0")], low, outcome) == ""


# --- shrinking --------------------------------------------------------------------------------------------------------


async def test_the_fewest() -> None:
    async def holds(items: Any) -> bool:
        return {3, 17} <= set(items)

    assert await fewest(range(40), holds) == [3, 17]


async def test_a_world_shrinks_to_what_differs() -> None:
    world = world_of(1, 6, ("taints", "affinity", "ports"))
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
