"""The simulated server on the running event loop, with the surface of `berth.testing.nats_server.NatsServer`.

So one test suite runs against both.
"""

from __future__ import annotations

from berth.bus.client import ClientFactory
from berth.testing.simulation.nats.faults import Faults
from berth.testing.simulation.nats.scheduler import LoopScheduler
from berth.testing.simulation.nats.server import SimNats
from berth.testing.simulation.nats.stream import Stream

LATENCY_S = 0.0001
"""Each way: on virtual time, whoever asks again and again must see time pass."""


class LoopbackServer:
    """A server of one test's own. Make it inside the test's event loop."""

    url = "nats://simulated:4222"

    def __init__(self, *, clustered: bool = False) -> None:
        faults = Faults(up_s=lambda _: LATENCY_S, down_s=lambda _: LATENCY_S)
        self.nats = SimNats(LoopScheduler(), faults=faults, clustered=clustered)
        self.client: ClientFactory = self.nats.clients_of(None)

    @property
    def running(self) -> bool:
        """The server takes connections."""
        return self.nats.running

    def kill(self) -> None:
        """kill -9."""
        self.nats.stop()

    def start(self) -> None:
        """Start again on the same store."""
        self.nats.start()

    def restart(self) -> None:
        """Kill, then start."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """SIGSTOP."""
        self.nats.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.nats.resume()

    def save_store(self) -> dict[str, Stream]:
        """A copy of the store."""
        return self.nats.save()

    def restore_store(self, saved: dict[str, Stream]) -> None:
        """Put an older copy of the store in place; the server must be down."""
        self.nats.restore(saved)
