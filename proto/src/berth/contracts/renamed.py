"""Tags of messages that had another name before 0.2, for readers and writers of then: an error names the new one.

The names of 0.1 did not say alike what a class, its tag and its subject say. They changed once, before 1.0; from 1.0 on
a tag keeps its readers.
"""

from __future__ import annotations

from typing import Final

RENAMED: Final = {
    "account.stamped.v1": "accountstamp.set.v1",
    "audit.difference.v1": "audit.reported.v1",
    "epoch.raised.v1": "epoch.set.v1 (in the ledger)",
    "inventory.counted.v1": "nodeinventory.set.v1",
    "kind.synced.v1": "synced.set.v1",
    "node.measured.v1": "nodemetrics.set.v1",
    "nodetopology.seen.v1": "noderesourcetopology.seen.v1",
    "pdb.seen.v1": "poddisruptionbudget.seen.v1",
    "placement.decided.v1": "decision.set.v1 (in the ledger)",
    "placement.epoch.v1": "epoch.raised.v1",
    "placement.planned.v1": "placement.decided.v1",
    "placement.refused.v1": "placement.unschedulable.v1",
    "quota.set.v1": "quotagroup.set.v1",
    "reservation.set.v1": "reservedcapacity.set.v1",
    "slo.set.v1": "nodeslo.set.v1",
    "status.answered.v1": "status.answer.v1",
    "status.asked.v1": "status.question.v1",
    "why.answered.v1": "why.answer.v1",
    "why.asked.v1": "why.question.v1",
}
"""Tag of 0.1 -> tag from 0.2 on. Two tags are in use again for the event of that name; in the ledger they are the old
ones."""
