"""The Prometheus figures of this service: what an operator looks at when a node behaves oddly."""

from __future__ import annotations

from berth.contracts.node_report import NodeReport
from berth.node_qos_enforcer.core.measure import Measurement
from berth.node_qos_enforcer.core.sample import NodeSample
from berth.telemetry import counter, gauge, histogram

ROUNDS = counter("berth_node_rounds_total", "Looks at the node, by whether CPU usage came out of it.", ["outcome"])
LOOK_SECONDS = histogram("berth_node_look_seconds", "Time to read /proc, /sys and all control groups once.")
CPU_USED = gauge("berth_node_cpu_used_milli", "CPU in use on the node, in milli-cores.")
MEMORY_USED = gauge("berth_node_memory_used_bytes", "Memory in use on the node, without page cache.")
PODS = gauge("berth_node_pods_found", "Pods found by their control groups, by Kubernetes QoS class.", ["qos"])
PRESSURE = gauge("berth_node_pressure_percent", "Share of the last 10 s in which some tasks waited.", ["resource"])
TARGET = gauge("berth_node_suppress_target_milli", "CPU that best-effort pods may use; NaN while it is not known.")
PROBLEMS = gauge("berth_node_problems", "What could not be read or made sense of in the last look.")
VANISHED = counter("berth_node_vanished_groups_total", "Pods that went away while they were being read.")
WRITES = counter("berth_node_writes_total", "Writes to the best-effort group.", ["knob", "outcome"])
JOURNAL = gauge("berth_node_journal_files", "Files that were written to and not given back.")
REPORT_SECONDS = histogram("berth_node_report_seconds", "Time to look once at what is on the node.")
EVICTIONS = counter("berth_node_evictions_asked_total", "Pods that were asked to leave the node.", ["feature"])
REPORTS = counter("berth_node_reports_total", "Reports that say something new.")
REPORT_PROBLEMS = gauge("berth_node_report_problems", "What of the node could not be read, or not be reported.")
PROXY_ANSWERS = counter(
    "berth_node_podresources_answers_total",
    "Answers about what containers hold, by whether all records could be read.",
    ["outcome"],
)
DEVICES = gauge("berth_node_devices", "Devices of the node, by kind and health.", ["kind", "health"])
CONFLICTS = counter("berth_node_conflicts_total", "Writes of this node's entry by somebody else.")


def observe(sample: NodeSample, measurement: Measurement) -> None:
    """Set the figures of one round."""
    metrics = measurement.metrics
    ROUNDS.labels("measured" if metrics.interval_s else "no cpu usage").inc()
    VANISHED.inc(sample.vanished)
    PROBLEMS.set(len(metrics.problems))
    MEMORY_USED.set(metrics.node_usage.memory_bytes)
    if metrics.interval_s:
        CPU_USED.set(metrics.node_usage.cpu_milli)
    for qos in ("Guaranteed", "Burstable", "BestEffort"):
        PODS.labels(qos).set(sum(pod.kube_qos == qos for pod in sample.pods))
    for resource, stalls in sample.pressure.items():
        PRESSURE.labels(resource).set(stalls.some.avg10)
    TARGET.set(float("nan") if measurement.target is None else measurement.target.target_milli)


def observe_report(report: NodeReport) -> None:
    """Set the figures of one report."""
    REPORT_PROBLEMS.set(len(report.problems))
    for kind in ("gpu", "rdma", "fpga"):
        for health in (True, False):
            count = sum(each.kind == kind and each.healthy == health for each in report.devices)
            DEVICES.labels(kind, "healthy" if health else "unhealthy").set(count)
