"""Topology spread: the reference cases, and what is refused by field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.contracts.kube import LabelSelector, Requirement, TopologySpreadConstraint
from berth.rules.pod_selectors import default_selector
from berth.rules.pod_terms import Peer, Placed, Unfit, merge_label_keys
from berth.rules.topology_spread import (
    HARD,
    MISSING_REASON,
    REASON,
    SOFT,
    Defaults,
    Spread,
    SpreadCounts,
    compile_spread,
    default_spread,
    incoming_of,
)
from berth.testing.peer_worlds import World, read_constraints, read_selecting, read_world
from berth.testing.vectors import cases


def spread_of(world: World, given: dict[str, Any]) -> Spread:
    """The constraints of the pod, or those of the configuration."""
    template = world.pod.template
    if template.topology_spread:
        return compile_spread(template.topology_spread, template.labels)
    args = given.get("args", {})
    defaults = Defaults()
    if args.get("defaultingType") == "List":
        defaults = Defaults(tuple(read_constraints(args["defaultConstraints"])), are_systems=False)
    selecting, namespace = read_selecting(given), world.pod.namespace
    owner = selecting.of_owner(namespace, world.pod.owners)
    return default_spread(defaults, default_selector(template.labels, selecting.services(namespace), owner))


def placed(world: World) -> list[Placed]:
    return [Placed(Peer(pod.namespace, pod.template.labels, pod.deleting), pod.node) for pod in world.pods]


@pytest.mark.parametrize("case", cases("kube-scheduler/topology_spread_filter"))
def test_filter_vector(case: dict[str, Any]) -> None:
    world = read_world(case["given"])
    spread = spread_of(world, case["given"])
    assert spread.problems == ()
    incoming = incoming_of(world.pod.template, world.pod.namespace)
    counts = SpreadCounts(spread.hard, incoming, world.nodes.values())
    for pod in placed(world):
        counts.add(pod.peer, world.nodes[pod.node])
    assert {name: answer(counts.unfit(node)) for name, node in world.nodes.items()} == case["expect"]["nodes"]


def answer(unfit: Unfit | None) -> dict[str, Any]:
    if unfit is None:
        return {"code": "Success"}
    code = "Unschedulable" if unfit.resolvable else "UnschedulableAndUnresolvable"
    return {"code": code, "reasons": [unfit.reason]}


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/topology_spread"))
def test_derived_vector(case: dict[str, Any]) -> None:
    """The cases count pods by node and say which nodes count at all: pods and a node selector that come to the same."""
    given = case["given"]
    nodes = [
        {
            "metadata": {
                "name": each["name"],
                "labels": each["labels"] | ({} if each.get("eligible", True) else {"out": ""}),
            }
        }
        for each in given["nodes"]
    ]
    pods = [
        {"metadata": {"name": f"{each['name']}-{number}", "labels": {"foo": ""}}, "spec": {"nodeName": each["name"]}}
        for each in given["nodes"]
        for number in range(each["matching"])
    ]
    excluded = [{"matchExpressions": [{"key": "out", "operator": "DoesNotExist"}]}]
    spec = {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": excluded}}
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": given["maxSkew"],
                "topologyKey": given["topologyKey"],
                "whenUnsatisfiable": HARD,
                "minDomains": given["minDomains"],
                "labelSelector": {"matchExpressions": [{"key": "foo", "operator": "Exists"}]},
            }
        ],
    }
    metadata = {"name": "incoming", "labels": {"foo": ""} if given["selfMatch"] else {}}
    world = read_world({"pod": {"metadata": metadata, "spec": spec}, "nodes": nodes, "pods": pods})
    spread = compile_spread(world.pod.template.topology_spread, world.pod.template.labels)
    counts = SpreadCounts(spread.hard, incoming_of(world.pod.template, "default"), world.nodes.values())
    for pod in placed(world):
        counts.add(pod.peer, world.nodes[pod.node])
    unfit = counts.unfit(world.nodes[given["node"]])
    assert ("" if unfit is None else unfit.reason) == case["expect"]["reason"]


def constraint(**fields: Any) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        **(
            {"topology_key": "zone", "max_skew": 1, "when_unsatisfiable": HARD, "label_selector": LabelSelector()}
            | fields
        )
    )


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (constraint(topology_key=""), "topologyKey"),
        (constraint(topology_key="a b"), "topologyKey"),
        (constraint(max_skew=0), "maxSkew"),
        (constraint(max_skew=1 << 40), "maxSkew"),
        (constraint(min_domains=0), "minDomains"),
        (constraint(when_unsatisfiable="Maybe"), "whenUnsatisfiable"),
        (constraint(node_affinity_policy="honor"), "nodeAffinityPolicy"),
        (constraint(node_taints_policy="No"), "nodeTaintsPolicy"),
        (
            constraint(label_selector=LabelSelector(match_expressions=[Requirement(key="a", operator="Near")])),
            "labelSelector.matchExpressions[0].operator",
        ),
    ],
)
def test_what_cannot_be_used_is_named(broken: TopologySpreadConstraint, field: str) -> None:
    spread = compile_spread([constraint(), broken], {})
    assert [problem.field for problem in spread.problems] == [f"spec.topologySpreadConstraints[1].{field}"]


def test_too_many_constraints_are_refused() -> None:
    spread = compile_spread([constraint()] * 65, {})
    assert [problem.field for problem in spread.problems] == ["spec.topologySpreadConstraints"]


def test_label_keys_are_merged_once() -> None:
    labels = {"app": "a", "rev": "2"}
    once = merge_label_keys(LabelSelector(match_labels={"app": "a"}), labels, ["rev", "no"], ["app"])
    assert once == LabelSelector(
        match_labels={"app": "a"},
        match_expressions=[
            Requirement(key="rev", operator="In", values=["2"]),
            Requirement(key="app", operator="NotIn", values=["a"]),
        ],
    )
    assert merge_label_keys(once, labels, ["rev", "no"], ["app"]) == once
    assert merge_label_keys(None, labels, ["rev"]) is None


def test_label_keys_narrow_what_counts() -> None:
    """Two revisions of a deployment are spread each by itself."""
    own = compile_spread([constraint(match_label_keys=["rev"])], {"rev": "2"}).hard[0]
    assert own.counted(Peer("default", {"rev": "2"}), "default")
    assert not own.counted(Peer("default", {"rev": "1"}), "default")
    without_the_key = compile_spread([constraint(match_label_keys=["rev"])], {}).hard[0]
    assert not without_the_key.counts  # an empty selector counts nobody
    assert without_the_key.selects({})


def test_constraints_of_the_configuration_have_the_selector_of_the_fellows() -> None:
    selector = LabelSelector(match_labels={"app": "a", "x": "1"})
    spread = default_spread(Defaults(), selector)
    assert [each.key for each in spread.soft] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert not spread.requires_all_keys
    assert default_spread(Defaults(), LabelSelector()) == Spread()


def test_no_counted_domain_lets_the_pod_in() -> None:
    world = read_world(
        {
            "pod": {"metadata": {"name": "p"}, "spec": {"nodeSelector": {"disk": "ssd"}}},
            "nodes": [{"metadata": {"name": "a", "labels": {"zone": "z"}}}, {"metadata": {"name": "b"}}],
            "pods": [],
        }
    )
    hard = compile_spread([constraint()], {}).hard
    counts = SpreadCounts(hard, incoming_of(world.pod.template, "default"), world.nodes.values())
    assert counts.unfit(world.nodes["a"]) is None
    assert counts.unfit(world.nodes["b"]) == Unfit(MISSING_REASON, resolvable=False)


def test_the_first_constraint_that_fails_names_the_reason() -> None:
    nodes = [{"metadata": {"name": name, "labels": {"zone": name}}} for name in "ab"]
    pods = [{"metadata": {"name": "x", "labels": {"foo": ""}}, "spec": {"nodeName": "a"}}]
    world = read_world({"pod": {"metadata": {"name": "p"}, "spec": {}}, "nodes": nodes, "pods": pods})
    anyone = LabelSelector(match_expressions=[Requirement(key="foo", operator="Exists")])
    both = compile_spread(
        [constraint(label_selector=anyone), constraint(topology_key="rack", label_selector=anyone)], {"foo": ""}
    ).hard
    counts = SpreadCounts(both, incoming_of(world.pod.template, "default"), world.nodes.values())
    # No node has both keys, so nothing counts, and the second constraint is the one that fails.
    assert counts.unfit(world.nodes["a"]) == Unfit(MISSING_REASON, resolvable=False)
    one = SpreadCounts(
        both[:1],
        incoming_of(msgspec.structs.replace(world.pod.template, labels={"foo": ""}), "default"),
        world.nodes.values(),
    )
    one.add(Peer("default", {"foo": ""}), world.nodes["a"])
    assert one.unfit(world.nodes["a"]) == Unfit(REASON)
    one.add(Peer("default", {"foo": ""}), world.nodes["a"], -1)
    assert one.unfit(world.nodes["a"]) is None


def test_soft_constraints_rule_nothing_out() -> None:
    spread = compile_spread([constraint(when_unsatisfiable=SOFT)], {})
    assert (len(spread.hard), len(spread.soft)) == (0, 1)
