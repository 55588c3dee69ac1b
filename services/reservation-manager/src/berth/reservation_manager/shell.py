"""The wiring of reservation-manager: what it reads, decides with and publishes."""

from __future__ import annotations

from berth.contracts import buckets
from berth.contracts.event import ObjectRefused
from berth.contracts.reservation import ReservedCapacity
from berth.reservation_manager.core import series
from berth.reservation_manager.core.life import Phase
from berth.reservation_manager.reconciler import RESERVATION, Reconciler
from berth.reservation_manager.settings import SERVICE, Settings
from berth.reservation_manager.views import DECISIONS, StateView
from berth.runtime import Context, Event, Input, Manager, Output, PublishedView
from berth.telemetry import collected_gauge, counter, gauge

TICK_S = 1.0

BY_PHASE = gauge("berth_reservations_known", "Reservations by phase.", ["phase"])
PUBLISHED = counter("berth_reservations_published_total", "Writes to RESERVATION.", ["what"])
PATCHES = counter("berth_reservations_status_patches_total", "Status patches that were requested.")
REFUSED = counter("berth_reservations_refused_total", "Reservations and schedules with new problems.")


class Shell(Manager[Settings, Reconciler]):
    """One replica."""

    def __init__(self, context: Context[Settings]) -> None:
        settings = context.settings
        super().__init__(SERVICE, context, lease_ttl_s=settings.lease_ttl_s)
        self.view = StateView(self.changed.mark, self.mark_all)
        self.published = PublishedView(RESERVATION, ReservedCapacity, self.changed.mark)
        reservations = self.view.reservations
        collected_gauge(
            "berth_reservation_phase",
            "1 for the phase that a Reservation shows.",
            series.PHASE_LABELS,
            lambda: series.phase_rows(reservations),
        )
        collected_gauge(
            "berth_reservation_amount",
            "What a Reservation holds, and what of it is in use.",
            series.AMOUNT_LABELS,
            lambda: series.amount_rows(reservations),
        )
        self.wire(
            Reconciler(
                self.view,
                self.published,
                schedulers=settings.scheduler_names,
                retry_s=settings.status_retry_s,
                collect_after_s=settings.collect_after_s,
            ),
            inputs=[Input(buckets.STATE, self.view), Input(buckets.LEDGER, self.view.decisions, DECISIONS)],
            output=Output(buckets.RESERVATION, self.published, PUBLISHED, written="reservation", deleted="withdrawal"),
            commands=PATCHES,
            window_s=settings.window_s,
            tick_s=TICK_S,
        )

    def announce(self, event: Event) -> None:
        """See `Replica`."""
        if isinstance(event.message, ObjectRefused):
            REFUSED.inc()
        super().announce(event)

    def measure(self) -> None:
        """See `Manager`."""
        counts = self.reconciler.phases
        for phase in Phase:
            BY_PHASE.labels(phase.value).set(counts[phase.value])


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context).run()
