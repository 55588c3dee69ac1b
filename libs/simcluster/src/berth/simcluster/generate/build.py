"""Manifests of single nodes, devices and pods. Both the generators and the trace loader build with these."""

from typing import NamedTuple

from berth.simcluster.store.objects import Json

SCHEDULER = "berth-scheduler"
LABEL_MODEL = "node.koordinator.sh/gpu-model"
LABEL_VENDOR = "node.koordinator.sh/gpu-vendor"
LABEL_QOS = "koordinator.sh/qosClass"
GPU_CORE, GPU_RATIO, GPU_MEMORY = (
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/gpu-memory",
)
# Memory of one card. G2 and G3 are not disclosed by the trace's authors; these are assumptions.
GPU_MEMORY_GIB = {"P100": 16, "T4": 16, "V100M16": 16, "V100M32": 32, "A10": 24, "G2": 24, "G3": 80}
_OTHER_MODEL_GIB = 16
_GPUS_PER_SWITCH = 2


def node_manifest(
    name: str, *, cpu_milli: int, memory_mib: int, model: str = "", pods: int = 110, zone: str = "", index: int = 0
) -> Json:
    """A Node with cpu, memory and pods; GPU amounts come into it from the Device object, through Berth itself."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    if model:
        labels |= {LABEL_MODEL: model, LABEL_VENDOR: "nvidia"}
    if zone:
        labels["topology.kubernetes.io/zone"] = zone
    amounts = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi", "pods": str(pods)}
    address = f"10.{index // 65536 % 100}.{index // 256 % 256}.{index % 256}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        },
    }


def device_manifest(node: str, model: str, gpus: int, *, numa_nodes: int = 2, rdma: bool = False) -> Json:
    """The Device object of a node.

    Its GPUs, two to a PCIe switch, spread over the NUMA nodes; one NIC a switch with `rdma`.
    """
    memory = f"{GPU_MEMORY_GIB.get(model, _OTHER_MODEL_GIB)}Gi"
    devices = [_gpu(node, minor, gpus, memory, numa_nodes) for minor in range(gpus)]
    if rdma:
        switches = -(-gpus // _GPUS_PER_SWITCH)
        devices += [_nic(number, switches, numa_nodes) for number in range(switches)]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": node, "labels": {LABEL_MODEL: model, LABEL_VENDOR: "nvidia"}},
        "spec": {"devices": devices},
    }


def _place(switch: int, switches: int, numa_nodes: int) -> tuple[int, str]:
    """NUMA node and PCIe root of a switch: the first half of the switches hangs on the first NUMA node."""
    numa = min(switch * numa_nodes // max(1, switches), numa_nodes - 1)
    return numa, f"pci0000:{16 * (switch + 1):02x}"


def _gpu(node: str, minor: int, gpus: int, memory: str, numa_nodes: int) -> Json:
    switch = minor // _GPUS_PER_SWITCH
    numa, root = _place(switch, -(-gpus // _GPUS_PER_SWITCH), numa_nodes)
    bus = 16 * (switch + 1) + 1 + minor % _GPUS_PER_SWITCH
    return {
        "type": "gpu",
        "id": f"GPU-{node}-{minor}",
        "minor": minor,
        "moduleID": minor,
        "health": True,
        "resources": {GPU_CORE: "100", GPU_RATIO: "100", GPU_MEMORY: memory},
        "topology": {"socketID": numa, "nodeID": numa, "pcieID": root, "busID": f"0000:{bus:02x}:00.0"},
    }


def _nic(number: int, switches: int, numa_nodes: int) -> Json:
    numa, root = _place(number, switches, numa_nodes)
    bus = f"0000:{16 * (number + 1) + 8:02x}"
    return {
        "type": "rdma",
        "id": f"{bus}:00.0",
        "minor": number,
        "health": True,
        "resources": {"koordinator.sh/rdma": "100"},
        "topology": {"socketID": numa, "nodeID": numa, "pcieID": root, "busID": f"{bus}:00.0"},
        "vfGroups": [
            {"labels": {"type": "general"}, "vfs": [{"minor": -1, "busID": f"{bus}:00.{vf}"} for vf in range(2, 6)]}
        ],
    }


class PodRequest(NamedTuple):
    """What a pod asks for. `gpu_milli` counts only where `gpus` is 1; `models`: GPU models allowed, empty = any."""

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 1000
    models: tuple[str, ...] = ()

    def amounts(self) -> dict[str, str]:
        """Kubernetes resource amounts; GPUs as percentages of cards."""
        amounts = {"cpu": f"{self.cpu_milli}m", "memory": f"{self.memory_mib}Mi"}
        if self.gpus:
            percent = self.gpu_milli // 10 if self.gpus == 1 else 100 * self.gpus
            amounts |= {GPU_CORE: str(percent), GPU_RATIO: str(percent)}
        return amounts

    def spec(self, *, scheduler: str = SCHEDULER) -> Json:
        """A pod spec with one container; limits equal requests."""
        amounts = self.amounts()
        spec: Json = {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "workload", "resources": {"requests": amounts, "limits": amounts}}
            ],
        }
        if self.models:
            expression = {"key": LABEL_MODEL, "operator": "In", "values": list(self.models)}
            required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        return spec


def pod_manifest(
    name: str,
    request: PodRequest,
    *,
    namespace: str = "default",
    qos: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    scheduler: str = SCHEDULER,
    priority_class: str = "",
) -> Json:
    """A Pod."""
    meta: Json = {
        "name": name,
        "namespace": namespace,
        "labels": {**(labels or {}), **({LABEL_QOS: qos} if qos else {})},
    }
    if annotations:
        meta["annotations"] = dict(annotations)
    spec = request.spec(scheduler=scheduler)
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
