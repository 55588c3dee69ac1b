"""NodeNUMAResource by its arguments: the reference cases of the score and of amplified cpu, through a whole solver."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.contracts import names
from berth.contracts.topology import CoreCpus, NodeTopology, ZoneCapacity
from berth.placement_solver.core import explain
from berth.resources.amounts import add_into, parse_amounts
from berth.rules.amplification import amplify
from berth.testing.builders import GI, PodBuilder, node_topology, pod
from berth.testing.vectors import cases

RATIO = names.ANNOTATION_AMPLIFICATION_RATIO


def amounts(given: dict[str, str]) -> dict[str, int]:
    parsed, problems = parse_amounts(given, "given")
    assert problems == []
    return parsed


def own(name: str, cpu: int, **requests: int) -> PodBuilder:
    return pod(name).requests(cpu=cpu, **requests).label(names.LABEL_QOS, "LSR")


def configured(solving: type[Any], decides: str = "kube-scheduler", **args: Any) -> Any:
    """A solver whose profile has the score, with these arguments."""
    run = solving()
    config = [{"name": "NodeNUMAResource", "args": args}, {"name": "Berth", "args": {"decides": decides}}]
    on = {"enabled": [{"name": "NodeNUMAResource", "weight": 1}]}
    assert run.configure(plugins={"score": {**on, "disabled": [{"name": "*"}]}}, pluginConfig=config)
    return run


def strategy(type_: str, weights: dict[str, int]) -> dict[str, Any]:
    return {"type": type_, "resources": [{"name": name, "weight": weight} for name, weight in weights.items()]}


def scores(run: Any, builder: PodBuilder) -> dict[str, float]:
    run.pod(builder)
    ((unit,), _) = run.cluster.batch(1)
    (candidate,) = unit.candidates
    assert not candidate.cls.refusals, candidate.cls.refusals
    (rating,) = candidate.cls.ratings
    run.cluster.solver.picker._of_class(candidate.cls)
    run.delete_pod(candidate.name[1])
    count = len(run.cluster.nodes)
    values = [0.0] * count if rating.values is None else rating.values.tolist()
    return dict(zip(run.cluster.nodes.names, values, strict=True))


def topology_of(zones: dict[int, dict[str, int]]) -> NodeTopology:
    capacity = [ZoneCapacity(zone=zone, amounts=mine) for zone, mine in zones.items()]
    return NodeTopology(node="", version=1, zones=capacity)


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/numa_score"))
def test_score(case: dict[str, Any], solving: type[Any]) -> None:
    given, expect = case["given"], case["expect"]
    run = configured(
        solving,
        scoringStrategy=strategy(given.get("strategy", "LeastAllocated"), given["weights"]),
        numaScoringStrategy=strategy(given["numaStrategy"], given["weights"]),
    )
    for node in given["nodes"]:
        labels = {names.LABEL_NUMA_POLICY: node["policy"]} if node["policy"] else {}
        if node["policy"]:
            zones = {int(zone): amounts(each) for zone, each in node["numa"].items()}
            offered: dict[str, int] = {}
            for each in zones.values():
                add_into(offered, each)
            run.topology(node["name"], topology_of(zones))
        else:
            offered = amounts(node["allocatable"])
            run.topology(node["name"], node_topology(cores=offered[names.CPU] // 2000))
        run.node(node["name"], cpu=offered[names.CPU], memory=offered.get(names.MEMORY, 256 * GI), labels=labels)
        for at, there in enumerate(node["pods"]):
            status = {"numaNodeResources": [{"node": there["numa"], "resources": there["requests"]}]}
            builder = pod(f"{node['name']}-{at}").requests(amounts(there["requests"])).on(node["name"])
            builder.annotation(names.ANNOTATION_NUMA_SPEC, json.dumps({"numaTopologyPolicy": node["policy"]}))
            run.pod(builder.annotation(names.ANNOTATION_RESOURCE_STATUS, json.dumps(status)))
    requests = amounts(given["pod"]["requests"])
    builder = own("p", 0).requests(requests) if given["pod"]["cpuBind"] else pod("p").requests(requests)
    found = scores(run, builder)
    if "scores" in expect:
        assert found == expect["scores"]
    for zones_expected in expect.get("numa", {}).values():
        run.pod(builder)
        run.round()
        (claim,) = run.cluster.book.claims_of(("default", "p"))
        assert sorted(int(grant.id) for grant in claim.grants if grant.kind == "zone") == zones_expected


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/amplified_cpu_score"))
def test_amplified_score(case: dict[str, Any], solving: type[Any]) -> None:
    given = case["given"]
    run = configured(solving, scoringStrategy=strategy(given["strategy"], given["weights"]))
    for node in given["nodes"]:
        amplified(run, node["name"], amounts(node["rawAllocatable"]), node["cpuRatio"])
        first = 0
        for at, there in enumerate(node["pods"]):
            requests = amounts(there["requests"])
            assert there["cpuBind"]
            count = requests[names.CPU] // 1000
            status = json.dumps({"cpuset": f"{first}-{first + count - 1}"})
            first += count
            builder = own(f"{node['name']}-{at}", 0).requests(requests).on(node["name"])
            run.pod(builder.annotation(names.ANNOTATION_RESOURCE_STATUS, status))
    requests = amounts(given["pod"]["requests"])
    builder = own("p", 0).requests(requests) if given["pod"]["cpuBind"] else pod("p").requests(requests)
    assert scores(run, builder) == case["expect"]["scores"]


def amplified(run: Any, name: str, raw: dict[str, int], ratio: float, *, has_topology: bool = True) -> None:
    shown = amplify(raw[names.CPU], ratio)
    annotations = {RATIO: json.dumps({"cpu": ratio})}
    run.node(name, cpu=shown, memory=raw.get(names.MEMORY, 256 * GI), annotations=annotations)
    if has_topology:
        cores = [CoreCpus(zone=0, cpus=[2 * core, 2 * core + 1]) for core in range(raw[names.CPU] // 2000)]
        run.topology(name, NodeTopology(node="", version=1, cores=cores))


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/amplified_cpu_filter"))
def test_amplified_filter(case: dict[str, Any], solving: type[Any]) -> None:
    given, expect = case["given"], case["expect"]
    run = solving()
    is_reported = given["topologyReported"]
    raw = amounts({"cpu": given["rawCpu"]})
    amplified(run, "n", raw, given["cpuRatio"], has_topology=is_reported)
    first = 0
    for at, there in enumerate(given["pods"]):
        cpu = amounts({"cpu": there["cpu"]})[names.CPU]
        builder = own(f"x{at}", cpu) if there["cpuBind"] and is_reported else pod(f"x{at}").requests(cpu=cpu)
        if there["cpuBind"] and is_reported:
            status = json.dumps({"cpuset": f"{first}-{first + cpu // 1000 - 1}"})
            builder.annotation(names.ANNOTATION_RESOURCE_STATUS, status)
            first += cpu // 1000
        run.pod(builder.on("n"))
    cpu = amounts({"cpu": given["pod"]["cpu"]})[names.CPU]
    is_bound = given["pod"]["cpuBind"] and is_reported
    run.pod(own("p", cpu) if is_bound else pod("p").requests(cpu=cpu))
    solution = run.round()  # asserts that the verifier has nothing against it
    assert bool(solution.placements) == expect["fits"]
    if not expect["fits"]:
        texts = [reason.message for reason in solution.refusals[0].reasons]
        assert expect.get("reason", texts[0]) in texts


def test_a_plain_pod_sees_what_is_left_beside_cpus_of_their_own(solving: type[Any]) -> None:
    run = solving()
    amplified(run, "n", {names.CPU: 16_000}, 1.5)
    run.pod(own("a", 8000))
    run.round()
    run.pods([pod("b").requests(cpu=12_000), pod("c").requests(cpu=500)])
    (refusal,) = run.round().refusals
    assert explain.message(refusal.reasons, 1) == (
        "0/1 nodes are available: 1 Insufficient amplified cpu. To repair: free 500m cpu on node n."
    )
    claim = run.cluster.book.claims_of(("default", "b"))[0]
    more = claim._replace(
        name=("default", "c"), uid=run.cluster.book.pods["default", "c"].uid, amounts={names.CPU: 500}
    )
    assert run.verifier.check([more]) == [
        "node n: amplified cpu: 24500 claimed of 24000, with 8 CPUs of their own times 1.5"
    ]
    run.delete_pod("a")
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"c": "n"}


def test_a_ratio_that_nobody_can_read_is_said(solving: type[Any]) -> None:
    run = solving()
    run.node("n", annotations={RATIO: '{"cpu":'})
    run.pods([pod("a").requests(cpu=1), pod("none").requests(memory=1)])
    solution = run.round()
    assert run.nodes_of(solution) == {"none": "n"}
    assert solution.refusals[0].reasons[0].message == "node(s) invalid CPU amplification ratio"
    run.node("n")
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"a": "n"}


def test_the_default_bind_policy_is_the_profiles(solving: type[Any]) -> None:
    run = configured(solving, "native", defaultCPUBindPolicy="SpreadByPCPUs")
    run.node("n")
    run.topology("n", node_topology())
    run.pods(
        [
            own("a", 2000),
            own("b", 2000).annotation(names.ANNOTATION_RESOURCE_SPEC, '{"requiredCPUBindPolicy":"Default"}'),
        ]
    )
    solution = run.round()
    taken = {
        placement.candidate.name[1]: sorted(int(grant.id) for grant in placement.claim.grants)
        for placement in solution.placements
    }
    assert taken == {"a": [0, 2], "b": [1, 3]}


@pytest.mark.parametrize(("type_", "zone"), [("LeastAllocated", 1), ("MostAllocated", 0)])
def test_numa_nodes_are_filled_by_the_profiles_strategy(solving: type[Any], type_: str, zone: int) -> None:
    run = configured(solving, numaScoringStrategy={"type": type_, "resources": [{"name": "memory", "weight": 2}]})
    run.node("n", cpu=16_000)
    run.topology("n", node_topology(zones=2))
    spec = json.dumps({"numaTopologyPolicy": "SingleNUMANode"})
    status = json.dumps({"numaNodeResources": [{"node": 0, "resources": {"memory": "1Gi"}}]})
    there = pod("x").requests(memory=GI).annotation(names.ANNOTATION_NUMA_SPEC, spec).on("n")
    run.pod(there.annotation(names.ANNOTATION_RESOURCE_STATUS, status))
    run.pod(pod("a").requests(memory=GI).annotation(names.ANNOTATION_NUMA_SPEC, spec))
    run.round()
    (claim,) = run.cluster.book.claims_of(("default", "a"))
    assert [grant.id for grant in claim.grants] == [str(zone)]


def test_the_score_counts_where_scores_decide_and_nowhere_else(solving: type[Any]) -> None:
    chosen = {}
    for decides in ("native", "kube-scheduler"):
        run = configured(solving, decides, scoringStrategy=strategy("MostAllocated", {"cpu": 1}))
        run.node("large", cpu=64_000)
        run.node("small", cpu=8_000)
        if decides == "kube-scheduler":
            assert scores(run, pod("a").requests(cpu=4000)) == {"large": 6.0, "small": 50.0}
        run.pod(pod("b").requests(cpu=4000))
        chosen[decides] = run.nodes_of(run.round())["b"]
    assert chosen == {"native": "large", "kube-scheduler": "small"}


def test_a_node_that_cannot_give_cpus_has_no_score(solving: type[Any]) -> None:
    run = configured(solving, scoringStrategy=strategy("LeastAllocated", {"cpu": 1}))
    for name in ("none", "full", "some"):
        run.node(name, cpu=16_000)
    run.topology("full", node_topology(cores=1))
    run.topology("some", node_topology(cores=4))
    assert scores(run, own("a", 4000)) == {"none": 0.0, "full": 0.0, "some": 75.0}
