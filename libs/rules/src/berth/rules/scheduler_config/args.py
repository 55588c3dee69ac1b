"""The arguments of the default plugins: shapes, defaults, and what kube-scheduler refuses in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from berth.contracts.base import Integer, Problem
from berth.contracts.inventory import NPU_TEMPLATES
from berth.contracts.kube import NodeAffinity, TopologySpreadConstraint
from berth.resources.amounts import NAME_LENGTH_MAX
from berth.rules.cpus.available import FULL_PCPUS
from berth.rules.cpus.take import LEAST_ALLOCATED
from berth.rules.devices.columns import FAMILIES
from berth.rules.devices.scoring import DEFAULT_WEIGHTS
from berth.rules.devices.templates import TRIGGERS
from berth.rules.node_affinity import compile_preference, compile_terms
from berth.rules.scheduler_config import elastic_quota, load_aware, node_cost, reservation
from berth.rules.scheduler_config.elastic_quota import ElasticQuotaArgs
from berth.rules.scheduler_config.load_aware import LoadAwareArgs
from berth.rules.scheduler_config.node_cost import NodeCostArgs
from berth.rules.scheduler_config.reservation import ReservationArgs
from berth.rules.scheduler_config.shapes import GROUP, Args, Strict
from berth.rules.topology_spread import Defaults, problems_of

PERCENT_MAX: Final = 100
CPU_MILLI_MAX: Final = 1 << 30
GPUS_MAX: Final = 64
COUNT_MAX: Final = 1 << 30
WEIGHT_MAX: Final = 100
PLUS_WEIGHT_MAX: Final = 2**31 - 1
SHAPE_SCORE_MAX: Final = 10
ENTRIES_MAX: Final = 256
TIMEOUT_MAX_S: Final = 24 * 3600
FILTER_TIMEOUT: Final = "10s"
"""kube-scheduler's default, which a configuration that was written out by it has."""


class Resource(Strict, frozen=True, kw_only=True):
    """A resource that is scored; a weight of 0 means 1."""

    name: str
    weight: Integer = 1


CPU_AND_MEMORY: Final = (Resource(name="cpu"), Resource(name="memory"))


class ShapePoint(Strict, frozen=True, kw_only=True):
    """A point of a curve: at this percentage, this score of 0 to 10."""

    utilization: Integer
    score: Integer


class Shape(Strict, frozen=True, kw_only=True):
    """The curve of RequestedToCapacityRatio, by rising utilisation."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(Strict, frozen=True, kw_only=True):
    """How NodeResourcesFit scores."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[Resource, ...] = CPU_AND_MEMORY
    requested_to_capacity_ratio: Shape | None = None


class FitArgs(Args, frozen=True, kw_only=True):
    """NodeResourcesFitArgs: extended resources that the filter leaves to others, by name or by the part before the
    slash, and the strategy of the score."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class BalancedArgs(Args, frozen=True, kw_only=True):
    """NodeResourcesBalancedAllocationArgs."""

    resources: tuple[Resource, ...] = CPU_AND_MEMORY


class NodeAffinityArgs(Args, frozen=True, kw_only=True):
    """NodeAffinityArgs: the affinity that every pod has beside its own."""

    added_affinity: NodeAffinity | None = None


class PodTopologySpreadArgs(Args, frozen=True, kw_only=True):
    """PodTopologySpreadArgs: the constraints of pods that have none; `defaulting_type` System: kube-scheduler's own."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"

    @property
    def defaults(self) -> Defaults:
        """What holds for pods without constraints."""
        return Defaults() if self.defaulting_type == "System" else Defaults(self.default_constraints, are_systems=False)


class InterPodAffinityArgs(Args, frozen=True, kw_only=True):
    """InterPodAffinityArgs: what a required term of an existing pod counts in the score (0 to 100)."""

    hard_pod_affinity_weight: Integer = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class PreemptionArgs(Args, frozen=True, kw_only=True):
    """DefaultPreemptionArgs: how many candidate nodes are looked at, at least."""

    min_candidate_nodes_percentage: Integer = 10
    min_candidate_nodes_absolute: Integer = 100


