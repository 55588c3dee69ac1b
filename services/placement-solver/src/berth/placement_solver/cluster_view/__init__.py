"""What a solver sees: every bucket it follows, folded into the book, the columns, the queue.

The view takes messages in and keeps itself up to date, message by message and without I/O. It decides nothing;
`batch` hands out what waits as units for `core.solve`. A file for each bucket; `holdings` is what they fill, `waiting`
what follows for those who wait.
"""

from __future__ import annotations

from berth.placement_solver.cluster_view.ledger_bucket import LedgerBucket
from berth.placement_solver.cluster_view.managers_buckets import ManagersBuckets
from berth.placement_solver.cluster_view.state_bucket import StateBucket


class ClusterView(StateBucket, LedgerBucket, ManagersBuckets):
    """All views of one solver."""
