"""A consumer that is asked: requests wait for messages, for a time, and are kept company by heartbeats."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from berth.bus.client import Delivery
from berth.testing.simulation.nats.consumer import Consumer
from berth.testing.simulation.nats.message import NANO

if TYPE_CHECKING:
    from berth.testing.simulation.nats.scheduler import Timer
    from berth.testing.simulation.nats.stream import Stream

WAITING_MAX = 512


class _Query(msgspec.Struct):
    batch: int = 1
    expires: int = 0
    no_wait: bool = False
    idle_heartbeat: int = 0


class _Request:
    __slots__ = ("beat_s", "beat_timer", "end_timer", "last", "left", "reply")

    def __init__(self, reply: str, left: int, beat_s: float, now: float) -> None:
        self.reply = reply
        self.left = left
        self.beat_s = beat_s
        self.last = now
        self.end_timer: Timer | None = None
        self.beat_timer: Timer | None = None


class PullConsumer(Consumer):
    """See the module."""

    def __init__(self, stream: Stream, name: str, config: dict[str, Any]) -> None:
        self._requests: deque[_Request] = deque()
        super().__init__(stream, name, config)

    def request(self, reply: str, body: bytes) -> None:
        """Somebody asks for messages."""
        query = _query(body)
        beat_s = query.idle_heartbeat / NANO
        if beat_s and beat_s * 2 > query.expires / NANO:
            self._status(reply, b"400 Bad Request - heartbeat value too large")
            return
        if len(self._requests) >= self.config.get("max_waiting", WAITING_MAX):
            self._drop_deaf()
        if len(self._requests) >= self.config.get("max_waiting", WAITING_MAX):
            self._status(reply, b"409 Exceeded MaxWaiting")
            return
        request = _Request(reply, max(1, query.batch), beat_s, self.server.now())
        self._requests.append(request)
        self.work()
        if not request.left:
            return
        if query.no_wait:
            self._forget(request)
            self._status(reply, b"404 No Messages")
            return
        if query.expires:
            request.end_timer = self.server.later(query.expires / NANO, self._expired, request)
        if beat_s:
            request.beat_timer = self.server.later(beat_s, self._heartbeat, request)

    def work(self) -> None:
        """See `Consumer.work`."""
        while self._requests and not self.stranded:
            request = self._requests[0]
            listeners = self.server.listeners(request.reply)
            if not listeners:
                self._forget(request)
                continue
            stored = self.next()
            if stored is None:
                return
            delivery = Delivery(stored.subject, self.reply_for(stored), stored.data, stored.raw)
            for listener in listeners:
                listener.push(delivery)
            request.last = self.server.now()
            request.left -= 1
            if request.left == 0:
                self._forget(request)

    def _heartbeat(self, request: _Request) -> None:
        quiet_s = self.server.now() - request.last
        if quiet_s >= request.beat_s - 1e-6:
            lines = b"\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d" % (self.delivered, self.position)
            self._status(request.reply, b"100 Idle Heartbeat" + lines)
            quiet_s = 0.0
        request.beat_timer = self.server.later(request.beat_s - quiet_s, self._heartbeat, request)

    def _expired(self, request: _Request) -> None:
        self._forget(request)
        self._status(request.reply, b"408 Request Timeout" + _left(request))

    def _status(self, reply: str, text: bytes) -> None:
        self.server.send(reply, b"", b"NATS/1.0 " + text + b"\r\n\r\n")

    def _forget(self, request: _Request) -> None:
        for timer in (request.end_timer, request.beat_timer):
            if timer is not None:
                timer.cancel()
        if request in self._requests:
            self._requests.remove(request)

    def _drop_deaf(self) -> None:
        for request in [each for each in self._requests if not self.server.listeners(each.reply)]:
            self._forget(request)

    # --- life ---------------------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """See `Consumer.halt`."""
        super().halt()
        for request in list(self._requests):
            self._forget(request)

    def end(self, reason: str) -> None:
        """See `Consumer.end`."""
        if reason:
            for request in self._requests:
                self._status(request.reply, b"409 " + reason.encode())
        super().end(reason)

    def info(self) -> dict[str, Any]:
        """See `Consumer.info`."""
        return super().info() | {"num_waiting": len(self._requests)}


def _query(body: bytes) -> _Query:
    """A request; anything odd asks for one message, as a server takes it."""
    if not body:
        return _Query()
    if body.isdigit():
        return _Query(batch=int(body))
    try:
        return msgspec.json.decode(body, type=_Query)
    except msgspec.MsgspecError:
        return _Query()


def _left(request: _Request) -> bytes:
    return b"\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: 0" % request.left
