"""The list of what the solver knows: constraints, in the order in which the first that rejects a node names the reason,
scores, and allocators.

A new constraint is a file in `core/constraints`, a law in `core/verify`, and a line here; a score a file in
`core/scores` and a line here; an allocator a file in `core/allocators`, a tally that `core.tallies.granted` lists, a
law that `core.verify.grants` lists, a record that `berth.rules.records` lists, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from berth.contracts.base import Problem
from berth.contracts.state import PodTemplate
from berth.placement_solver.core.allocators.cores import CoreAllocator
from berth.placement_solver.core.allocators.devices import DeviceAllocator
from berth.placement_solver.core.constraints.device_share import DeviceShare
from berth.placement_solver.core.constraints.gpu_sharing import GPUSharing
from berth.placement_solver.core.constraints.inter_pod_affinity import InterPodAffinity
from berth.placement_solver.core.constraints.load_aware_scheduling import LoadAwareScheduling
from berth.placement_solver.core.constraints.network_topology import NetworkTopology
from berth.placement_solver.core.constraints.node_affinity import NodeAffinity
from berth.placement_solver.core.constraints.node_name import NodeName
from berth.placement_solver.core.constraints.node_numa_resource import NodeNUMAResource
from berth.placement_solver.core.constraints.node_ports import NodePorts
from berth.placement_solver.core.constraints.node_resources_fit import NodeResourcesFit
from berth.placement_solver.core.constraints.node_unschedulable import NodeUnschedulable
from berth.placement_solver.core.constraints.node_volume_limits import NodeVolumeLimits
from berth.placement_solver.core.constraints.pod_topology_spread import PodTopologySpread
from berth.placement_solver.core.constraints.quota_tree import QuotaTree
from berth.placement_solver.core.constraints.taint_toleration import TaintToleration
from berth.placement_solver.core.constraints.volume_binding import VolumeBinding
from berth.placement_solver.core.constraints.volume_restrictions import VolumeRestrictions
from berth.placement_solver.core.constraints.volume_zone import VolumeZone
from berth.placement_solver.core.facts import Facts
from berth.placement_solver.core.gatherers.network_topology import NetworkGatherer
from berth.placement_solver.core.gatherers.seam import Gatherer
from berth.placement_solver.core.load_table import LoadTable
from berth.placement_solver.core.scores.balanced_allocation import BalancedAllocationScore
from berth.placement_solver.core.scores.device_share import DeviceShareScore
from berth.placement_solver.core.scores.fragmentation import FragmentationScore
from berth.placement_solver.core.scores.image_locality import ImageLocalityScore
from berth.placement_solver.core.scores.inter_pod_affinity import InterPodAffinityScore, prefers_pods
from berth.placement_solver.core.scores.load_aware_scheduling import LoadAwareScore
from berth.placement_solver.core.scores.network_topology_selector import NetworkTopologySelector, has_selector
from berth.placement_solver.core.scores.node_affinity import NodeAffinityScore
from berth.placement_solver.core.scores.node_numa_resource import NodeNUMAResourceScore
from berth.placement_solver.core.scores.node_resources_fit import NodeResourcesFitScore
from berth.placement_solver.core.scores.node_resources_fit_plus import NodeResourcesFitPlusScore
from berth.placement_solver.core.scores.pod_topology_spread import PodTopologySpreadScore
from berth.placement_solver.core.scores.scarce_resource_avoidance import ScarceResourceAvoidanceScore
from berth.placement_solver.core.scores.taint_toleration import TaintTolerationScore
from berth.placement_solver.core.seams import (
    BEYOND_NODE,
    Allocator,
    Constraint,
    Depends,
    Freeable,
    Rejection,
    Score,
    Spec,
    Unusable,
)
from berth.placement_solver.core.tallies.spreads import Spreads
from berth.rules.scheduler_config import (
    DEFAULT,
    BalancedArgs,
    BerthArgs,
    DeviceShareArgs,
    FitArgs,
    FitPlusArgs,
    FragmentationArgs,
    InterPodAffinityArgs,
    LoadAwareArgs,
    NodeAffinityArgs,
    NumaArgs,
    PodTopologySpreadArgs,
    Profile,
    ReservationArgs,
    ScarceArgs,
)
from berth.rules.scheduler_config.plugins import ALWAYS_ON, BERTH, KNOWN

if TYPE_CHECKING:
    from berth.placement_solver.core.plan import Unit

Asked: TypeAlias = "tuple[Constraint[Any], Any]"
"""A constraint with what is asked of it for some pod."""


Chosen: TypeAlias = "tuple[Allocator[Any], Any]"
"""An allocator with what its constraint asks for."""


class Compiled(NamedTuple):
    """What constraints ask for a pod: `asked` in the order of the registry; what they cannot use; what rules out all
    nodes as things are, by the name of the constraint."""

    asked: tuple[Asked, ...] = ()
    problems: tuple[Problem, ...] = ()
    rejections: tuple[tuple[str, Rejection], ...] = ()


class Listed(NamedTuple):
    """A score, and of which pods it says what they themselves prefer: only that counts beside Berth's own cost.

    `always`: it counts, with the weight 1, where a profile does not weigh it.
    """

    score: Score[Any]
    is_preference: Callable[[PodTemplate], bool] = lambda template: False
    always: bool = False


class Weighed(NamedTuple):
    """A score that a profile uses, with its weight."""

    score: Score[Any]
    weight: int
    is_preference: Callable[[PodTemplate], bool]


class Registry:
    """What holds under a profile, over the facts. Constraints `of_class` say the same of all pods with one template,
    and their masks are kept; those `of_pod` are asked for each pod anew. Likewise scores."""

    def __init__(self, facts: Facts, profile: Profile = DEFAULT) -> None:
        nodes = facts.nodes
        added = profile.args_of("NodeAffinity", NodeAffinityArgs).added_affinity
        fit = profile.args_of("NodeResourcesFit", FitArgs)
        self.profile = profile
        self.decides_by_score = profile.decides == "kube-scheduler"
        devices = profile.args_of("DeviceShare", DeviceShareArgs)
        self.device_share = DeviceShare(nodes, facts.npu_templates, devices)
        own = profile.args_of(BERTH, BerthArgs)
        self.node_cost = own.node_cost
        """Weights of the node cost that the profile sets."""
        numa = profile.args_of("NodeNUMAResource", NumaArgs)
        beside = (self.device_share,) if self.device_share.is_aligned else ()
        self.cores = NodeNUMAResource(nodes, numa, beside_kubelet=own.own_cpus_beside_kubelet, beside=beside)
        self.fit = NodeResourcesFit(nodes, fit)
        self.reservation_ignored = profile.args_of("Reservation", ReservationArgs).ignored
        """Resources that reservations are not asked about."""
        of_class: tuple[Constraint[Any], ...] = (
            NodeUnschedulable(nodes),
            TaintToleration(nodes),
            NodeAffinity(nodes, added),
            self.fit,
            self.cores,
            self.device_share,
            GPUSharing(nodes, devices),
            NodePorts(nodes),
        )
        volumes, used, labels = facts.volumes, facts.used_volumes, facts.labels
        affinity = profile.args_of("InterPodAffinity", InterPodAffinityArgs)
        defaults = profile.args_of("PodTopologySpread", PodTopologySpreadArgs).defaults
        spreads = Spreads(nodes, facts.domains, facts.peers, facts.selectors, defaults)
        load = LoadTable(nodes, facts.loads, profile.args_of("LoadAwareScheduling", LoadAwareArgs))
        of_pod: tuple[Constraint[Any], ...] = (
            NodeName(nodes),
            QuotaTree(nodes, facts.pools),
            VolumeRestrictions(nodes, volumes, used),
            VolumeBinding(nodes, labels, volumes, used, facts.free_volumes),
            VolumeZone(labels, volumes),
            PodTopologySpread(spreads),
            InterPodAffinity(facts.affine_pods),
            LoadAwareScheduling(load),
            NetworkTopology(facts.network),
            NodeVolumeLimits(nodes, volumes, used),  # the others reject before nodes are looked at
        )
        order = (
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "QuotaTree",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
            "NetworkTopology",
            "LoadAwareScheduling",
            "NodeNUMAResource",
            "GPUSharing",
            "DeviceShare",
        )
        self.allocators: tuple[Allocator[Any], ...] = (
            CoreAllocator(self.cores),
            DeviceAllocator(self.device_share),
        )
        """What is given out one by one, in the order in which it is chosen."""
        balanced = profile.args_of("NodeResourcesBalancedAllocation", BalancedArgs)
        plus = profile.args_of("NodeResourcesFitPlus", FitPlusArgs)
        scarce = profile.args_of("ScarceResourceAvoidance", ScarceArgs)
        typical = profile.args_of("FragmentationGradientDescent", FragmentationArgs)
        scores: tuple[Listed, ...] = (
            Listed(TaintTolerationScore(nodes), lambda template: True),
            Listed(NodeAffinityScore(nodes, added), lambda template: True),
            Listed(NodeResourcesFitScore(nodes, facts.scored, fit)),
            Listed(BalancedAllocationScore(nodes, facts.scored, balanced)),
            Listed(ImageLocalityScore(facts.images)),
            Listed(
                PodTopologySpreadScore(spreads),
                # What an administrator lists is meant for every profile; kube-scheduler's own defaults are not.
                lambda template: bool(template.topology_spread) or not defaults.are_systems,
            ),
            Listed(
                InterPodAffinityScore(
                    facts.affine_pods,
                    affinity.hard_pod_affinity_weight,
                    ignore_others=affinity.ignore_preferred_terms_of_existing_pods,
                ),
                lambda template: prefers_pods(template.affinity),
            ),
            # No default has these: who lists them means them for every pod of the profile.
            Listed(NodeResourcesFitPlusScore(nodes, facts.scored, plus), lambda template: True),
            Listed(ScarceResourceAvoidanceScore(nodes, scarce), lambda template: True),
            Listed(LoadAwareScore(load), lambda template: True),
            Listed(FragmentationScore(nodes, self.device_share, typical), lambda template: True),
            # As NodeResourcesFit does, it rates what Berth's own cost rates.
            Listed(DeviceShareScore(nodes, self.device_share, devices)),
            Listed(NodeNUMAResourceScore(nodes, facts.scored, self.cores, numa)),
            # Only who carries a selector is rated, and nothing else of a profile asks for it.
            Listed(NetworkTopologySelector(facts.network, facts.relatives), has_selector, always=True),
        )
        self.gatherers: tuple[Gatherer, ...] = (NetworkGatherer(facts.network, facts.relatives),)
        """Who places members of a gang by how they lie to each other."""
        self._rank = {name: place for place, name in enumerate(order)}
        self.of_class = tuple(each for each in of_class if _is_on(each.name, profile))
        self.of_pod = tuple(each for each in of_pod if _is_on(each.name, profile))
        self._of_pod_without_volumes = tuple(each for each in self.of_pod if each.depends != Depends.VOLUMES)
        weighed = [
            Weighed(score, profile.weights.get(score.name, 1), is_preference)
            for score, is_preference, always in scores
            if always or score.name in profile.weights
        ]
        self.scores_of_class = tuple(each for each in weighed if not each.score.depends & BEYOND_NODE)
        self.scores_of_pod = tuple(each for each in weighed if each.score.depends & BEYOND_NODE)

    def compile_class(self, spec: Spec) -> Compiled:
        """What is asked for all pods like this one."""
        return _compiled(self.of_class, spec)

    def compile_pod(self, spec: Spec) -> Compiled:
        """What is asked for this pod alone. What depends on volumes alone does not concern who has none."""
        return _compiled(self.of_pod if spec.template.volumes else self._of_pod_without_volumes, spec)

    def scores_for(self, weighed: Iterable[Weighed], template: PodTemplate) -> list[Weighed]:
        """Those that count for such pods: all, or beside Berth's own cost what the pods themselves prefer."""
        if self.decides_by_score:
            return list(weighed)
        return [each for each in weighed if each.is_preference(template)]

    def gathers(self, unit: Unit) -> bool:
        """Whether some members of a gang that is tried as a whole ask to lie together."""
        return bool(unit.needed) and any(each.jobs(unit) for each in self.gatherers)

    def in_order(self, asked: Iterable[Asked]) -> list[Asked]:
        """In the order in which the first that rejects a node names the reason."""
        return sorted(asked, key=lambda each: self._rank[each[0].name])


def share_a_node(asked: Iterable[Asked]) -> bool:
    """Whether two pods of which this is asked may be on one node."""
    return all(each.shares_node(query) for each, query in asked if isinstance(each, Freeable))


def _is_on(name: str, profile: Profile) -> bool:
    """A configuration says it of kube-scheduler's plugins; Berth's own always are."""
    return name not in KNOWN or name in ALWAYS_ON or name in profile.constraints


def _compiled(constraints: tuple[Constraint[Any], ...], spec: Spec) -> Compiled:
    asked: list[Asked] = []
    problems: list[Problem] = []
    rejections: list[tuple[str, Rejection]] = []
    for constraint in constraints:
        query = constraint.prefilter(spec)
        if isinstance(query, Unusable):
            problems += query.problems
        elif isinstance(query, Rejection):
            rejections.append((constraint.name, query))
        elif query is not None:
            asked.append((constraint, query))
    return Compiled(tuple(asked), tuple(problems), tuple(rejections)) if asked or problems or rejections else _NOTHING


_NOTHING = Compiled()
