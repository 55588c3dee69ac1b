"""When a replica's certificate gets a successor, and from when on the successor is the one that is shown."""

from __future__ import annotations

from typing import Final

RENEW_AFTER: Final = 2 / 3
"""Share of its life after which a certificate gets a successor."""
SETTLE_S: Final = 10.0
"""From when a certificate is seen to stand until all API servers go by that: each follows the configurations itself."""


def wants_successor(ends_at: float, lifetime_s: float, now: float) -> bool:
    """Whether a certificate has been in use for long enough. Both times are Unix time."""
    return now >= ends_at - lifetime_s * (1 - RENEW_AFTER)


class Standing:
    """Since when a certificate stands in every bundle."""

    def __init__(self) -> None:
        self.since: float | None = None

    def look(self, pem: str, bundles: list[str], now: float) -> None:
        """Note whether it stands there now. `now` is monotonic, in seconds; without a bundle it does not."""
        if not bundles or not all(pem in bundle for bundle in bundles):
            self.since = None
        elif self.since is None:
            self.since = now

    def has_settled(self, now: float) -> bool:
        """It has stood there for long enough to be relied on."""
        return self.since is not None and now - self.since >= SETTLE_S
