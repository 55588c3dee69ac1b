"""Metrics of cluster-writer. Labels never carry names of objects."""

from __future__ import annotations

from berth.telemetry.metrics import counter, gauge, histogram

BINDS = counter("berth_writer_binds_total", "Answers to binds by what followed.", ["outcome"])
BIND_SECONDS = histogram("berth_writer_bind_seconds", "Time of one bind request.")
STEPS = counter(
    "berth_writer_steps_total", "Requests that come before a bind, by what followed.", ["action", "outcome"]
)
NODE_LOCKS = counter(
    "berth_writer_node_locks_total",
    "Locks of nodes for device plugins: taken, waited for, taken over, freed.",
    ["what"],
)
BOUND = counter("berth_writer_bound_total", "Pods seen bound under a plan of ours.")
LATENCY_SECONDS = histogram("berth_writer_placement_seconds", "From first sight of a pod to seeing it bound.")
WITHDRAWN = counter("berth_writer_withdrawn_total", "Decisions withdrawn.")
WAVES = counter("berth_writer_waves_total", "Waves by outcome.", ["outcome"])
EPOCHS = counter("berth_writer_epochs_total", "Epochs raised.")
EPOCHS_PUT_OFF = counter(
    "berth_writer_epochs_put_off_total", "Epochs that were raised later than asked: too many within a few minutes."
)
REPEATS = counter(
    "berth_writer_repeats_total", "Requests sent again because their outcome was unknown or refused for now."
)
COMMANDS = counter("berth_writer_commands_total", "Commands by kind and outcome.", ["kind", "outcome"])
EVENTS = counter("berth_writer_kubernetes_events_total", "Kubernetes Events by fate.", ["fate"])
BROKEN_MESSAGES = counter(
    "berth_writer_broken_messages_total", "Messages that could not be read, by bucket.", ["bucket"]
)
EVICTIONS = counter(
    "berth_writer_evictions_total", "Victims by what was done: marked, sent, refused, spared.", ["what"]
)
NOMINATIONS_GIVEN_UP = counter("berth_writer_nominations_given_up_total", "Nominations that were given up.")
OPEN_BINDS = gauge("berth_writer_open_binds", "Decisions being carried out.")
ACTIVE = gauge("berth_writer_active", "1 while this instance holds the Lease.")
EPOCH = gauge("berth_writer_epoch", "Epoch that this instance acts in.")
LEDGER_UNREADABLE = gauge(
    "berth_writer_ledger_unreadable", "Entries of the ledger's epoch that cannot be read: nothing is planned meanwhile."
)
