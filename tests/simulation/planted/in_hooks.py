"""Bugs of what hooks charge."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from unittest.mock import patch

from berth.rules.quota_payer import charged
from berth.rules.records.quota import ChargedQuota
from berth.rules.records.seam import Bound
from berth.transaction.claims import Claim


def surcharge_uncounted() -> AbstractContextManager[object]:
    """What hooks charge is decided, and counts against nothing."""

    def requested(claim: Claim) -> Mapping[str, int]:
        return charged(claim.amounts, claim.uncharged)

    return patch.object(Claim, "charged", property(requested))


def surcharge_unwritten() -> AbstractContextManager[object]:
    """The bind does not say what was charged."""
    real = ChargedQuota.write

    def write(self: ChargedQuota, bound: Bound) -> dict[str, str]:
        return real(self, bound._replace(surcharge={}))

    return patch.object(ChargedQuota, "write", write)
