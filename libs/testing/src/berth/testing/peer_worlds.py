"""Clusters as constraints between pods see them: nodes, pods with labels and terms, namespaces.

`read_world` takes what a reference case gives, `worlds` draws small random ones in which constraints often bind.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
from hypothesis import strategies as st

from berth.contracts import kube
from berth.contracts.kube import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from berth.contracts.state import Node, Pod, PodTemplate, ReplicaSet, Service
from berth.rules.pod_selectors import SelectingObjects

HOSTNAME: Final = "kubernetes.io/hostname"


class World(NamedTuple):
    """A pod that waits, all nodes and placed pods, and the labels of the namespaces."""

    pod: Pod
    nodes: dict[str, Node]
    pods: list[Pod]
    namespaces: dict[str, dict[str, str]]


def read_world(given: dict[str, Any]) -> World:
    """What a reference case gives, as STATE would show it."""
    nodes = msgspec.convert(given["nodes"], list[kube.Node])
    namespaces = given.get("namespaces", [])
    return World(
        read_pod(given["pod"]),
        {node.metadata.name: read_node(node) for node in nodes},
        [read_pod(each) for each in given["pods"]],
        {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in namespaces},
    )


def read_node(node: kube.Node) -> Node:
    """A node as STATE shows it."""
    name = node.metadata.name
    return Node(name=name, uid=name, version=1, labels=node.metadata.labels or {}, taints=node.spec.taints or [])


def read_pod(manifest: dict[str, Any]) -> Pod:
    """A pod as STATE shows it, as far as other pods are concerned."""
    pod = msgspec.convert(manifest, kube.Pod)
    template = PodTemplate(
        labels=pod.metadata.labels or {},
        node_selector=pod.spec.node_selector or {},
        affinity=pod.spec.affinity,
        tolerations=pod.spec.tolerations or [],
        topology_spread=pod.spec.topology_spread_constraints or [],
    )
    return Pod(
        namespace=pod.metadata.namespace or "default",
        name=pod.metadata.name,
        uid=pod.metadata.name,
        version=1,
        node=pod.spec.node_name,
        template=template,
        deleting="deletionTimestamp" in manifest["metadata"],
        owners=pod.metadata.owner_references or [],
    )


def read_selecting(given: dict[str, Any]) -> SelectingObjects:
    """The Services and ReplicaSets that a reference case gives."""
    found = SelectingObjects()
    for each in msgspec.convert(given.get("services", []), list[kube.Service]):
        name = (each.metadata.namespace, each.metadata.name)
        found.see_service(name, Service(namespace=name[0], name=name[1], version=1, selector=each.spec.selector or {}))
    for owner in msgspec.convert(given.get("replicaSets", []), list[kube.ReplicaSet]):
        name = (owner.metadata.namespace, owner.metadata.name)
        shown = ReplicaSet(namespace=name[0], name=name[1], version=1, selector=owner.spec.selector)
        found.see_controller(ReplicaSet, name, shown)
    return found


def read_constraints(constraints: list[dict[str, Any]]) -> list[TopologySpreadConstraint]:
    """Topology spread constraints, as they are written."""
    return msgspec.convert(constraints, list[TopologySpreadConstraint])


KEYS: Final = ("zone", "rack", HOSTNAME)
NAMESPACES: Final = ("red", "blue")
LABELS: Final = ("app", "tier")
VALUES: Final = ("a", "b")

# Few labels and values, most of them alike: a constraint that matches nobody tests nothing.
_labels = st.sampled_from(
    [{"app": "a"}, {"app": "a"}, {"app": "a", "tier": "a"}, {"app": "a", "tier": "b"}, {"app": "b"}, {}]
)
_requirements = st.one_of(
    st.builds(
        Requirement,
        key=st.sampled_from(LABELS),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.sampled_from([["a"], ["b"], ["a", "b"]]),
    ),
    st.builds(Requirement, key=st.sampled_from(LABELS), operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
_selectors = st.one_of(
    st.just(LabelSelector(match_labels={"app": "a"})),
    st.just(LabelSelector(match_labels={"app": "a"})),
    st.builds(LabelSelector, match_expressions=st.lists(_requirements, min_size=1, max_size=2)),
    st.sampled_from([None, LabelSelector(), LabelSelector(match_labels={"tier": "a"})]),
)
_terms = st.builds(
    PodAffinityTerm,
    topology_key=st.sampled_from(KEYS),
    label_selector=_selectors,
    namespaces=st.sampled_from([None, None, ["red"], ["blue", "red"]]),
    namespace_selector=st.sampled_from(
        [
            None,
            None,
            LabelSelector(),
            LabelSelector(match_labels={"team": "a"}),
            LabelSelector(match_labels={"team": "a"}),
        ]
    ),
)
_affinities = st.builds(
    PodAffinity,
    required_during_scheduling_ignored_during_execution=st.one_of(st.none(), st.lists(_terms, min_size=1, max_size=2)),
    preferred_during_scheduling_ignored_during_execution=st.one_of(
        st.none(),
        st.lists(st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 9), pod_affinity_term=_terms), max_size=2),
    ),
)
_constraints = st.builds(
    TopologySpreadConstraint,
    topology_key=st.sampled_from(KEYS),
    max_skew=st.integers(1, 2),
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
    label_selector=_selectors,
    min_domains=st.sampled_from([None, None, 2, 3]),
    node_affinity_policy=st.sampled_from(["", "Ignore"]),
    node_taints_policy=st.sampled_from(["", "Honor"]),
    match_label_keys=st.sampled_from([None, ["tier"]]),
)
templates: Final = st.builds(
    PodTemplate,
    labels=_labels,
    node_selector=st.sampled_from([{}, {}, {"zone": "a"}]),
    tolerations=st.sampled_from([[], [Toleration(key="t", operator="Exists")]]),
    affinity=st.one_of(
        st.none(),
        st.builds(
            Affinity,
            pod_affinity=st.one_of(st.none(), _affinities),
            pod_anti_affinity=st.one_of(st.none(), _affinities),
        ),
    ),
    topology_spread=st.one_of(st.just([]), st.lists(_constraints, min_size=1, max_size=2)),
)
namespace_labels: Final = st.sampled_from([{}, {"team": "a"}, {"team": "b"}])


@st.composite
def nodes_of(draw: st.DrawFn, name: str) -> Node:
    """A node, with some of the labels that are keys of domains."""
    labels = {key: draw(st.sampled_from(["a", "a", "b", ""])) for key in KEYS if draw(st.integers(0, 4))}
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    taints = draw(st.sampled_from([[], [], [Taint(key="t", effect="NoSchedule")]]))
    return Node(name=name, uid=name, version=1, labels=labels, taints=taints, allocatable={"pods": 110})


@st.composite
def pods_of(draw: st.DrawFn, name: str, nodes: tuple[str, ...] = ("",)) -> Pod:
    """A pod on one of the nodes; the empty name is none."""
    return Pod(
        namespace=draw(st.sampled_from(("red", "red", "blue"))),
        name=name,
        uid=f"uid-{name}",
        version=1,
        node=draw(st.sampled_from(nodes)),
        template=draw(templates),
        deleting=draw(st.sampled_from([False, False, True])),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A small cluster with a pod that waits."""
    names = tuple(f"n{number}" for number in range(draw(st.integers(2, 4))))
    nodes = {name: draw(nodes_of(name)) for name in names}
    pods = [draw(pods_of(f"p{number}", names)) for number in range(draw(st.integers(1, 6)))]
    pod = msgspec.structs.replace(draw(pods_of("incoming")), deleting=False)
    return World(pod, nodes, pods, {name: draw(namespace_labels) for name in NAMESPACES})
