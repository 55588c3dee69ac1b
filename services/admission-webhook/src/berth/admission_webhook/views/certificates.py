"""Certificates of replicas, as their leases show them. A sink only records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from berth.admission_webhook.core.bundle import Lease, Note
from berth.bus.lease import Holding
from berth.bus.port import Entry
from berth.contracts.subjects import parts

CERTIFICATE: Final = "certificate"
"""First token of the leases of certificates."""
CERTIFICATE_KEYS: Final = f"{CERTIFICATE}.>"


class CertificateView:
    """The leases of certificates, by fingerprint."""

    def __init__(self, on_keys: Callable[[], None]) -> None:
        """`on_keys`: called when other replicas seal."""
        self.leases: dict[str, Lease] = {}
        self.unreadable = 0
        self.is_at_end = False
        self._on_keys = on_keys

    def reset(self) -> None:
        """The bucket begins anew."""
        self.leases.clear()
        self.is_at_end = False

    def apply(self, entry: Entry) -> None:
        """A lease was renewed, or given back."""
        try:
            kind, fingerprint = parts(entry.key)
            if kind != CERTIFICATE:
                return
            before = self.leases.get(fingerprint)
            if entry.deleted:
                self.leases.pop(fingerprint, None)
            else:
                note = msgspec.json.decode(msgspec.json.decode(entry.value, type=Holding).note, type=Note)
                self.leases[fingerprint] = Lease(note, before.renewals + 1 if before is not None else 0)
            if before is None or entry.deleted:
                self._on_keys()
        except (msgspec.MsgspecError, ValueError):
            self.unreadable += 1

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        self.is_at_end = True
