"""What would help a pod that no freed capacity helps, by the reason that nodes are ruled out for.

The reasons are those of Koordinator's plugins, word for word; what they mean for who wrote the pod, or looks after the
nodes, is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts.inventory import NPU_TEMPLATES
from berth.contracts.names import (
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_DEVICE_HINT,
    ANNOTATION_DEVICE_JOINT,
    ANNOTATION_GPU_PARTITIONS,
    LABEL_CPU_BIND_POLICY,
    LABEL_GPU_ISOLATION,
    LABEL_NUMA_POLICY,
)
from berth.placement_solver.core.constraints import gpu_sharing
from berth.placement_solver.core.devices import kubelet_counts
from berth.rules.cpus.bind_policy import CONFLICT, KUBELET_GIVES, NO_LAYOUT, NOT_WHOLE_CORES
from berth.rules.devices import accelerators, joint, numa_hints, partitions, templates, vendor_limits
from berth.rules.numa import exclusive, hints, policy

UNALIGNED: Final = "Unaligned NUMA Hint"
FUNCTIONS: Final = "VirtualFunctions"
_BY_REASON: Final[Mapping[str, str]] = {
    NO_LAYOUT: f"have the CPUs of a node reported: a NodeResourceTopology with {ANNOTATION_CPU_TOPOLOGY}",
    NOT_WHOLE_CORES: "ask for as many CPUs as whole cores have",
    CONFLICT: f"ask for the bind policy of a node's label {LABEL_CPU_BIND_POLICY}, or take the label off",
    KUBELET_GIVES: "add a node whose kubelet has no static CPU manager",
    hints.NO_ZONES: "have the NUMA nodes of a node reported by a NodeResourceTopology, or ask for no NUMA policy",
    policy.NO_MATCH: f"ask for the NUMA policy of a node (kubelet's, else its label {LABEL_NUMA_POLICY}), or for none",
    exclusive.NOT_EXCLUSIVE: "have other pods leave a NUMA node, or prefer singleNUMANodeExclusive and not require it",
    accelerators.SCOPE_SHORT.reason: (
        f"ask for fewer devices, or for a wider requiredTopologyScope in {ANNOTATION_DEVICE_HINT}"
    ),
    joint.VIOLATION.reason: f"ask for fewer devices, or for no requiredScope in {ANNOTATION_DEVICE_JOINT}",
    numa_hints.TOO_FEW.reason: "ask for fewer devices, or for another numaTopologyPolicy",
    gpu_sharing.NOT_ISOLATED: f"add a node that isolates shared GPUs, or take the label {LABEL_GPU_ISOLATION} off",
    gpu_sharing.NOT_SHARED: "ask for whole GPUs",
    kubelet_counts.AT_ZERO: "see why the node's device plugin reports none, or why its agent does not",
    kubelet_counts.BY_NUMBER: "ask for whole GPUs by the vendor's count, or have a node without its device plugin",
    kubelet_counts.BY_MINOR: "have the pods leave that hold GPUs by koordinator.sh names, or ask by those names",
    kubelet_counts.CORDONED: "take the card out of the node's device plugin, then off its device-cordon",
    kubelet_counts.NOT_BY_NUMBER: "ask for whole GPUs alone, or by koordinator.sh names",
    vendor_limits.NO_CORES: "ask for a share of the cores as well",
    templates.NO_MATCH: f"ask for a size that the ConfigMap {NPU_TEMPLATES} has for a node's model",
    partitions.NO_TABLE.reason: f"give the node's Device the annotation {ANNOTATION_GPU_PARTITIONS}",
    partitions.NO_SIZE.reason: "ask for as many GPUs as a partition of a node has",
}


def way_out(reason: str) -> str:
    """In words; empty: nothing is known but another node."""
    if reason.startswith(UNALIGNED):
        return (
            "ask for no more than a node's NUMA nodes have together under its policy, or for another numaTopologyPolicy"
        )
    if reason.endswith(FUNCTIONS):
        return f"correct vfSelector in {ANNOTATION_DEVICE_HINT}, or have virtual functions of a node reported"
    return _BY_REASON.get(reason, "")
