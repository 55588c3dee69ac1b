"""METRICS: what a node's agent measures on its own node, one message per node, written by that agent alone."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem


class Pressure(Part, frozen=True, kw_only=True):
    """Pressure stall information: share of time (percent) that some, or all, tasks waited, over 10 and 60 s."""

    some_avg10: float = 0.0
    some_avg60: float = 0.0
    full_avg10: float = 0.0
    full_avg60: float = 0.0


class Usage(Part, frozen=True, kw_only=True):
    """What was used in the last interval."""

    cpu_milli: Integer = 0
    memory_bytes: Integer = 0


class PodUsage(Part, frozen=True, kw_only=True):
    """Use of one pod, by uid, with the Kubernetes QoS class its cgroup sits under."""

    uid: str
    qos: str
    usage: Usage = Usage()


class NodeMetrics(Message, frozen=True, kw_only=True, tag="node.measured.v1"):
    """Use and pressure of one node. `measured_at` is unix seconds of the node's own clock, for people.

    `by_qos` holds those of `guaranteed`, `burstable` and `besteffort` that could be measured. `suppress_cpu_milli` is
    how much CPU best-effort pods may use by the colocation strategy, -1 while that is unknown.
    """

    node: str
    measured_at: float
    interval_s: float = 0.0
    cpu_total_milli: Integer = 0
    memory_total_bytes: Integer = 0
    node_usage: Usage = Usage()
    system_usage: Usage = Usage()
    by_qos: dict[str, Usage] = {}
    pods: list[PodUsage] = []
    cpu_pressure: Pressure | None = None
    memory_pressure: Pressure | None = None
    io_pressure: Pressure | None = None
    suppress_cpu_milli: Integer = -1
    cgroup_version: Integer = 0
    problems: list[Problem] = []
