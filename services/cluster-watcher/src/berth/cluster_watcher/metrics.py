"""Figures of cluster-watcher. Labels are names of kinds, never of objects."""

from __future__ import annotations

from typing import Final

from berth.telemetry import counter, gauge, histogram

OBJECTS: Final = gauge("berth_cluster_objects", "Objects in STATE.", ["kind"])
SYNCED: Final = gauge("berth_cluster_synced", "1 while the kind is listed and watched.", ["kind"])
MALFORMED: Final = counter(
    "berth_cluster_malformed_total", "Objects with something in them that could not be read or carried.", ["kind"]
)
RELISTS: Final = counter("berth_cluster_relists_total", "Lists of a kind that were begun.", ["kind"])
WRITES: Final = counter(
    "berth_cluster_writes_total",
    "What became of changes: write, unchanged, stale (older than what STATE holds), refused (does not fit the bus).",
    ["kind", "outcome"],
)
CONFLICTS: Final = counter("berth_cluster_conflicts_total", "Keys that somebody else wrote.")
RESETS: Final = counter("berth_cluster_state_losses_total", "Times that STATE was found deleted or without its tail.")
LAG: Final = histogram(
    "berth_cluster_publish_lag_seconds", "From reading the oldest change of a batch to its acknowledgement by the bus."
)
WAITING: Final = gauge("berth_cluster_waiting_messages", "Changes read and not yet handed to the bus.")
CROWDED: Final = gauge(
    "berth_cluster_crowded_ratio", "Share of the time in which it has something to do and waits for a core."
)