class VolumeBindingArgs(Args, frozen=True, kw_only=True):
    """VolumeBindingArgs: how long provisioning may take, in seconds; None: as long as cluster-writer is set to.

    `shape` is behind a feature gate that is off.
    """

    bind_timeout_seconds: Integer | None = None
    shape: tuple[ShapePoint, ...] | None = None


class DynamicResourcesArgs(Args, frozen=True, kw_only=True):
    """DynamicResourcesArgs. Pods with resource claims are refused by name, so nothing but the default is taken."""

    filter_timeout: str = FILTER_TIMEOUT


class PlusResource(Strict, frozen=True, kw_only=True):
    """How NodeResourcesFitPlus scores one resource. Without a type it scores 0, and its weight counts all the same."""

    type: Literal["LeastAllocated", "MostAllocated", ""] = ""
    weight: Integer = 0


class FitPlusArgs(Args, frozen=True, kw_only=True):
    """Koordinator's NodeResourcesFitPlusArgs: the strategy and weight of each resource, by its name."""

    resources: dict[str, PlusResource] = {}


class ScarceArgs(Args, frozen=True, kw_only=True):
    """Koordinator's ScarceResourceAvoidanceArgs: resources that are kept for pods which ask for them."""

    resources: tuple[str, ...] = ()


class TypicalPod(Strict, frozen=True, kw_only=True):
    """Pods that are typical of the workload, so many of them. `gpu_percent` is what each takes of each of its `gpus`;
    `models` are those of which its cards have to be, any where none is listed."""

    cpu_milli: Integer = 0
    gpus: Integer = 0
    gpu_percent: Integer = 100
    models: tuple[str, ...] = ()
    count: Integer = 1


class FragmentationArgs(Args, frozen=True, kw_only=True):
    """What Fragmentation Gradient Descent goes by: the workload. Without it all nodes are rated alike."""

    typical_pods: tuple[TypicalPod, ...] = ()


class NumaStrategy(Strict, frozen=True, kw_only=True):
    """How full places are rated: the emptier or the fuller higher, by the weights of these resources."""

    type: Literal["LeastAllocated", "MostAllocated"] = LEAST_ALLOCATED
    resources: tuple[Resource, ...] = CPU_AND_MEMORY

    @property
    def weights(self) -> dict[str, int]:
        """The weight of each resource; 0 means 1."""
        return {each.name: each.weight or 1 for each in self.resources}


class NumaArgs(Args, frozen=True, kw_only=True):
    """Koordinator's NodeNUMAResourceArgs: the bind policy of pods that leave it to the default, how the score rates
    nodes, and how NUMA nodes of one node are rated where the node's label does not say it."""

    default_cpu_bind_policy: Literal["FullPCPUs", "SpreadByPCPUs"] = msgspec.field(
        default=FULL_PCPUS, name="defaultCPUBindPolicy"
    )
    scoring_strategy: NumaStrategy = NumaStrategy()
    numa_scoring_strategy: NumaStrategy = msgspec.field(default=NumaStrategy(), name="numaScoringStrategy")


class DeviceStrategy(Strict, frozen=True, kw_only=True):
    """How full devices, and nodes by their devices, are rated: the emptier or the fuller higher, by these weights."""

    type: Literal["LeastAllocated", "MostAllocated"] = LEAST_ALLOCATED
    resources: tuple[Resource, ...] = tuple(Resource(name=name, weight=each) for name, each in DEFAULT_WEIGHTS.items())

    @property
    def weights(self) -> dict[str, int]:
        """The weight of each resource."""
        return {each.name: each.weight for each in self.resources}


class TemplatesConfig(Strict, frozen=True, kw_only=True):
    """Where the sizes of virtual NPUs stand, and by which resources a shared request is known as one for them."""

    config_map_namespace: str = NPU_TEMPLATES.partition("/")[0]
    config_map_name: str = NPU_TEMPLATES.partition("/")[2]
    matched_resources: tuple[str, ...] = tuple(sorted(TRIGGERS))


class DeviceModel(Strict, frozen=True, kw_only=True):
    """A model of devices, by the labels of their node."""

    vendor: str = ""
    model: str = ""


