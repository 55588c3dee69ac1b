"""Counters of the bus library. Labels are buckets and streams, never keys."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

PERMISSION_ERRORS = Counter(
    "berth_bus_permission_errors_total", "Subjects that the server's permissions denied", ["operation"]
)
CONNECTIONS = Counter("berth_bus_connections_total", "Connections made to the bus")
CONNECTED = Gauge("berth_bus_connected", "1 while connected to the bus")
SLOW_CONSUMERS = Counter("berth_bus_slow_consumers_total", "Messages dropped by the client because a reader was late")
ENTRIES = Counter("berth_bus_follower_entries_total", "Entries applied by followers", ["bucket"])
FOLLOWER_STARTS = Counter("berth_bus_follower_starts_total", "Consumers made by followers", ["bucket", "reason"])
FOLLOWER_RESETS = Counter("berth_bus_follower_resets_total", "Views emptied and read again", ["bucket"])
WRITES = Counter("berth_bus_owned_writes_total", "Writes of owned buckets by outcome", ["bucket", "outcome"])
PUBLISHED = Counter("berth_bus_published_total", "Events and commands by outcome", ["stream", "outcome"])
BATCHES = Counter("berth_bus_batches_total", "Ledger batches by outcome", ["outcome"])
CONSUMED = Counter("berth_bus_consumed_total", "Messages of work queues by outcome", ["durable", "outcome"])
CONSUMERS_RENEWED = Counter(
    "berth_bus_consumers_renewed_total", "Consumers made anew since they were not level with their stream", ["durable"]
)
QUESTIONS = Counter("berth_bus_questions_total", "Questions answered by outcome", ["service", "verb", "outcome"])
LOGINS = Counter("berth_bus_logins_total", "Logins that the server left to this service, by outcome", ["outcome"])
LEASE_CHANGES = Counter("berth_bus_lease_changes_total", "Leases won and lost", ["lease", "change"])
