"""The one shape of a Berth service process: settings, start, supervision, stop."""

from berth.runtime.changes import ChangeSet
from berth.runtime.clock import Clock, SystemClock
from berth.runtime.context import Context
from berth.runtime.outcome import Command, Event, Moment, Outcome, Reconciler, Write
from berth.runtime.periodic import Periodic
from berth.runtime.published import PublishedView
from berth.runtime.run import run
from berth.runtime.service import Input, Manager, Output, Replica
from berth.runtime.settings import Port, Seconds, ServiceSettings, SettingsError, load_settings
from berth.runtime.standby import ActiveStandby
from berth.runtime.status import serve_status
from berth.runtime.supervisor import Supervisor

__all__ = [
    "ActiveStandby",
    "ChangeSet",
    "Clock",
    "Command",
    "Context",
    "Event",
    "Input",
    "Manager",
    "Moment",
    "Outcome",
    "Output",
    "Periodic",
    "Port",
    "PublishedView",
    "Reconciler",
    "Replica",
    "Seconds",
    "ServiceSettings",
    "SettingsError",
    "Supervisor",
    "SystemClock",
    "Write",
    "load_settings",
    "run",
    "serve_status",
]
