"""How often an epoch may be raised: each costs a patch of every unbound pod, and a reason that stays would cost that
again and again. Putting one off is safe, for nothing is begun meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

BURST = 30
"""So many are raised without a pause: a bus that is being repaired may lose something every few seconds."""
WINDOW_S = 120.0


def epoch_delay_s(raised_at_s: Sequence[float], now_s: float) -> float:
    """How long the next epoch has to wait, in seconds, given when the former ones were raised (oldest first)."""
    if len(raised_at_s) < BURST:
        return 0.0
    return max(0.0, raised_at_s[-BURST] + WINDOW_S - now_s)
