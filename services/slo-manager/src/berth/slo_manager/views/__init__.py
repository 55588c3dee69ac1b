"""What the buckets show. Sinks only record and mark."""

from berth.slo_manager.views.entries import POD, PodEntries
from berth.slo_manager.views.pods import POD_KEYS, PodView
from berth.slo_manager.views.pressures import PRESSURE_KEYS, Pressures
from berth.slo_manager.views.reports import METRIC_KEYS, OBJECT_KEYS, Reports
from berth.slo_manager.views.slo import OFFER, SloView
from berth.slo_manager.views.state import NODE, StateView

__all__ = [
    "METRIC_KEYS",
    "NODE",
    "OBJECT_KEYS",
    "OFFER",
    "POD",
    "POD_KEYS",
    "PRESSURE_KEYS",
    "PodEntries",
    "PodView",
    "Pressures",
    "Reports",
    "SloView",
    "StateView",
]
