"""A NATS server with JetStream in memory, on somebody else's time, with faults on demand."""

from berth.testing.simulation.nats.client import SimClient
from berth.testing.simulation.nats.faults import Faults
from berth.testing.simulation.nats.scheduler import LoopScheduler, Scheduler, Timer, WorldScheduler
from berth.testing.simulation.nats.server import SimNats
from berth.testing.simulation.nats.subscription import Subscription

__all__ = [
    "Faults",
    "LoopScheduler",
    "Scheduler",
    "SimClient",
    "SimNats",
    "Subscription",
    "Timer",
    "WorldScheduler",
]
