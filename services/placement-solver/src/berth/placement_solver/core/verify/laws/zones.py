"""Do the devices of a claim lie on the NUMA nodes where its CPUs and memory lie, as its NUMA policy says?

Under SingleNUMANode all lies on one. Under Restricted CPUs and memory lie on no NUMA node but those of the devices:
devices prefer a set where no smaller one would hold them, so they lie on each of its NUMA nodes. A device that is
attached to no NUMA node in particular is near to all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from berth.contracts import names
from berth.contracts.grants import CPU, DEVICE_KINDS, ZONE
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Node, PodTemplate
from berth.contracts.topology import NodeTopology
from berth.placement_solver.core.verify.laws.cores import NONE, Binding
from berth.rules.cpus.kubelet import BEST_EFFORT, SINGLE_NUMA_NODE
from berth.rules.scheduler_config import DEFAULT, DeviceShareArgs, Profile
from berth.transaction.claims import Claim


def zone_problems(
    claim: Claim,
    template: PodTemplate,
    node: Node,
    inventory: NodeInventory | None,
    topology: NodeTopology | None,
    profile: Profile = DEFAULT,
) -> Iterator[str]:
    """Compares where the devices of a claim lie with where the rest of it does."""
    mine = [grant for grant in claim.grants if grant.kind in DEVICE_KINDS]
    if not mine or profile.args_of("DeviceShare", DeviceShareArgs).disable_numa_alignment:
        return
    there = topology or NONE
    if not _is_named(template, node, there):
        return
    policy = Binding(template, node, there, profile).policy
    if policy in ("", BEST_EFFORT):
        return
    slots = {(slot.kind, slot.minor): slot for slot in inventory.devices} if inventory is not None else {}
    devices: set[int] = set()
    for grant in mine:
        slot = slots.get((grant.kind, grant.minor))
        if slot is None:
            continue
        if slot.numa_node >= 0:
            devices.add(slot.numa_node)
        elif not slot.pcie:
            yield f"was given {grant.kind} {grant.minor} under {policy}, of which nobody knows the NUMA node"
    yield from _apart(policy, devices, _rest(claim, there))
    if unknown := devices - {each.zone for each in there.zones}:
        yield f"was given devices under {policy} on NUMA nodes {_listed(unknown)}, which are not there"


def _is_named(template: PodTemplate, node: Node, topology: NodeTopology) -> bool:
    """Whether anybody names a policy at all: a shortcut for the many pods and nodes that do not."""
    at_pod = names.ANNOTATION_NUMA_SPEC in template.annotations
    return at_pod or bool(topology.policy) or names.LABEL_NUMA_POLICY in node.labels


def _apart(policy: str, devices: set[int], rest: set[int]) -> Iterator[str]:
    if policy == SINGLE_NUMA_NODE:
        if devices and len(devices | rest) > 1:
            yield f"was given devices on NUMA nodes {_listed(devices)}, the rest on {_listed(rest)}, under {policy}"
    elif devices and not rest <= devices:
        yield f"has CPUs or memory on NUMA nodes {_listed(rest - devices)} under {policy}, its devices on others"


def _rest(claim: Claim, topology: NodeTopology) -> set[int]:
    """The NUMA nodes of what is no device."""
    zone_of: Mapping[int, int] = {cpu: core.zone for core in topology.cores for cpu in core.cpus}
    shares = {grant.minor for grant in claim.grants if grant.kind == ZONE}
    return shares | {zone_of[grant.minor] for grant in claim.grants if grant.kind == CPU and grant.minor in zone_of}


def _listed(zones: set[int]) -> str:
    return ", ".join(map(str, sorted(zones))) or "none"
