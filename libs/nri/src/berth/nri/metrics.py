"""Counters of a plugin. Labels are methods of the interface and kinds of faults: never a name of a pod or container."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

CONNECTED = Gauge("berth_nri_connected", "1 while the runtime has taken the plugin and sent its whole state.")
FAULTS = Counter("berth_nri_faults_total", "Connections to the runtime that ended or failed, by kind.", ["kind"])
CALLS = Counter("berth_nri_calls_total", "What the runtime asked, by method and outcome.", ["method", "outcome"])
CALL_SECONDS = Histogram(
    "berth_nri_call_seconds",
    "Time to answer the runtime, which holds the container back meanwhile.",
    ["method"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
PASSED = Counter("berth_nri_passed_total", "Parts of the protocol that were skipped, by what they were.", ["what"])
UNKNOWN_FIELDS = Counter("berth_nri_unknown_fields_total", "Fields of later versions that were skipped.", ["method"])
UPDATES = Counter("berth_nri_updates_total", "Updates of containers sent to the runtime, by outcome.", ["outcome"])
