"""Which NUMA policy holds for a pod on a node: what each of them asks for, and both together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_NUMA_SPEC, LABEL_NUMA_POLICY, LABEL_NUMA_STRATEGY
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.kubelet import BEST_EFFORT, NO_POLICY, RESTRICTED, SINGLE_NUMA_NODE, numa_policy
from berth.rules.cpus.take import LEAST_ALLOCATED, MOST_ALLOCATED

POLICIES: Final = (BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)
REQUIRED: Final = "Required"
"""Exclusive: pods within one zone and pods across several do not meet on a zone."""
PREFERRED: Final = "Preferred"
"""Exclusive: they may."""
NO_MATCH: Final = "node(s) NUMA Topology policy not match"

_FIELD: Final = annotation_field(ANNOTATION_NUMA_SPEC)
_TEXT_MAX: Final = 60


class NumaSpec(NamedTuple):
    """What a pod asks for: a policy (empty: none), and whether zones are to be exclusive (empty: as it comes)."""

    policy: str = ""
    exclusive: str = ""

    @property
    def is_exclusive(self) -> bool:
        """Whether zones must be exclusive."""
        return self.exclusive == REQUIRED


NO_SPEC: Final = NumaSpec()


class PairPolicy(NamedTuple):
    """The policy of a pod on a node, empty for none; or the `reason` why the two exclude each other, for good."""

    policy: str = ""
    reason: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    numa_topology_policy: str = ""
    exclusive: str = msgspec.field(default="", name="singleNUMANodeExclusive")


def read_numa_spec(annotations: Mapping[str, str]) -> NumaSpec | Problem:
    """What the pod's annotation asks for. A pod that sets a policy and says nothing else wants zones exclusive.

    A policy or an exclusiveness that nobody knows is a problem: to place the pod without it would look as if it held.
    """
    read = read_annotation(annotations, ANNOTATION_NUMA_SPEC, _Spec)
    if read is None:
        return NO_SPEC
    if isinstance(read, Problem):
        return read
    policy = "" if read.numa_topology_policy == NO_POLICY else read.numa_topology_policy
    if policy and policy not in POLICIES:
        return _unknown("numaTopologyPolicy", policy, POLICIES)
    if read.exclusive not in ("", REQUIRED, PREFERRED):
        return _unknown("singleNUMANodeExclusive", read.exclusive, (REQUIRED, PREFERRED))
    return NumaSpec(policy, read.exclusive or (REQUIRED if policy else ""))


def node_policy(labels: Mapping[str, str], reported: Sequence[str]) -> str:
    """The policy of a node, empty for none: kubelet's, else its label's (`numa_policy`).

    `reported` are the `topologyPolicies` of its NodeResourceTopology, of which the first counts.
    """
    return numa_policy(reported[0] if reported else "", labels.get(LABEL_NUMA_POLICY, ""))


def pair_policy(pod: str, node: str) -> PairPolicy:
    """The policy that holds for a pod on a node: the one that either has; two different ones exclude each other.

    A text that is no policy is none.
    """
    pod = pod if pod in POLICIES else ""
    node = node if node in POLICIES else ""
    if pod and node and pod != node:
        return PairPolicy(reason=NO_MATCH)
    return PairPolicy(pod or node)


def zone_strategy(node_labels: Mapping[str, str], default: str) -> str:
    """Which zones are filled first: by the node's label, else by the profile's default.

    Every text but MostAllocated acts as LeastAllocated.
    """
    text = node_labels.get(LABEL_NUMA_STRATEGY) or default
    return MOST_ALLOCATED if text == MOST_ALLOCATED else LEAST_ALLOCATED


def _unknown(key: str, text: str, known: tuple[str, ...]) -> Problem:
    return Problem(field=f"{_FIELD}.{key}", message=f"{text[:_TEXT_MAX]!r} is none of {', '.join(known)}")