class DeviceShareArgs(Args, frozen=True, kw_only=True):
    """Koordinator's DeviceShareArgs. Without a `scoring_strategy` the fullest device that serves is taken, while nodes
    are rated by LeastAllocated; one that is said goes for both."""

    scoring_strategy: DeviceStrategy | None = None
    disable_numa_alignment: bool = msgspec.field(default=False, name="disableDeviceNUMATopologyAlignment")
    templates: TemplatesConfig = msgspec.field(default=TemplatesConfig(), name="gpuSharedResourceTemplatesConfig")
    unsupported: tuple[DeviceModel, ...] = msgspec.field(default=(), name="gpuShareUnsupportedModels")


class BerthArgs(Args, frozen=True, kw_only=True):
    """Berth's own: what decides among the nodes that fit, whether pods get CPUs of their own also on nodes whose
    kubelet gives out CPUs itself, and the weights of the node cost that are others than Berth's."""

    decides: Literal["native", "kube-scheduler"] = "native"
    own_cpus_beside_kubelet: bool = False
    node_cost: NodeCostArgs = NodeCostArgs()


Found: TypeAlias = Iterator[Problem]


def _fit(args: FitArgs, path: str) -> Found:
    for at, group in enumerate(args.ignored_resource_groups):
        if "/" in group:
            yield Problem(field=f"{path}.ignoredResourceGroups[{at}]", message="must not contain a slash")
    strategy, place = args.scoring_strategy, f"{path}.scoringStrategy"
    yield from _resources(strategy.resources, f"{place}.resources")
    ratio, place = strategy.requested_to_capacity_ratio, f"{place}.requestedToCapacityRatio"
    if ratio is not None:
        yield from _shape(ratio.shape, f"{place}.shape")
    elif strategy.type == "RequestedToCapacityRatio":
        yield Problem(field=place, message="is missing, and the strategy needs it")


def _balanced(args: BalancedArgs, path: str) -> Found:
    seen: set[str] = set()
    for at, each in enumerate(args.resources):
        if each.name in seen:
            yield Problem(field=f"{path}.resources[{at}].name", message=f"{each.name} is listed twice")
        if each.weight not in (0, 1):
            yield Problem(field=f"{path}.resources[{at}].weight", message="must be 1")
        seen.add(each.name)


def _node_affinity(args: NodeAffinityArgs, path: str) -> Found:
    added, place = args.added_affinity, f"{path}.addedAffinity"
    required = added.required_during_scheduling_ignored_during_execution if added else None
    if required is not None:
        field = f"{place}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        yield from compile_terms(required.node_selector_terms, field).problems
    for problem in compile_preference(added).problems:
        yield Problem(
            field=f"{place}{problem.field.removeprefix('spec.affinity.nodeAffinity')}", message=problem.message
        )


def _spread(args: PodTopologySpreadArgs, path: str) -> Found:
    place = f"{path}.defaultConstraints"
    if args.default_constraints and args.defaulting_type == "System":
        yield Problem(field=place, message="must be empty unless defaultingType is List")
    kinds: set[tuple[str, str]] = set()
    for at, each in enumerate(args.default_constraints):
        here = f"{place}[{at}]"
        named: list[Problem] = []
        if each.max_skew <= 0:
            named.append(Problem(field=f"{here}.maxSkew", message="must be greater than 0"))
        if not each.topology_key:
            named.append(Problem(field=f"{here}.topologyKey", message="is missing"))
        if each.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
            named.append(Problem(field=f"{here}.whenUnsatisfiable", message="must be DoNotSchedule or ScheduleAnyway"))
        if each.label_selector is not None:
            named.append(Problem(field=f"{here}.labelSelector", message="must not be set: it follows from each pod"))
        fields = {problem.field for problem in named}
        yield from named
        yield from (problem for problem in problems_of(each, here) if problem.field not in fields)
        kind = (each.topology_key, each.when_unsatisfiable)
        if kind in kinds:
            yield Problem(field=here, message=f"{kind[0]} with {kind[1]} is listed twice")
        kinds.add(kind)


def _inter_pod(args: InterPodAffinityArgs, path: str) -> Found:
    yield from _within(args.hard_pod_affinity_weight, 0, WEIGHT_MAX, f"{path}.hardPodAffinityWeight")


