"""Names of the buckets and streams on the bus. Their settings are data of `berth.bus`."""

from __future__ import annotations

STATE = "berth_state"
INVENTORY = "berth_inventory"
QUOTA = "berth_quota"
RESERVATION = "berth_reservation"
SLO = "berth_slo"
METRICS = "berth_metrics"
PRICE = "berth_price"
LEASE = "berth_lease"
LEDGER = "berth_ledger"

COMMANDS = "BERTH_CMD"
EVENTS = "BERTH_EVT"
DEAD = "BERTH_DEAD"
