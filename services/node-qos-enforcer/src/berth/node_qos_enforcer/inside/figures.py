"""Figures of the plugin. Labels are few: never a pod or a container."""

from __future__ import annotations

from berth.telemetry import counter, gauge

CREATIONS = counter("berth_node_creations_total", "Containers that the runtime has asked about.", ["outcome"])
FINDINGS = counter("berth_node_findings_total", "What was found wrong with a pod or container.", ["kind"])
CONTAINERS = gauge("berth_node_containers", "Containers that the runtime has reported and that have not ended.")
SHARED_CPUS = gauge("berth_node_shared_cpus", "CPUs of pods that have none of their own, by pool.", ["pool"])
