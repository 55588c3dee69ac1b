"""METRICS, key `report.<node>`: what a node's agent finds on its node, written by that agent alone.

Figures that change all the time are in `NodeMetrics`; this message is written when something else is found.
"""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem


class ReportedLink(Part, frozen=True, kw_only=True):
    """A direct link of a device, such as HCCS, to the devices of its kind with these minors."""

    kind: str
    peers: list[Integer] = []


class ReportedDevice(Part, frozen=True, kw_only=True):
    """One device. Amounts are by resource name in base units.

    `reason` and `message` say why it is not healthy; `since` is when that, or being healthy, began: unix seconds of the
    node's clock. A device that was ill stays so until it was found well for a whole minute. -1 and empty texts are
    unknown. `pcie` is the root complex, `switches` the PCI addresses of what lies between it and the device, `bus` its
    own address, `module` its slot, `functions` the addresses of its virtual functions. `has_links`: its vendor says how
    devices are linked; `honors_partitions`: linked devices are given out together or not at all.
    """

    kind: str
    minor: Integer
    id: str = ""
    vendor: str = ""
    model: str = ""
    healthy: bool = True
    reason: str = ""
    message: str = ""
    since: float = 0.0
    amounts: dict[str, Integer] = {}
    labels: dict[str, str] = {}
    numa_node: Integer = -1
    socket: Integer = -1
    pcie: str = ""
    switches: list[str] = []
    bus: str = ""
    module: Integer | None = None
    functions: list[str] = []
    links: list[ReportedLink] = []
    has_links: bool = False
    honors_partitions: bool = False


class ReportedCore(Part, frozen=True, kw_only=True):
    """A physical core: its id, which is unique within its socket, its NUMA node, and its CPUs (threads) as a list in
    the kernel's form (`0,64`)."""

    socket: Integer
    core: Integer
    zone: Integer
    cpus: str


class ReportedZone(Part, frozen=True, kw_only=True):
    """A NUMA node. `memory` is all of its memory in bytes, `hugepages` what of that is set apart, in bytes by resource
    name (`hugepages-2Mi`), `distances` those to each of the report's zones, in their order."""

    zone: Integer
    memory: Integer = 0
    hugepages: dict[str, Integer] = {}
    distances: list[Integer] = []


class ReportedCpu(Part, frozen=True, kw_only=True):
    """What CPUs they are. `l3_mask` is the mask of all parts of a level 3 cache that can be divided, hexadecimal."""

    model: str = ""
    vendor: str = ""
    hyper_threads: bool = False
    turbo: bool = False
    l3_mask: str = ""


class PinnedCpus(Part, frozen=True, kw_only=True):
    """CPUs that kubelet has given to a pod, by its uid, as a list in the kernel's form."""

    uid: str
    cpus: str


class ReportedKubelet(Part, frozen=True, kw_only=True):
    """What kubelet does with CPUs and NUMA nodes, in its own words; empty texts: it does not say.

    `reserved_cpus` are those that it keeps for itself and the system, `topology_scope` is `container` or `pod`.
    """

    cpu_manager: str = ""
    cpu_manager_options: dict[str, str] = {}
    reserved_cpus: str = ""
    topology_manager: str = ""
    topology_scope: str = ""
    pinned: list[PinnedCpus] = []


class HeldByContainer(Part, frozen=True, kw_only=True):
    """What kubelet has given to a container, by its PodResources: ids of devices by resource name, and CPUs of its own
    as a list in the kernel's form.

    `uid` is the pod's, empty where the agent cannot tell: PodResources have names alone, and a successor may bear the
    same one.
    """

    namespace: str
    pod: str
    container: str
    devices: dict[str, list[str]] = {}
    cpus: str = ""
    uid: str = ""


class NodeReport(Message, frozen=True, kw_only=True, tag="nodereport.set.v1"):
    """What is on a node.

    `version` grows from one report of the node to the next. `parts` are those that the agent looks at (`devices`,
    `cpus`, `kubelet`, `held`), each with the version that last changed it, which what is made of the part names: an
    empty part that is looked at says that there is nothing, one that is not says nothing. A part that cannot be read
    stays what it was, and is a problem.

    `gpu_driver` and `gpu_model` are of the accelerators, empty where they differ. `cores` are in the order of sockets
    and core ids, `zones` ascend; ids may have gaps. `held` is
    by namespace, pod and container. A deletion marker says that the agent reports no longer.
    """

    node: str
    version: Integer
    parts: dict[str, Integer] = {}
    devices: list[ReportedDevice] = []
    gpu_driver: str = ""
    gpu_model: str = ""
    cores: list[ReportedCore] = []
    zones: list[ReportedZone] = []
    cpu: ReportedCpu | None = None
    kubelet: ReportedKubelet | None = None
    held: list[HeldByContainer] = []
    problems: list[Problem] = []
