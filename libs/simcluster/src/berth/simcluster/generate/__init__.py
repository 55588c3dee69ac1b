"""Synthetic clusters and workloads: manifests from a shape and a seed, the same for the same input."""

from berth.simcluster.generate.build import GPU_MEMORY_GIB, PodRequest, device_manifest, node_manifest, pod_manifest
from berth.simcluster.generate.cluster import ClusterShape, generate_cluster
from berth.simcluster.generate.workload import WorkloadShape, generate_workload

__all__ = [
    "GPU_MEMORY_GIB",
    "ClusterShape",
    "PodRequest",
    "WorkloadShape",
    "device_manifest",
    "generate_cluster",
    "generate_workload",
    "node_manifest",
    "pod_manifest",
]
