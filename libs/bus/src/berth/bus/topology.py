"""The streams and buckets of Berth, as data.

A bucket `b` is the stream `KV_b` on the subjects `$KV.b.>` with one message per key. Buckets that can be rebuilt from
Kubernetes persist asynchronously on a single server; the ledger, the leases, commands and events wait for the disk.
Direct reads are off: an answer always comes from the stream's leader.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from berth.contracts import buckets
from berth.contracts.subjects import PREFIX

SERVER_MIN = (2, 14)
"""Atomic batches, TTL per message and asynchronous persistence, with their fixes."""

TOMBSTONE_TTL_S = 3600
"""How long a deletion marker is kept. A reader that was away for longer reads the bucket from its start."""
MESSAGE_BYTES_MAX = 1 << 20
DUPLICATES_S = 120

MIB = 1 << 20
DAY_S = 86_400
NANO = 1_000_000_000

COMMAND_SUBJECTS = f"{PREFIX}.cmd.>"
EVENT_SUBJECTS = f"{PREFIX}.evt.>"
DEAD_SUBJECTS = f"{PREFIX}.dead.>"


class Bucket(NamedTuple):
    """A key-value bucket. `rebuildable`: its content can be made again from Kubernetes or by its owner. `max_age_s`: a
    key that nobody writes for so long is gone; 0: none goes."""

    name: str
    bytes_max: int
    rebuildable: bool = True
    atomic: bool = False
    max_age_s: int = 0

    @property
    def stream(self) -> str:
        """Name of the stream behind it."""
        return f"KV_{self.name}"

    def config(self, replicas: int) -> dict[str, Any]:
        """Configuration of the stream."""
        config = _stream(self.stream, [f"$KV.{self.name}.>"], self.bytes_max, replicas) | {
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_rollup_hdrs": False,  # a roll-up header removes every other key: who may write one could
            "deny_delete": True,
            "allow_msg_ttl": True,
            "max_age": self.max_age_s * NANO,
        }
        if self.atomic:
            config["allow_atomic"] = True
        if self.rebuildable and replicas == 1:
            config["persist_mode"] = "async"
        return config


class Stream(NamedTuple):
    """An ordinary stream. `max_age_s` 0: no limit."""

    name: str
    subjects: str
    bytes_max: int
    retention: str
    discard: str
    max_age_s: int = 0
    atomic: bool = False

    @property
    def stream(self) -> str:
        """Its own name."""
        return self.name

    def config(self, replicas: int) -> dict[str, Any]:
        """Configuration of the stream."""
        return _stream(self.name, [self.subjects], self.bytes_max, replicas) | {
            "retention": self.retention,
            "discard": self.discard,
            "max_age": self.max_age_s * NANO,
            **({"allow_atomic": True} if self.atomic else {}),
        }


def _stream(name: str, subjects: list[str], bytes_max: int, replicas: int) -> dict[str, Any]:
    return {
        "name": name,
        "subjects": subjects,
        "retention": "limits",
        "storage": "file",
        "num_replicas": replicas,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": bytes_max,
        "max_age": 0,
        "max_msg_size": MESSAGE_BYTES_MAX,
        "duplicate_window": DUPLICATES_S * NANO,
        "allow_direct": False,
    }


TOPOLOGY: tuple[Bucket | Stream, ...] = (
    Bucket(buckets.STATE, 1024 * MIB),
    Bucket(buckets.INVENTORY, 256 * MIB),
    Bucket(buckets.QUOTA, 64 * MIB),
    Bucket(buckets.RESERVATION, 128 * MIB),
    Bucket(buckets.SLO, 256 * MIB),
    Bucket(buckets.METRICS, 512 * MIB),
    Bucket(buckets.PRICE, 16 * MIB, max_age_s=7 * DAY_S),
    Bucket(buckets.LEASE, 16 * MIB, rebuildable=False),
    Bucket(buckets.LEDGER, 1024 * MIB, rebuildable=False, atomic=True),
    Stream(buckets.COMMANDS, COMMAND_SUBJECTS, 512 * MIB, retention="workqueue", discard="new"),
    Stream(
        buckets.EVENTS,
        EVENT_SUBJECTS,
        1024 * MIB,
        retention="limits",
        discard="old",
        max_age_s=7 * DAY_S,
        atomic=True,
    ),
    Stream(buckets.DEAD, DEAD_SUBJECTS, 64 * MIB, retention="limits", discard="old", max_age_s=14 * DAY_S),
)
