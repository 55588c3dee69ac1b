"""Do the CPUs and shares of NUMA nodes of a claim serve what its object asks for, and are they there for it?

Each CPU exists, is kept for nobody else, and is given once; they are as many as asked for, and lie as the bind policy
says. Shares of NUMA nodes come to the request, lie where the CPUs lie, and leave nobody short who is there: those who
were given none count in proportion to what the NUMA nodes have, all together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import COUNT, CPU, ZONE
from berth.contracts.ledger import Grant
from berth.contracts.state import Node, PodTemplate
from berth.contracts.topology import NodeTopology
from berth.resources.amounts import Amounts, add_into
from berth.rules.amplification import amplify, read_ratios
from berth.rules.cpus.available import FULL_PCPUS, SPREAD_BY_PCPUS
from berth.rules.cpus.bind_policy import CpuBinding, cpu_binding, effective_policy, node_bind_policy
from berth.rules.cpus.kubelet import FULL_CORES_OPTION, SINGLE_NUMA_NODE, STATIC, CpuManager, numa_policy
from berth.rules.cpus.qos import LSE, LSR
from berth.rules.numa.charges import in_proportion
from berth.rules.numa.policy import NumaSpec, pair_policy, read_numa_spec
from berth.rules.records.resource_status import own_milli, pinned_requests
from berth.rules.scheduler_config import DEFAULT, BerthArgs, NumaArgs, Profile
from berth.rules.scheduler_config.plugins import BERTH
from berth.transaction.claims import Claim

KINDS: Final = frozenset({CPU, ZONE})
NONE: Final = NodeTopology(node="", version=0)
NAMING_ANNOTATIONS: Final = (names.ANNOTATION_NUMA_SPEC, names.ANNOTATION_RESOURCE_SPEC)
"""Annotations by which a pod asks for CPUs or NUMA nodes; one that cannot be read refuses the pod."""
NAMING_LABELS: Final = (names.LABEL_CPU_BIND_POLICY, names.LABEL_NUMA_POLICY)
"""Labels by which a node gives them to any pod."""
Sums = dict[tuple[int, str], int]
"""Amounts by NUMA node and resource."""


class Binding:
    """What a node gives an object: so many CPUs of its own by a bind policy, under a NUMA policy."""

    def __init__(self, template: PodTemplate, node: Node, topology: NodeTopology, profile: Profile) -> None:
        default = profile.args_of("NodeNUMAResource", NumaArgs).default_cpu_bind_policy
        beside_kubelet = profile.args_of(BERTH, BerthArgs).own_cpus_beside_kubelet
        self.problems: list[str] = []
        milli = own_milli(template)
        requests = pinned_requests(template)
        asked = cpu_binding(template.labels, template.annotations, template.priority, requests, default=default)
        binding = asked if isinstance(asked, CpuBinding) else CpuBinding()
        if isinstance(asked, Problem):
            self.problems.append(f"{asked.field}: {asked.message}")
        gives_itself = topology.cpu_manager == STATIC and not beside_kubelet
        options = {FULL_CORES_OPTION: "true"} if topology.full_cores else {}
        manager = CpuManager() if gives_itself else CpuManager(topology.cpu_manager, options)
        node_policy = node_bind_policy(node.labels, manager)
        is_bound = asked is not None and (binding.bound or bool(node_policy and milli > 0))
        self.own = milli // 1000 if is_bound else 0
        self.bind, self.must = effective_policy(node_policy, binding.required, binding.preferred)
        if is_bound and milli % 1000:
            self.problems.append("asks for a part of a CPU where it would have it to itself")
        if self.own and gives_itself:
            self.problems.append(f"is given CPUs on node {node.name}, whose kubelet gives them out itself")
        if is_bound and node_policy and binding.required and node_policy != binding.required:
            self.problems.append(f"requires {binding.required} on node {node.name}, which requires {node_policy}")
        spec = read_numa_spec(template.annotations)
        if isinstance(spec, Problem):
            self.problems.append(f"{spec.field}: {spec.message}")
        self.spec = NumaSpec() if isinstance(spec, Problem) else spec
        of_node = numa_policy(topology.policy, node.labels.get(names.LABEL_NUMA_POLICY, ""))
        pair = pair_policy(self.spec.policy, of_node)
        if pair.reason and asked is not None:
            self.problems.append(f"has another NUMA policy than node {node.name}")
        self.policy = pair.policy if asked is not None else ""


def core_problems(
    claim: Claim, template: PodTemplate, node: Node, topology: NodeTopology | None, profile: Profile = DEFAULT
) -> Iterator[str]:
    """Compares the claim's grants with its object's wishes and with what the node has."""
    there = topology or NONE
    if not claim.grants and not _is_named(template, node, there):
        return
    found = Binding(template, node, there, profile)
    yield from found.problems
    given = [grant for grant in claim.grants if grant.kind == CPU]
    if any(grant.amounts != {COUNT: 1} for grant in given):
        yield "was given a part of a CPU"
    cpus = [grant.minor for grant in given]
    if len(cpus) != found.own:
        yield f"asks for {found.own} CPUs of its own, was given {len(cpus)}"
    if len(set(cpus)) != len(cpus):
        yield "was given one CPU twice"
    zone_of = {cpu: core.zone for core in there.cores for cpu in core.cpus} if cpus else {}
    for cpu in cpus:
        if cpu not in zone_of:
            yield f"CPU {cpu} is not there"
        elif cpu in there.reserved:
            yield f"CPU {cpu} is kept for others"
    if found.must:
        yield from _bind_problems(found.bind, frozenset(cpus), there)
    yield from _zone_problems(claim, found, Counter(zone_of[cpu] for cpu in cpus if cpu in zone_of), there)


def _is_named(template: PodTemplate, node: Node, topology: NodeTopology) -> bool:
    """Whether anybody says anything of CPUs or NUMA nodes: a shortcut for the many pods and nodes that do not."""
    return bool(
        template.labels.get(names.LABEL_QOS) in (LSE, LSR)
        or not template.annotations.keys().isdisjoint(NAMING_ANNOTATIONS)
        or topology.policy
        or topology.cpu_manager == STATIC
        or not node.labels.keys().isdisjoint(NAMING_LABELS)
    )


def core_capacity(topology: NodeTopology | None) -> dict[tuple[str, ...], int]:
    """Each CPU that may be given out, once. How much of a NUMA node is left `zones_beyond` says."""
    there = topology or NONE
    kept = set(there.reserved)
    return {(CPU, str(cpu), COUNT): 1 for core in there.cores for cpu in core.cpus if cpu not in kept}


def zones_beyond(
    node: Node,
    topology: NodeTopology | None,
    held: Sequence[Claim],
    arriving: Sequence[Claim],
    template_of: Callable[[Claim], PodTemplate | None],
) -> Iterator[str]:
    """What is too much of a NUMA node, and who meets there who must not: each that arrives, beside those before it."""
    there = topology or NONE
    ratio = _ratio(node, there)
    capacity = {each.zone: each.amounts for each in there.zones}
    for place, claim in enumerate(arriving):
        shares = {grant.minor: grant.amounts for grant in claim.grants if grant.kind == ZONE}
        if not shares:
            continue
        beside = [*held, *arriving[:place]]
        use = _use([*beside, claim], there, ratio)
        for zone, amounts in sorted(shares.items()):
            for name, amount in sorted(amounts.items()):
                shown = amplify(capacity.get(zone, {}).get(name, 0), ratio if name == names.CPU else 1.0)
                if amount > 0 and use.get((zone, name), 0) > shown:
                    yield f"NUMA node {zone}, {name}: {use[zone, name]} claimed of {shown}"
        template = template_of(claim)
        spec = read_numa_spec(template.annotations) if template is not None else NumaSpec()
        if isinstance(spec, NumaSpec) and spec.is_exclusive:
            yield from _meetings(claim, beside, there)


def shows_more(node: Node, topology: NodeTopology | None) -> bool:
    """Whether a node shows more cpu than it has."""
    return _ratio(node, topology or NONE) > 1


def amplified_problems(
    node: Node, topology: NodeTopology | None, held: Sequence[Claim], arriving: Sequence[Claim]
) -> Iterator[str]:
    """What is too much of the cpu of a node that shows more than it has: CPUs that somebody has to himself are real."""
    there = topology or NONE
    ratio = _ratio(node, there)
    mine = [claim for claim in arriving if claim.amounts.get(names.CPU, 0) > 0]
    if ratio <= 1 or not mine:
        return
    cpus = {cpu for core in there.cores for cpu in core.cpus}
    used, own = 0, set[int]()
    for amounts, grants in _takers([*held, *arriving]):
        used += amounts.get(names.CPU, 0)
        own |= {grant.minor for grant in grants if grant.kind == CPU} & cpus
    owned = 1000 * len(own)
    shown = used - owned + amplify(owned, ratio) if owned <= used else used
    offered = node.allocatable.get(names.CPU, 0)
    if shown > offered:
        yield f"amplified cpu: {shown} claimed of {offered}, with {len(own)} CPUs of their own times {ratio:g}"


def _bind_problems(bind: str, cpus: frozenset[int], topology: NodeTopology) -> Iterator[str]:
    for core in topology.cores:
        mine = cpus.intersection(core.cpus)
        if bind == FULL_PCPUS and mine and len(mine) < len(core.cpus):
            yield f"was given a part of the core of CPU {min(mine)} under {bind}"
        if bind == SPREAD_BY_PCPUS and len(mine) > 1:
            yield f"was given several CPUs of the core of CPU {min(mine)} under {bind}"


def _zone_problems(claim: Claim, found: Binding, own: Mapping[int, int], topology: NodeTopology) -> Iterator[str]:
    shares = {grant.minor: grant.amounts for grant in claim.grants if grant.kind == ZONE}
    if len(shares) != sum(1 for grant in claim.grants if grant.kind == ZONE):
        yield "was given one NUMA node twice"
    if not found.policy:
        if shares:
            yield "was given shares of NUMA nodes without a NUMA policy"
        return
    capacity = {each.zone: each.amounts for each in topology.zones}
    if not capacity:
        yield f"is placed by {found.policy} on a node of which no NUMA nodes are known"
    for zone in shares.keys() - capacity.keys():
        yield f"NUMA node {zone} is not there"
    reported = {name for amounts in capacity.values() for name in amounts}
    asked = {name: amount for name, amount in claim.amounts.items() if amount > 0 and name in reported}
    if found.own and names.CPU in asked:
        asked[names.CPU] = 1000 * found.own
    given: Amounts = {}
    for amounts in shares.values():
        add_into(given, amounts)
    if {name: amount for name, amount in given.items() if amount} != asked:
        yield f"was given {given} of NUMA nodes, asks for {asked}"
    if found.own and names.CPU in reported:
        cpu = {zone: amounts[names.CPU] for zone, amounts in shares.items() if amounts.get(names.CPU)}
        if cpu != {zone: 1000 * count for zone, count in own.items()}:
            yield "its CPUs do not lie in the NUMA nodes that it was given"
    if found.policy == SINGLE_NUMA_NODE and len({*shares, *own}) > 1:
        yield f"lies on NUMA nodes {', '.join(map(str, sorted({*shares, *own})))} under {found.policy}"


def _use(claims: Sequence[Claim], topology: NodeTopology, ratio: float) -> Sums:
    """What is taken of each NUMA node, in the amounts that the node shows."""
    zone_of = {cpu: core.zone for core in topology.cores for cpu in core.cpus}
    capacity = {each.zone: each.amounts for each in topology.zones}
    sums: Sums = {}
    pinned: dict[int, set[int]] = {zone: set() for zone in capacity}
    shared: Amounts = {}
    for amounts, grants in _takers(claims):
        cpus = {int(grant.id) for grant in grants if grant.kind == CPU}
        shares = {grant.minor: grant.amounts for grant in grants if grant.kind == ZONE and grant.minor in capacity}
        if not any(grant.kind in KINDS for grant in grants):
            add_into(shared, amounts)
            continue
        own = Counter(zone_of[cpu] for cpu in cpus if zone_of.get(cpu) in capacity)
        for cpu in cpus:
            if zone_of.get(cpu) in capacity:
                pinned[zone_of[cpu]].add(cpu)
        for zone, count in own.items():
            _add(sums, zone, names.CPU, 1000 * count)
        for zone, share in shares.items():
            for name, amount in share.items():
                if not (own and name == names.CPU):
                    _add(sums, zone, name, amount)
        for name, amount in amounts.items() if not shares else ():
            if not (own and name == names.CPU):
                _spread(sums, name, amount, capacity, own)
    for name, amount in shared.items():
        _spread(sums, name, amount, capacity, {})
    if ratio > 1:
        for zone, mine in pinned.items():
            owned = 1000 * len(mine)
            sums[zone, names.CPU] = max(0, sums.get((zone, names.CPU), 0) - owned) + amplify(owned, ratio)
    return sums


def _spread(sums: Sums, name: str, amount: int, capacity: Mapping[int, Amounts], own: Mapping[int, int]) -> None:
    """Charge what nobody says where it lies: to the NUMA nodes of one's own CPUs if they have it, else to all."""
    weights = {zone: amounts.get(name, 0) for zone, amounts in capacity.items()}
    if any(weights[zone] > 0 for zone in own):
        weights = {zone: count for zone, count in own.items() if weights[zone] > 0}
    for zone, part in in_proportion(amount, weights).items():
        _add(sums, zone, name, part)


