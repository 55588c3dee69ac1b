"""Plugins that raise: counted, logged as an error, and named in the reason; the round goes on without them."""

from __future__ import annotations

from berth.placement_solver import metrics
from berth.placement_solver.core.mishaps import Mishap, mishap_of
from berth.telemetry import get_logger

log = get_logger(__name__)


def told(error: Exception, asked: str = "", **fields: object) -> Mishap:
    """Tell of what a plugin raised; the error itself once more where the view cannot be trusted after it.

    `asked` is who was asked, for errors that come from no plugin; `fields` say for whom.
    """
    mishap = mishap_of(error, asked)
    metrics.MISHAPS.labels(mishap.plugin).inc()
    log.error(
        "a plugin raised: whoever it was asked about waits; please report this",
        plugin=mishap.plugin,
        error=f"{mishap.error}: {mishap.text}"[:500],
        places=list(mishap.places),
        **fields,
    )
    return mishap
