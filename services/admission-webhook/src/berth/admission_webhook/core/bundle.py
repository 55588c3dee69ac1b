"""Which certificates the API server is to trust: those whose leases are renewed.

A replica's certificate stands on the bus for as long as it renews the lease; silence means that it is gone. Time is
that of the replica that judges: one certificate too many for some seconds does no harm, one too few costs calls.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

BEGIN: Final = "-----BEGIN CERTIFICATE-----"
END: Final = "-----END CERTIFICATE-----"
PEM_LENGTH_MAX: Final = 4096
KEY_BYTES_MIN: Final = 16
CERTIFICATES_MAX: Final = 15
"""So many that what is written stays below what a configuration may hold; replicas are few."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What the lease of a certificate says: the certificate, and the key that its replica seals marks with, as hex.

    Who may read leases on the bus may know that key: users are not among them.
    """

    pem: str
    seal: str


class Lease(NamedTuple):
    """A certificate's lease as last seen: what it shows, and how often it has been renewed since the reader began."""

    note: Note
    renewals: int


class Bundle:
    """Remembers when each lease was last renewed."""

    def __init__(self, silence_s: float) -> None:
        """`silence_s`: after so long without a renewal a replica counts as gone."""
        self._silence_s = silence_s
        self._seen: dict[str, tuple[int, float]] = {}

    def text(self, leases: Mapping[str, Lease], now: float) -> str:
        """The certificates of all replicas, in an order that only changes with them. `now` is monotonic, in seconds."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in leases}
        alive = []
        for name, lease in sorted(leases.items()):
            renewals, since = self._seen.get(name, (-1, now))
            if renewals != lease.renewals:
                since = now
                self._seen[name] = (lease.renewals, now)
            if now - since <= self._silence_s and is_certificate(lease.note.pem):
                alive.append(lease.note.pem)
        return "".join(alive[:CERTIFICATES_MAX])


def seal_keys(own: bytes, leases: Mapping[str, Lease]) -> tuple[bytes, ...]:
    """The keys that marks are told by, our own first; one that cannot be read is none."""
    others = []
    for lease in leases.values():
        with contextlib.suppress(ValueError):
            others.append(bytes.fromhex(lease.note.seal))
    return tuple(dict.fromkeys((own, *(key for key in others if len(key) >= KEY_BYTES_MIN))))


def is_certificate(pem: str) -> bool:
    """Whether a text is one certificate, as far as its frame says: it must not spoil what others are checked by."""
    lines = pem.splitlines()
    framed = len(lines) > 2 and lines[0] == BEGIN and lines[-1] == END and pem.endswith("\n")
    body = "".join(lines[1:-1])
    return framed and len(pem) <= PEM_LENGTH_MAX and body.isascii() and all(c.isalnum() or c in "+/=" for c in body)
