"""What a solver sees: every bucket it follows, folded into the book, the columns, the queue.

The view takes messages in and keeps itself up to date, message by message and without I/O. It decides nothing;
`batch` hands out what waits as units for `core.solve`. A file for each bucket; `holdings` is what they fill, `waiting`
what follows for those who wait.
"""

from __future__ import annotations

from berth.bus.port import Entry
from berth.contracts import buckets
from berth.placement_solver.cluster_view.ledger_bucket import LedgerBucket
from berth.placement_solver.cluster_view.managers_buckets import ManagersBuckets
from berth.placement_solver.cluster_view.state_bucket import StateBucket
from berth.placement_solver.reading import NODE_METRICS


class ClusterView(StateBucket, LedgerBucket, ManagersBuckets):
    """All views of one solver."""

    def read(self, bucket: str, entry: Entry) -> None:
        """Take in one message of a bucket, or of the part of STATE that is followed apart.

        Raises InvalidMessage or ValueError for one that cannot be read: then it is left out.
        """
        key, value, deleted = entry.key, entry.value, entry.deleted
        if bucket == buckets.STATE:
            self.read_state(key, value, deleted=deleted, gap=entry.gap, trace=entry.traceparent)
        elif bucket == buckets.LEDGER:
            self.read_ledger(key, value, deleted, entry.sequence)
        elif bucket == buckets.INVENTORY:
            self.read_inventory(key, value, deleted)
        elif bucket == buckets.QUOTA:
            self.read_quota(key, value, deleted)
        elif bucket == buckets.RESERVATION:
            self.read_reserved(key, value, deleted)
        elif bucket == buckets.SLO:
            self.read_offer(key, value, deleted)
        elif bucket == buckets.METRICS:
            self.read_metrics(key, value, deleted=deleted, stored_s=entry.stored_s)
        elif bucket == NODE_METRICS:
            self.read_node_metric(key, value, deleted=deleted)
        else:
            raise ValueError(f"{bucket} is not read")