def _add(sums: Sums, zone: int, name: str, amount: int) -> None:
    sums[zone, name] = sums.get((zone, name), 0) + amount


def _takers(claims: Sequence[Claim]) -> Iterator[tuple[Mapping[str, int], Iterable[Grant]]]:
    """Who takes how much: pods, and what is left of reservations."""
    for claim in claims:
        if not claim.is_reservation:
            yield claim.amounts, claim.grants
            continue
        users = [each for each in claims if each.reservation == claim.uid]
        left = {
            name: max(0, amount - sum(user.amounts.get(name, 0) for user in users))
            for name, amount in claim.amounts.items()
        }
        yield (
            left,
            [grant for grant in (_left(each, users) for each in claim.grants) if any(grant.amounts.values())],
        )


def _left(grant: Grant, users: Iterable[Claim]) -> Grant:
    used = [each for user in users for each in user.grants if (each.kind, each.id) == (grant.kind, grant.id)]
    amounts = {
        name: max(0, amount - sum(each.amounts.get(name, 0) for each in used)) for name, amount in grant.amounts.items()
    }
    return Grant(kind=grant.kind, id=grant.id, amounts=amounts)


def _meetings(claim: Claim, beside: Sequence[Claim], topology: NodeTopology) -> Iterator[str]:
    """A pod within one NUMA node meets none that lies across several; one across several goes to no NUMA node that
    pods within it have to themselves."""
    zone_of = {cpu: core.zone for core in topology.cores for cpu in core.cpus}
    mine = _zones_of(claim.grants, zone_of)
    theirs = [_zones_of(grants, zone_of) for _, grants in _takers([*beside, claim]) if grants is not claim.grants]
    for zone in sorted(mine):
        is_wide = {len(zones) > 1 for zones in theirs if zone in zones}
        if (len(mine) == 1 and True in is_wide) or (len(mine) > 1 and is_wide == {False}):
            yield f"{'/'.join(claim.name)} meets pods on NUMA node {zone} that it must not meet"


def _zones_of(grants: Iterable[Grant], zone_of: Mapping[int, int]) -> set[int]:
    zones = {grant.minor for grant in grants if grant.kind == ZONE}
    return zones | {zone_of[grant.minor] for grant in grants if grant.kind == CPU and grant.minor in zone_of}


def _ratio(node: Node, topology: NodeTopology) -> float:
    ratios = read_ratios(node.annotations)
    annotated = ratios.get(names.CPU, 1.0) if isinstance(ratios, dict) else 1.0
    return max(1.0, topology.cpu_ratio or annotated)