def _preemption(args: PreemptionArgs, path: str) -> Found:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    yield from _within(percentage, 0, PERCENT_MAX, f"{path}.minCandidateNodesPercentage")
    if absolute < 0:
        yield Problem(field=f"{path}.minCandidateNodesAbsolute", message="must not be negative")
    if percentage == 0 and absolute == 0:
        message = "must not be 0 together with minCandidateNodesPercentage"
        yield Problem(field=f"{path}.minCandidateNodesAbsolute", message=message)


def _volume_binding(args: VolumeBindingArgs, path: str) -> Found:
    if args.bind_timeout_seconds is not None:
        yield from _within(args.bind_timeout_seconds, 0, TIMEOUT_MAX_S, f"{path}.bindTimeoutSeconds")
    if args.shape is not None:
        yield Problem(field=f"{path}.shape", message="is behind the feature gate StorageCapacityScoring, which is off")


def _dynamic_resources(args: DynamicResourcesArgs, path: str) -> Found:
    if args.filter_timeout != FILTER_TIMEOUT:
        message = f"only the default {FILTER_TIMEOUT} is accepted: resource claims are not built"
        yield Problem(field=f"{path}.filterTimeout", message=message)


def _fit_plus(args: FitPlusArgs, path: str) -> Found:
    if len(args.resources) > ENTRIES_MAX:
        yield Problem(field=f"{path}.resources", message=f"has more than {ENTRIES_MAX} entries")
    for name, each in args.resources.items():
        yield from _within(each.weight, 0, PLUS_WEIGHT_MAX, f"{path}.resources[{name[:NAME_LENGTH_MAX]}].weight")


def _numa(args: NumaArgs, path: str) -> Found:
    yield from _resources(args.scoring_strategy.resources, f"{path}.scoringStrategy.resources")
    yield from _resources(args.numa_scoring_strategy.resources, f"{path}.numaScoringStrategy.resources")


def _device_share(args: DeviceShareArgs, path: str) -> Found:
    known = {column for family in FAMILIES.values() for column in family.columns}
    for at, each in enumerate(args.scoring_strategy.resources if args.scoring_strategy is not None else ()):
        field = f"{path}.scoringStrategy.resources[{at}]"
        yield from _within(each.weight, 1, WEIGHT_MAX, f"{field}.weight")
        if each.name not in known:
            yield Problem(field=f"{field}.name", message=f"{each.name[:NAME_LENGTH_MAX]!r} is no resource of a device")
    for at, model in enumerate(args.unsupported):
        if not (model.vendor and model.model):
            yield Problem(field=f"{path}.gpuShareUnsupportedModels[{at}]", message="must have a vendor and a model")
    if not (args.templates.config_map_namespace and args.templates.config_map_name):
        yield Problem(field=f"{path}.gpuSharedResourceTemplatesConfig", message="must name a ConfigMap")


def _fragmentation(args: FragmentationArgs, path: str) -> Found:
    for at, each in enumerate(args.typical_pods):
        where = f"{path}.typicalPods[{at}]"
        yield from _within(each.cpu_milli, 0, CPU_MILLI_MAX, f"{where}.cpuMilli")
        yield from _within(each.gpus, 0, GPUS_MAX, f"{where}.gpus")
        yield from _within(each.gpu_percent, 1, PERCENT_MAX, f"{where}.gpuPercent")
        yield from _within(each.count, 1, COUNT_MAX, f"{where}.count")


def _resources(resources: Sequence[Resource], path: str) -> Found:
    for at, each in enumerate(resources):
        yield from _within(each.weight, 0, WEIGHT_MAX, f"{path}[{at}].weight")


def _shape(shape: Sequence[ShapePoint], path: str) -> Found:
    if not shape:
        yield Problem(field=path, message="must have at least one point")
    for at, point in enumerate(shape):
        yield from _within(point.utilization, 0, PERCENT_MAX, f"{path}[{at}].utilization")
        yield from _within(point.score, 0, SHAPE_SCORE_MAX, f"{path}[{at}].score")
        if at and point.utilization <= shape[at - 1].utilization:
            yield Problem(field=f"{path}[{at}].utilization", message="must be greater than that of the point before")


def _within(value: int, least: int, most: int, path: str) -> Found:
    if not least <= value <= most:
        yield Problem(field=path, message=f"{value} is not between {least} and {most}")


