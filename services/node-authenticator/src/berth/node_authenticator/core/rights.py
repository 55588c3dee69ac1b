"""What the agent of a node may do on the bus: read four buckets, write what it says of its own node, answer questions.

Its account sees no stream; the API of the streams is another account's, under the name of a JetStream domain.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts import buckets
from berth.contracts.subjects import PREFIX, escape, named_key

AGENT: Final = "node-qos-enforcer"
ACCOUNT: Final = "NODES"
DOMAIN: Final = "berth"
READS: Final = (buckets.STATE, buckets.SLO, buckets.INVENTORY, buckets.METRICS)
WRITES: Final = ("node", "report", "runtime", "pressure")
"""What its keys in METRICS begin with, before the name of the node: its figures, what it finds on the node, how it
stands with the container runtime, and whom it asks to have evicted."""
ANSWERS: Final = "_R_.>"
"""Where the server takes answers to questions from another account; a token of its own is in each."""


class Rights(NamedTuple):
    """Subjects that a user may publish to and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def rights_of(node: str) -> Rights:
    """The rights of this node's agent. Raises ValueError for a name that is no subject token."""
    publish = (
        *(f"$JS.{DOMAIN}.API.STREAM.MSG.GET.KV_{bucket}" for bucket in READS),
        *(f"$KV.{buckets.METRICS}.{named_key(kind, node)}" for kind in WRITES),
        ANSWERS,
    )
    return Rights(publish, (f"_INBOX_{AGENT}.{escape(node)}.>", f"{PREFIX}.svc.{AGENT}.>", "$SRV.>"))
