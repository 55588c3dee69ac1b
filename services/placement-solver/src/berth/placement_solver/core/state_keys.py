"""What keys and tombstones of STATE say by themselves, before any value is decoded."""

from __future__ import annotations

from berth.contracts import subjects
from berth.contracts.errors import InvalidMessage
from berth.transaction.claims import Name


def namespaced(rest: str) -> Name:
    """Namespace and name in a key without its kind. Raises InvalidMessage, or ValueError for what is no token."""
    parts = subjects.parts(rest)
    if len(parts) != 2:
        raise InvalidMessage(rest, "expected a namespace and a name")
    return (parts[0], parts[1])


def tombstone_version(value: bytes) -> int:
    """The resource version in a tombstone; 0 when it carries none."""
    try:
        return int(value) if value else 0
    except ValueError:
        return 0
