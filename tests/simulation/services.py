"""The services of a simulated control plane: those that take part in a placement, exactly as their entry points run."""

from __future__ import annotations

from typing import Final

from tests.simulation.optimiser import main as solver

from berth.admission_webhook.settings import Settings as WebhookSettings
from berth.admission_webhook.shell import main as webhook
from berth.auditor.settings import Settings as AuditorSettings
from berth.auditor.shell import main as auditor
from berth.cluster_watcher.settings import Settings as WatcherSettings
from berth.cluster_watcher.shell import main as watcher
from berth.cluster_writer.settings import Settings as WriterSettings
from berth.cluster_writer.shell import main as writer
from berth.device_inventory.settings import Settings as InventorySettings
from berth.device_inventory.shell import main as inventory
from berth.placement_solver.settings import Settings as SolverSettings
from berth.quota_manager.settings import Settings as QuotaSettings
from berth.quota_manager.shell import main as quota
from berth.reservation_manager.settings import Settings as ReservationSettings
from berth.reservation_manager.shell import main as reservation
from berth.slo_manager.settings import Settings as SloSettings
from berth.slo_manager.shell import main as slo
from berth.testing.simulation.services import ServiceSpec

AUDITOR: Final = "auditor"
"""It takes no part: it looks on in some runs, and must raise no false alarm."""
SLO_MANAGER: Final = "slo-manager"
"""Places nothing; in some runs it writes the strategies of nodes beside everything else."""
WEBHOOK: Final = "admission-webhook"
"""Changes pods as they are created, in some runs."""
BESIDE: Final = (AUDITOR, SLO_MANAGER, WEBHOOK)
"""Not in every run."""
_ANYWHERE: Final = {"BERTH_KUBE_URL": "http://simulated"}

SPECS: Final = (
    ServiceSpec(name="cluster-watcher", settings_type=WatcherSettings, main=watcher, environ=_ANYWHERE),
    ServiceSpec(name="cluster-writer", settings_type=WriterSettings, main=writer, environ=_ANYWHERE),
    ServiceSpec(name="device-inventory", settings_type=InventorySettings, main=inventory),
    ServiceSpec(name="quota-manager", settings_type=QuotaSettings, main=quota),
    ServiceSpec(name="reservation-manager", settings_type=ReservationSettings, main=reservation),
    ServiceSpec(
        name="placement-solver",
        settings_type=SolverSettings,
        main=solver,
        environ={"BERTH_ESTIMATES_EVERY_S": "0"},  # a copy of the process has a time of its own
    ),
    ServiceSpec(
        name=AUDITOR,
        settings_type=AuditorSettings,
        main=auditor,
        environ={**_ANYWHERE, "BERTH_AUDIT_INTERVAL_S": "10"},
    ),
    ServiceSpec(name=SLO_MANAGER, settings_type=SloSettings, main=slo),
    ServiceSpec(name=WEBHOOK, settings_type=WebhookSettings, main=webhook),
)
