"""A plugin of the container runtime: the Node Resource Interface (NRI v1alpha1) over a unix socket.

`core` is the protocol as values. `Plugin` is the shell around it: it connects for ever and asks the caller's `Handler`.
"""

from berth.nri.core.adjusting import Adjustment, Creation, Device, Mount, Resources, Update
from berth.nri.core.fault import Fault
from berth.nri.core.methods import Event, event_mask
from berth.nri.handler import Handler, Refusal, Runtime
from berth.nri.plugin import Plugin, Pushed, Status
from berth.nri.settings import PluginSettings

__all__ = [
    "Adjustment",
    "Creation",
    "Device",
    "Event",
    "Fault",
    "Handler",
    "Mount",
    "Plugin",
    "PluginSettings",
    "Pushed",
    "Refusal",
    "Resources",
    "Runtime",
    "Status",
    "Update",
    "event_mask",
]
