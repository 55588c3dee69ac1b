"""Affinity between pods: the reference cases, and what is refused by field."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts.kube import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    WeightedPodAffinityTerm,
)
from berth.contracts.state import Pod
from berth.rules.inter_pod_affinity import AffinityCounts
from berth.rules.pod_terms import Peer, Placed, Unfit, compile_pod_terms, merged_affinity
from berth.testing.peer_worlds import World, read_world
from berth.testing.vectors import cases


def placed_pod(pod: Pod) -> Placed:
    labels = pod.template.labels
    terms = compile_pod_terms(pod.template.affinity, pod.namespace, labels)
    assert terms.problems == ()
    return Placed(Peer(pod.namespace, labels, pod.deleting), pod.node, terms)


def counts_of(world: World) -> AffinityCounts:
    pod = placed_pod(world.pod)
    counts = AffinityCounts(pod.peer, pod.terms, world.namespaces)
    for each in world.pods:
        counts.add(placed_pod(each), world.nodes[each.node])
    return counts


@pytest.mark.parametrize("case", cases("kube-scheduler/inter_pod_affinity_filter"))
def test_filter_vector(case: dict[str, Any]) -> None:
    world = read_world(case["given"])
    counts = counts_of(world)
    assert {name: answer(counts.unfit(node)) for name, node in world.nodes.items()} == case["expect"]["nodes"]


def answer(unfit: Unfit | None) -> dict[str, Any]:
    if unfit is None:
        return {"code": "Success"}
    code = "Unschedulable" if unfit.resolvable else "UnschedulableAndUnresolvable"
    return {"code": code, "reasons": [unfit.reason]}


ANY = LabelSelector()


def of(term: PodAffinityTerm) -> Affinity:
    return Affinity(pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[term]))


@pytest.mark.parametrize(
    ("term", "field"),
    [
        (PodAffinityTerm(label_selector=ANY), "topologyKey"),
        (PodAffinityTerm(topology_key="-", label_selector=ANY), "topologyKey"),
        (
            PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"": "x"})),
            "labelSelector.matchLabels",
        ),
        (
            PodAffinityTerm(
                topology_key="zone",
                label_selector=ANY,
                namespace_selector=LabelSelector(match_expressions=[Requirement(key="a", operator="In")]),
            ),
            "namespaceSelector.matchExpressions[0].values",
        ),
    ],
)
def test_what_cannot_be_used_is_named(term: PodAffinityTerm, field: str) -> None:
    terms = compile_pod_terms(of(term), "default", {})
    path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
    assert [problem.field for problem in terms.problems] == [f"{path}.{field}"]


def test_a_weight_out_of_bounds_is_named() -> None:
    term = PodAffinityTerm(topology_key="zone", label_selector=ANY)
    heavy = WeightedPodAffinityTerm(weight=101, pod_affinity_term=term)
    affinity = Affinity(pod_affinity=PodAffinity(preferred_during_scheduling_ignored_during_execution=[heavy]))
    path = "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"
    assert [problem.field for problem in compile_pod_terms(affinity, "default", {}).problems] == [path]


def test_label_keys_are_merged_as_the_api_server_does() -> None:
    labels = {"app": "web", "rev": "2"}
    term = PodAffinityTerm(
        topology_key="zone", label_selector=ANY, match_label_keys=["app"], mismatch_label_keys=["rev", "none"]
    )
    weighted = WeightedPodAffinityTerm(weight=1, pod_affinity_term=term)
    affinity = Affinity(
        pod_affinity=PodAffinity(preferred_during_scheduling_ignored_during_execution=[weighted]),
        pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[term]),
    )
    merged = merged_affinity(affinity, labels)
    terms = compile_pod_terms(merged, "default", labels)
    for each in (terms.anti_affinity[0], terms.preferred[0][1]):
        assert each.matches(Peer("default", {"app": "web", "rev": "1"}), {})
        assert not each.matches(Peer("default", {"app": "web", "rev": "2"}), {})
        assert not each.matches(Peer("default", {"app": "db", "rev": "1"}), {})
    assert merged_affinity(merged, labels) == merged
    assert merged_affinity(None, labels) is None


def test_terms_that_mean_the_same_pods_have_one_identity() -> None:
    def identity(key: str, namespace: str, value: str = "a", **fields: Any) -> bytes:
        selector = LabelSelector(match_labels={"app": value})
        term = PodAffinityTerm(topology_key=key, label_selector=selector, **fields)
        return compile_pod_terms(of(term), namespace, {}).anti_affinity[0].identity

    assert identity("zone", "red") == identity("rack", "red")
    assert identity("zone", "red") == identity("zone", "blue", namespaces=["red"])
    assert identity("zone", "red") != identity("zone", "blue")
    assert identity("zone", "red") != identity("zone", "red", "b")
    assert identity("zone", "red") != identity("zone", "red", namespace_selector=ANY)
