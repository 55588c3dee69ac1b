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


class NodeReport(Message, frozen=True, kw_only=True, tag="nodereport.set.v1"):
    """What is on a node.

    `version` grows from one report of the node to the next; what is made of a report names it. `looks_at` says which of
    its parts the agent looks at (`devices`): an empty part that is looked at says that there is nothing, one that is
    not says nothing. `gpu_driver` and `gpu_model` are of its accelerators, empty where they differ. A deletion marker
    says that the agent reports no longer.
    """

    node: str
    version: Integer
    looks_at: list[str] = []
    devices: list[ReportedDevice] = []
    gpu_driver: str = ""
    gpu_model: str = ""
    problems: list[Problem] = []