KINDS: Final[dict[str, tuple[type[Args], Callable[[Any, str], Found] | None]]] = {
    "NodeResourcesFit": (FitArgs, _fit),
    "NodeResourcesBalancedAllocation": (BalancedArgs, _balanced),
    "NodeAffinity": (NodeAffinityArgs, _node_affinity),
    "PodTopologySpread": (PodTopologySpreadArgs, _spread),
    "InterPodAffinity": (InterPodAffinityArgs, _inter_pod),
    "DefaultPreemption": (PreemptionArgs, _preemption),
    "VolumeBinding": (VolumeBindingArgs, _volume_binding),
    "DynamicResources": (DynamicResourcesArgs, _dynamic_resources),
    "NodeResourcesFitPlus": (FitPlusArgs, _fit_plus),
    "ScarceResourceAvoidance": (ScarceArgs, None),
    "FragmentationGradientDescent": (FragmentationArgs, _fragmentation),
    "LoadAwareScheduling": (LoadAwareArgs, load_aware.problems_of),
    "NodeNUMAResource": (NumaArgs, _numa),
    "DeviceShare": (DeviceShareArgs, _device_share),
    "Reservation": (ReservationArgs, reservation.problems_of),
    "ElasticQuota": (ElasticQuotaArgs, elastic_quota.problems_of),
    "Berth": (BerthArgs, lambda args, path: node_cost.problems_of(args.node_cost, f"{path}.nodeCost")),
}
"""By plugin: the type of its arguments, and what is wrong with some of that type."""


def read_args(plugin: str, given: dict[str, Any], path: str) -> Args | list[Problem]:
    """The arguments of a plugin with their defaults, or what is wrong with them. `path` is where they stand."""
    known = KINDS.get(plugin)
    if known is None:
        return [Problem(field=path, message=f"{plugin} takes no arguments")]
    kind, check = known
    # Null and absent are the same, and an empty list of resources means the default.
    fields = {name: value for name, value in given.items() if value is not None and value != []}
    for key in ("scoringStrategy", "numaScoringStrategy"):
        strategy = fields.get(key)
        if isinstance(strategy, dict):
            fields[key] = {name: value for name, value in strategy.items() if value is not None and value != []}
    try:
        args = msgspec.convert(fields, kind).completed()
    except msgspec.ValidationError as error:
        return [misfit(error, path)]
    problems = [*_about_kind(args, plugin, path), *_too_long(fields, path), *_unknown(args, fields, path)]
    return problems or list(check(args, path) if check else ()) or args


def misfit(error: msgspec.ValidationError, path: str) -> Problem:
    """From msgspec's sentence, such as "Object contains unknown field `x` - at `$.a`"."""
    problem, _, place = str(error).partition(" - at `")
    field = f"{path}.{place.removesuffix('`').removeprefix('$').lstrip('.')}".strip(".")
    return Problem(field=field or "document", message=problem[:300])


def _about_kind(args: Args, plugin: str, path: str) -> Found:
    if args.api_version != GROUP:
        yield Problem(field=f"{path}.apiVersion", message=f"must be {GROUP}")
    if args.kind not in ("", f"{plugin}Args"):
        yield Problem(field=f"{path}.kind", message=f"must be {plugin}Args")


def _unknown(part: Any, given: Any, path: str) -> Found:
    """Fields that parts shared with pods let pass; a configuration is read to the letter."""
    if isinstance(part, msgspec.Struct) and isinstance(given, dict):
        fields = {field.encode_name: field.name for field in msgspec.structs.fields(part)}
        for name, value in given.items():
            if name not in fields:
                yield Problem(field=f"{path}.{name}", message="is no field that Berth knows")
            else:
                yield from _unknown(getattr(part, fields[name]), value, f"{path}.{name}")
    elif isinstance(part, list | tuple) and isinstance(given, list):
        for at, (each, value) in enumerate(zip(part, given, strict=False)):
            yield from _unknown(each, value, f"{path}[{at}]")


def _too_long(value: Any, path: str) -> Found:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _too_long(part, f"{path}.{name}")
    elif isinstance(value, list):
        if len(value) > ENTRIES_MAX:
            yield Problem(field=path, message=f"has more than {ENTRIES_MAX} entries")
        for at, part in enumerate(value[:ENTRIES_MAX]):
            yield from _too_long(part, f"{path}[{at}]")
