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


class GroupPressure(Part, frozen=True, kw_only=True):
    """Pressure on the tasks of one control group; None where the kernel does not tell."""

    cpu: Pressure | None = None
    memory: Pressure | None = None
    io: Pressure | None = None


class BestEffortCpu(Part, frozen=True, kw_only=True):
    """What holds best-effort pods on the node, and what its strategy makes of that.

    `policy` is `cpuset` or `cfsQuota`, empty while the strategy is off or unknown. `enforced` says whether the agent
    writes or only reports. Quotas are microseconds in 100 ms, -1 without a limit; CPU lists have the kernel's form
    (`0-3,8`). `quota_us` and `cpus` are in force, None and empty while not known; `next_quota_us` and `next_cpus` are
    what follows from this look, None and empty to leave it, `next_cpus` `all` for every CPU that pods may use.
    `reason` says why nothing follows.
    """

    policy: str = ""
    enforced: bool = False
    quota_us: Integer | None = None
    cpus: str = ""
    next_quota_us: Integer | None = None
    next_cpus: str = ""
    reason: str = ""


class RuntimePlugin(Part, frozen=True, kw_only=True):
    """The agent as a plugin of the container runtime, through which containers begin with what was granted.

    `runtime` is who asks it, name and version; without `connected` containers begin without it. `containers` counts
    those that it knows. `isolation` is what isolates shared GPUs on this node (`HAMi-core`), empty where nothing does;
    `reason` says why.
    """

    connected: bool = False
    runtime: str = ""
    containers: Integer = 0
    isolation: str = ""
    reason: str = ""


class PodUsage(Part, frozen=True, kw_only=True):
    """Use of one pod, by uid, with the Kubernetes QoS class its cgroup sits under."""

    uid: str
    qos: str
    usage: Usage = Usage()


class HostApplicationUsage(Part, frozen=True, kw_only=True):
    """Use of processes outside of pods that the node's strategy names: of which QoS class, and which priority class
    they count with."""

    name: str
    usage: Usage = Usage()
    qos: str = ""
    priority_class: str = ""


class UsageWindow(Part, frozen=True, kw_only=True):
    """Use of the node over the last `duration_s` seconds: the average and percentiles of what was measured then.

    `measured_s` is how much of that time was measured, less than all of it after a start or a pause; 0: not said. A
    window of which less than half was measured is left out.
    """

    duration_s: Integer
    measured_s: Integer = 0
    avg: Usage = Usage()
    p50: Usage = Usage()
    p90: Usage = Usage()
    p95: Usage = Usage()
    p99: Usage = Usage()


class NodeMetrics(Message, frozen=True, kw_only=True, tag="nodemetrics.set.v1"):
    """Use and pressure of one node. `measured_at` is unix seconds of the node's own clock, for people.

    `by_qos` holds those of `guaranteed`, `burstable` and `besteffort` that could be measured. `suppress_cpu_milli` is
    how much CPU best-effort pods may use by the node's strategy, -1 while that is unknown. `pressure_by_group` holds
    those of `pods` (all of them together), `burstable` and `besteffort` whose control groups tell: those of version 1
    have no such figures. `windows` are those of the node, shortest first. `runtime_plugin` is None where the agent is
    no plugin of the container runtime. `strategies` says of each strategy by name how it stands on a node that
    enforces: off, how many values it holds, why it does nothing, what of the kernel it lacks. `prod_reclaimable` is
    what prod pods have asked for and are predicted not to need, None while that is not known. `host_applications` are
    those outside of pods whose use could be measured; `system_usage` is what neither they nor pods account for.
    `memory_policy` says which memory counts as used, as the protocol calls it (`usageWithHotPageCache`); empty: without
    page cache, which is also what counts where the kernel cannot tell idle pages from others.
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
    pressure_by_group: dict[str, GroupPressure] = {}
    suppress_cpu_milli: Integer = -1
    best_effort: BestEffortCpu | None = None
    cgroup_version: Integer = 0
    windows: list[UsageWindow] = []
    runtime_plugin: RuntimePlugin | None = None
    problems: list[Problem] = []
    strategies: dict[str, str] = {}
    prod_reclaimable: Usage | None = None
    host_applications: list[HostApplicationUsage] = []
    memory_policy: str = ""
