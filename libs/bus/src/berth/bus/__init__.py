"""The bus: topology, followers, owned buckets, ledger batches, events, commands, questions, leases."""

from berth.bus.bus import Bus
from berth.bus.clock import SystemClock
from berth.bus.errors import (
    ApiError,
    BusError,
    Denied,
    Disconnected,
    InvalidMessage,
    NoAnswer,
    RemoteError,
    RetryLater,
    ServerTooOld,
    TimedOut,
    TopologyError,
)
from berth.bus.follower import Follower
from berth.bus.lease import BusLease
from berth.bus.ledger import Ledger
from berth.bus.owned import OwnedBucket
from berth.bus.port import (
    BusPort,
    Clock,
    Committed,
    Entry,
    FollowerPort,
    LeasePort,
    LedgerPort,
    Message,
    OwnedPort,
    PublisherPort,
    Refused,
    Sink,
    Stored,
    Unknown,
    Write,
)
from berth.bus.publisher import Publisher
from berth.bus.settings import BusSettings

__all__ = [
    "ApiError",
    "Bus",
    "BusError",
    "BusLease",
    "BusPort",
    "BusSettings",
    "Clock",
    "Committed",
    "Denied",
    "Disconnected",
    "Entry",
    "Follower",
    "FollowerPort",
    "InvalidMessage",
    "LeasePort",
    "Ledger",
    "LedgerPort",
    "Message",
    "NoAnswer",
    "OwnedBucket",
    "OwnedPort",
    "Publisher",
    "PublisherPort",
    "Refused",
    "RemoteError",
    "RetryLater",
    "ServerTooOld",
    "Sink",
    "Stored",
    "SystemClock",
    "TimedOut",
    "TopologyError",
    "Unknown",
    "Write",
]
