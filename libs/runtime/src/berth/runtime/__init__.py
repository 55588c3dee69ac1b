"""The one shape of a Berth service process: settings, start, supervision, stop."""

from berth.runtime.changes import ChangeSet
from berth.runtime.clock import Clock, SystemClock
from berth.runtime.context import Context
from berth.runtime.periodic import Periodic
from berth.runtime.run import run
from berth.runtime.settings import Port, Seconds, ServiceSettings, SettingsError, environment_of, load_settings
from berth.runtime.standby import ActiveStandby
from berth.runtime.supervisor import Supervisor

__all__ = [
    "ActiveStandby",
    "ChangeSet",
    "Clock",
    "Context",
    "Periodic",
    "Port",
    "Seconds",
    "ServiceSettings",
    "SettingsError",
    "Supervisor",
    "SystemClock",
    "environment_of",
    "load_settings",
    "run",
]
