"""Time as an argument.

A service asks its clock instead of importing `time`, so that a whole control plane can run on simulated time. It is the
clock of the bus: a service hands the one that it got on to everything it starts.
"""

from berth.bus import SystemClock
from berth.bus.port import Clock

__all__ = ["Clock", "SystemClock"]
