"""INVENTORY: where the CPUs of each node lie and what its NUMA nodes have, written by device-inventory alone."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem


class CoreCpus(Part, frozen=True, kw_only=True):
    """A physical core: its NUMA node and socket, and the ids of its CPUs (threads), ascending."""

    zone: Integer = 0
    socket: Integer = 0
    cpus: list[Integer] = []


class ZoneCapacity(Part, frozen=True, kw_only=True):
    """A NUMA node by its id, and what of its cpu, memory and hugepages pods may have.

    CPUs that nobody may have are taken off its cpu already.
    """

    zone: Integer = 0
    amounts: dict[str, Integer] = {}


class PinnedPod(Part, frozen=True, kw_only=True):
    """A pod that kubelet gave CPUs to, and these as a list (`0-3,8`). One that nobody knows has its uid alone."""

    uid: str
    namespace: str = ""
    name: str = ""
    cpus: str = ""


class NodeTopology(Message, frozen=True, kw_only=True, tag="nodetopology.set.v1"):
    """The CPUs and NUMA nodes of a node, as its NodeResourceTopology reports them.

    `version` is the resource version of the object that this was read from. `cores` are in the order of sockets and of
    core ids within them; `zones` ascend, ids may have gaps. `reserved` are CPUs that no pod may have as its own:
    kubelet's and those that it gave to pods, the node reservation's, the system's. `cpu_manager` is the policy of
    kubelet's CPU manager, `full_cores`: it admits pods with whole cores only. `policy` is kubelet's NUMA policy
    (BestEffort, Restricted, SingleNUMANode), at whatever level; empty: none. `cpu_ratio` is how many times its cpu the
    node shows, where the object says it (0: it does not). `pinned` says whose the CPUs are that kubelet gave to pods.

    `problems` name what cannot be used. A fault in the CPUs, in what is reserved or in the zones leaves the node
    without all three: part of a topology would be a wrong one.
    """

    node: str
    version: Integer
    cores: list[CoreCpus] = []
    zones: list[ZoneCapacity] = []
    reserved: list[Integer] = []
    cpu_manager: str = ""
    full_cores: bool = False
    policy: str = ""
    cpu_ratio: float = 0.0
    problems: list[Problem] = []
    pinned: list[PinnedPod] = []
