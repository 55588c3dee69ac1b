"""A consumer that sends by itself: in order, with flow control and heartbeats, as long as somebody listens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth.bus.client import Delivery
from berth.testing.simulation.nats.consumer import Consumer
from berth.testing.simulation.nats.message import NANO, Stored

if TYPE_CHECKING:
    from berth.testing.simulation.nats.scheduler import Timer
    from berth.testing.simulation.nats.stream import Stream
    from berth.testing.simulation.nats.subscription import Subscription

INACTIVE_S = 5.0
FLOW_FIRST_BYTES = 2 << 20
FLOW_MAX_BYTES = 32 << 20
_FLOW_REQUEST = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


class PushConsumer(Consumer):
    """See the module."""

    def __init__(self, stream: Stream, name: str, config: dict[str, Any]) -> None:
        self.subject: str = config["deliver_subject"]
        self._listeners: list[Subscription] = []
        self._is_heard = False
        self._idle_timer: Timer | None = None
        self._beat_timer: Timer | None = None
        self._beat_s: float = config.get("idle_heartbeat", 0) / NANO
        self._beat: tuple[tuple[int, int, str], Delivery] | None = None
        self._sent_at = 0.0
        self._flow: bool = bool(config.get("flow_control"))
        self._flow_limit = FLOW_FIRST_BYTES
        self._flow_bytes = 0
        self._flow_subject = ""
        self._flow_asked = 0
        super().__init__(stream, name, config)

    # --- delivering ---------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """See `Consumer.work`."""
        while self._is_heard and not self.stranded and not (self._flow and self._flow_bytes > self._flow_limit):
            stored = self.next()
            if stored is None:
                return
            self._send(stored)

    def _send(self, stored: Stored) -> None:
        reply = self.reply_for(stored)
        delivery = Delivery(stored.subject, reply, stored.data, stored.raw)
        self._sent_at = self.server.now()
        for listener in self._listeners:
            listener.push(delivery)
        if self._flow:
            self._flow_bytes += len(stored.subject) + len(reply) + len(stored.raw) + len(stored.data)
            if not self._flow_subject and self._flow_bytes > self._flow_limit / 2:
                self._flow_asked = self._flow_bytes
                self._flow_subject = f"$JS.FC.{self.stream.name}.{self.name}.{self.server.next_name()}"
                self._control(Delivery(self.subject, self._flow_subject, b"", _FLOW_REQUEST))

    def _control(self, delivery: Delivery) -> None:
        for listener in self._listeners:
            listener.push(delivery)

    def flow(self, subject: str) -> None:
        """The reader has come so far."""
        if subject == self._flow_subject:
            self._flow_subject = ""
            self._flow_bytes -= self._flow_asked
            self._flow_limit = min(self._flow_limit * 2, FLOW_MAX_BYTES)
            self.work()

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        """One timer event per interval, also for a busy consumer: it is then put off from the last delivery."""
        quiet_s = self.server.now() - self._sent_at
        if quiet_s < self._beat_s - 1e-6:
            self._beat_timer = self.server.later(self._beat_s - quiet_s, self._heartbeat)
            return
        stalled = self._flow_subject if self._flow and self._flow_bytes > self._flow_limit else ""
        state = (self.delivered, self.position, stalled)
        if self._beat is None or self._beat[0] != state:
            self._beat = (state, _beat(self.subject, *state))
        self._control(self._beat[1])
        self._beat_timer = self.server.later(self._beat_s, self._heartbeat)

    # --- whether anybody listens --------------------------------------------------------------------------------------

    def interest_changed(self) -> None:
        """See `Consumer.interest_changed`."""
        if not self.server.running:
            return
        self._listeners = self.server.listeners(self.subject)
        heard = bool(self._listeners)
        if heard:
            self._cancel_idle()
            if not self._is_heard:
                self._is_heard = True
                self._sent_at = self.server.now()
                if self._beat_s and self._beat_timer is None:
                    self._beat_timer = self.server.later(self._beat_s, self._heartbeat)
                self.work()
            return
        self._is_heard = False
        self._cancel_beat()
        if self._idle_timer is None and not self.config.get("durable_name"):
            inactive_s = self.config.get("inactive_threshold", 0) / NANO or INACTIVE_S
            self._idle_timer = self.server.later(inactive_s, self._forgotten)

    def _forgotten(self) -> None:
        self._idle_timer = None
        self.server.remove_consumer(self, "")

    def _cancel_idle(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _cancel_beat(self) -> None:
        if self._beat_timer is not None:
            self._beat_timer.cancel()
            self._beat_timer = None

    # --- life ---------------------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """See `Consumer.halt`."""
        super().halt()
        self._cancel_idle()
        self._cancel_beat()
        self._is_heard = False
        self._listeners = []

    def resume(self) -> None:
        """See `Consumer.resume`."""
        super().resume()
        self._flow_bytes, self._flow_subject, self._flow_limit = 0, "", FLOW_FIRST_BYTES
        self.interest_changed()

    def info(self) -> dict[str, Any]:
        """See `Consumer.info`."""
        return super().info() | {"push_bound": self._is_heard}


def _beat(subject: str, delivered: int, position: int, stalled: str) -> Delivery:
    """A heartbeat; its headers are read for the reader, who gets one every second."""
    lines = f"Nats-Last-Consumer: {delivered}\r\nNats-Last-Stream: {position}\r\n"
    if stalled:
        lines += f"Nats-Consumer-Stalled: {stalled}\r\n"
    delivery = Delivery(subject, "", b"", f"NATS/1.0 100 Idle Heartbeat\r\n{lines}\r\n".encode())
    _ = delivery.headers  # read once, for all the heartbeats of this state
    return delivery
