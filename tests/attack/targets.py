"""What an attacker would like to change: one subject per kind of message that the bus keeps, and the worst requests.

All of it comes from the contract and the topology, so that a new message or stream is attacked as soon as it exists.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from berth.bus.topology import TOPOLOGY
from berth.contracts import buckets
from berth.contracts.catalogue import CHANNELS
from berth.contracts.subjects import PREFIX

LEASES = (
    "cluster-watcher",
    "device-inventory",
    "quota-manager",
    "reservation-manager",
    "slo-manager",
    "auditor",
    "admission-webhook",
)
AGENTS_NODES = ("n1", "n2")
"""Of the two agents that the tests have."""
DESTRUCTIVE = ("STREAM.DELETE.{}", "STREAM.PURGE.{}", "STREAM.UPDATE.{}", "STREAM.MSG.DELETE.{}")


class Target(NamedTuple):
    """A subject that a stream keeps."""

    stream: str
    subject: str


def sample(pattern: str) -> str:
    """A subject of a pattern of the catalogue."""
    text = pattern.replace("<account>", "node.x").replace("e<epoch>", "e1")
    return re.sub(r"<\w+>", "x", text)


def kept() -> list[Target]:
    """One subject of every kind of message that is kept, leases and dead letters included."""
    found = []
    for channel in CHANNELS:
        if channel.place.startswith("berth_"):
            found.append(Target(f"KV_{channel.place}", f"$KV.{channel.place}.{sample(channel.pattern)}"))
        elif channel.place in (buckets.EVENTS, buckets.COMMANDS):
            found.append(Target(channel.place, sample(channel.pattern)))
    found += [
        Target(f"KV_{buckets.METRICS}", f"$KV.{buckets.METRICS}.{kind}.{node}")
        for kind in ("node", "report", "runtime")
        for node in AGENTS_NODES
    ]
    found += [
        Target(f"KV_{buckets.LEASE}", f"$KV.{buckets.LEASE}.{name}") for name in (*LEASES, "solver.x", "certificate.x")
    ]
    found.append(Target(buckets.DEAD, f"{PREFIX}.dead.cluster-writer.cmd.x"))
    return list(dict.fromkeys(found))


def wanted() -> list[str]:
    """Subjects that an attacker would have the bus publish: what is kept, requests that destroy, others' answers."""
    found = [target.subject for target in kept()]
    found += [f"$JS.API.{verb.format(item.stream)}" for item in TOPOLOGY for verb in DESTRUCTIVE]
    found += [f"$JS.API.CONSUMER.DELETE.{buckets.COMMANDS}.cluster-writer", "$JS.API.ACCOUNT.PURGE.BERTH"]
    return found
