"""A NATS server with JetStream in memory: one synchronous state machine, driven by a scheduler and by its clients.

It holds what berth.bus needs, and answers as nats-server 2.15 with one replica and file storage does; a setting that it
does not know is a NotImplementedError, not a silent difference. Everything that goes wrong is done from outside: by
`faults`, by breaking connections, by `stop`, `lose_tail`, `lose_stream`, `empty` and `start`, and by `lead_anew`.
"""

from __future__ import annotations

import random as randomness
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from berth.bus.client import Delivery
from berth.bus.settings import BusSettings
from berth.testing.simulation.nats.api import Api
from berth.testing.simulation.nats.client import PING_DEADLINE_S, SimClient
from berth.testing.simulation.nats.consumer import Consumer
from berth.testing.simulation.nats.faults import Faults
from berth.testing.simulation.nats.message import NANO, Publish
from berth.testing.simulation.nats.push import PushConsumer
from berth.testing.simulation.nats.rights import Rights
from berth.testing.simulation.nats.scheduler import Scheduler
from berth.testing.simulation.nats.stream import Stream
from berth.testing.simulation.nats.subjects import SubjectIndex
from berth.testing.simulation.nats.subscription import Subscription

EPOCH_S = 1_750_000_000.0
MAX_PAYLOAD = 1 << 20


class SimNats:
    """The server.

    Args:
        scheduler: time and timers.
        random: chooses among the members of a queue group.
        faults: what goes wrong on the way; may be changed at any time.
        epoch_s: Unix time of the server when the scheduler's time is 0.
        clustered: answers as one of three servers, each stream with a leader among them.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        random: randomness.Random | None = None,
        faults: Faults | None = None,
        epoch_s: float = EPOCH_S,
        clustered: bool = False,
    ) -> None:
        self.scheduler = scheduler
        self.now = scheduler.now
        self.later = scheduler.later
        self.faults = faults or Faults()
        self.clustered = clustered
        self.max_payload = MAX_PAYLOAD
        self.version = (2, 15, 1)
        self.running = True
        self.paused = False
        self.streams: dict[str, Stream] = {}
        self.routes: SubjectIndex[Stream] = SubjectIndex()
        self.clients: dict[SimClient, None] = {}
        self._random = random or randomness.Random(0)
        self._epoch_s = epoch_s
        self._starts = 1
        self._names = 0
        self._last_time = 0
        self._interest: SubjectIndex[Subscription] = SubjectIndex()
        self._push: dict[str, dict[PushConsumer, None]] = {}
        self._refused: dict[int, tuple[Any, float]] = {}
        self._api = Api(self)

    # --- time and names -----------------------------------------------------------------------------------------------

    def unix_ns(self) -> int:
        """The server's clock, in nanoseconds."""
        return int((self._epoch_s + self.scheduler.now()) * NANO)

    def next_time(self) -> int:
        """The server's clock, never twice the same."""
        self._last_time = max(self._last_time + 1, self.unix_ns())
        return self._last_time

    @staticmethod
    def timestamp(time_ns: int) -> str:
        """As the API writes it."""
        seconds, rest = divmod(time_ns, NANO)
        return f"{_second(seconds)}.{rest:09d}Z"

    def next_name(self) -> str:
        """A name that no other thing has."""
        self._names += 1
        return f"sim{self._names:08d}"

    @property
    def server_id(self) -> str:
        """Another one after each start."""
        return f"SIM{self._starts:05d}"

    # --- connections --------------------------------------------------------------------------------------------------

    def clients_of(self, owner: Any = None, rights: Rights | None = None) -> Callable[[BusSettings], SimClient]:
        """The client factory for a process: give it to `Bus.connect`. `rights`: of its user; None: it may do all."""
        return lambda _: SimClient(self, owner, rights)

    def accept(self, client: SimClient) -> None:
        """A client wants to connect."""
        refused = self._is_refused(client.owner)
        if refused is None or self.paused:
            return  # nobody answers at all
        taken = self.running and not refused
        if taken:
            client.accepted = True
            self.clients[client] = None
        self.scheduler.deliver(client, 0.0, client.answer_connect, self.server_id if taken else "")

    def forget(self, client: SimClient) -> None:
        """The server's side of a connection ends."""
        client.accepted = False
        client.discard()
        if self.clients.pop(client, self) is None:
            for subscription in list(client.routed.values()):
                self.unsubscribed(subscription)

    def connections(self, owner: Any) -> list[SimClient]:
        """What a process has connected."""
        return [client for client in self.clients if client.owner is owner]

    def sever(self, owner: Any, arriving: int = 0) -> None:
        """The process is dead: of what is on its way up the first `arriving` messages still come, then nothing does."""
        for client in self.connections(owner):
            client.arrive(arriving)
            self.forget(client)

    def cut(self, owner: Any, arriving: int = 0) -> None:
        """The connections of a process break, and both sides notice."""
        for client in self.connections(owner):
            self._cut(client, arriving)

    def _cut(self, client: SimClient, arriving: int = 0) -> None:
        client.arrive(arriving)
        self.forget(client)
        self.scheduler.deliver(client, 0.0, client.lost, "connection reset by peer")

    def stall(self, owner: Any, seconds: float) -> None:
        """Nothing gets through in either direction for a while; then all of it does.

        A client that misses the answers to its pings gives its connection up, and what it had sent arrives late.
        """
        for client in self.connections(owner):
            if client.held:
                continue
            client.hold()
            self.later(seconds, self._stalled, client)
            if seconds > PING_DEADLINE_S:
                self.scheduler.deliver(client, PING_DEADLINE_S, client.lost, "ping timeout")

    def _stalled(self, client: SimClient) -> None:
        client.let_go()
        if client.is_closed:
            self.later(0.0, self.forget, client)

    def refuse(self, owner: Any, seconds: float, *, silent: bool = False) -> None:
        """Take no connection of this process for a while; `silent`: it hears nothing at all."""
        until = self.now() + seconds
        self._refused[id(owner)] = (owner, until if silent else -until)

    def _is_refused(self, owner: Any) -> bool | None:
        """None: without an answer."""
        until = self._refused.get(id(owner), (None, 0.0))[1]
        if abs(until) <= self.now():
            return False
        return None if until > 0 else True

    def partition(self, owner: Any, seconds: float) -> None:
        """Cut a process off, without a word: its connections stall and it gets no new ones."""
        self.stall(owner, seconds)
        self.refuse(owner, seconds, silent=True)

    # --- subjects -----------------------------------------------------------------------------------------------------

    def subscribed(self, subscription: Subscription) -> None:
        """A client listens, if it may."""
        client = subscription.client
        if client.rights is not None and not client.rights.may_subscribe(subscription.subject):
            self.scheduler.deliver(client, 0.0, client.deny, "subscription", subscription.subject)
            return
        subscription.client.routed[subscription._id] = subscription
        self._interest.add(subscription.subject, subscription)
        self._tell_push(subscription.subject)

    def unsubscribed(self, subscription: Subscription) -> None:
        """A client listens no longer."""
        if subscription.client.routed.pop(subscription._id, None) is not None:
            self._interest.remove(subscription.subject, subscription)
            self._tell_push(subscription.subject)

    def listeners(self, subject: str) -> list[Subscription]:
        """Who gets a message on this subject: everybody, and one of each queue group."""
        found = self._interest.match(subject)
        for each in found:
            if each.queue:
                break
        else:
            return found
        groups: dict[str, list[Subscription]] = {}
        for each in found:
            if each.queue:
                groups.setdefault(each.queue, []).append(each)
        return [each for each in found if not each.queue] + [self._random.choice(group) for group in groups.values()]

    def pong(self, client: SimClient, waiting: Any) -> None:
        """All before this has arrived."""
        self.scheduler.deliver(client, 0.0, _resolve, waiting)

    def receive(self, publish: Publish) -> None:
        """A message from a client."""
        if len(publish.raw) + len(publish.data) > self.max_payload:
            if publish.client is not None:
                self._cut(publish.client)
            return
        subject, client = publish.subject, publish.client
        if client is not None and client.rights is not None and not client.rights.may_publish(subject):
            self.scheduler.deliver(client, 0.0, client.deny, "publish", subject)
            return
        listeners = self.listeners(subject)
        if listeners:
            delivery = Delivery(subject, publish.reply, publish.data, publish.raw)
            for listener in listeners:
                listener.push(delivery)
        streams = self.routes.match(subject)
        for stream in streams:
            stream.receive(publish)
        if subject.startswith("$JS.") and self._api.receive(publish):
            return
        if not listeners and not streams and publish.reply and publish.client is not None:
            raw = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject.encode()
            for listener in self._interest.match(publish.reply):
                if listener.client is publish.client:
                    listener.push(Delivery(publish.reply, "", b"", raw))

    def send(self, subject: str, data: bytes, raw: bytes = b"") -> None:
        """A message from the server itself."""
        listeners = self.listeners(subject)
        if listeners:
            delivery = Delivery(subject, "", data, raw)
            for listener in listeners:
                listener.push(delivery)

    # --- streams and consumers ----------------------------------------------------------------------------------------

    def add_stream(self, stream: Stream) -> None:
        """A stream that takes messages from now on."""
        self.streams[stream.name] = stream
        for subject in stream.config["subjects"]:
            self.routes.add(subject, stream)
        for consumer in stream.consumers.values():
            self.add_consumer(consumer)

    def remove_stream(self, stream: Stream, reason: str = "Consumer Deleted") -> None:
        """Delete a stream with its consumers."""
        for consumer in list(stream.consumers.values()):
            self.remove_consumer(consumer, reason)
        stream.halt()
        for subject in stream.config["subjects"]:
            self.routes.remove(subject, stream)
        self.streams.pop(stream.name, None)

    def add_consumer(self, consumer: Consumer) -> None:
        """A consumer that delivers from now on."""
        consumer.stream.consumers[consumer.name] = consumer
        if isinstance(consumer, PushConsumer):
            self._push.setdefault(consumer.subject, {})[consumer] = None
            consumer.interest_changed()

    def remove_consumer(self, consumer: Consumer, reason: str = "Consumer Deleted") -> None:
        """Delete a consumer."""
        consumer.stream.consumers.pop(consumer.name, None)
        if isinstance(consumer, PushConsumer):
            there = self._push.get(consumer.subject, {})
            there.pop(consumer, None)
            if not there:
                self._push.pop(consumer.subject, None)
        consumer.end(reason)
        consumer.halt()

    def _tell_push(self, pattern: str) -> None:
        if "*" in pattern or ">" in pattern:
            concerned = [each for group in self._push.values() for each in group]
        else:
            concerned = list(self._push.get(pattern, ()))
        for consumer in concerned:
            consumer.interest_changed()

    # --- life of the server -------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """kill -9 of the server: connections break; what is stored stays, what is in memory only does not."""
        if not self.running:
            return
        self.running = False
        for stream in self.streams.values():
            stream.halt()
        for client in list(self.clients):
            self._cut(client)
        for stream in self.streams.values():
            for consumer in [each for each in stream.consumers.values() if each.in_memory]:
                self.remove_consumer(consumer, "")

    def start(self) -> None:
        """Another server process on the same store."""
        self.paused = False
        if self.running:
            return
        self.running = True
        self._starts += 1
        for stream in self.streams.values():
            stream.resume()

    def pause(self) -> None:
        """SIGSTOP of the server: connections stay open, nothing answers."""
        self.paused = True
        for client in self.clients:
            client.hold()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self.paused = False
        for client in self.clients:
            client.let_go()

    def restart(self, downtime_s: float, damage: Callable[[SimNats], None] | None = None) -> None:
        """Stop, do `damage` to the store, and start again after a while."""
        self.stop()
        if damage is not None:
            damage(self)
        self.later(downtime_s, self.start)

    def lose_tail(self, name: str, count: int) -> None:
        """The newest messages of a stream are not there any more; the server must be down."""
        self._must_be_down()
        stream = self.streams.get(name)
        if stream is not None:
            stream.lose_tail(count)

    def lose_stream(self, name: str) -> None:
        """A stream and its consumers are not there any more; the server must be down."""
        self._must_be_down()
        stream = self.streams.get(name)
        if stream is not None:
            self.remove_stream(stream, "")

    def remake(self, name: str) -> None:
        """Somebody deletes a stream while everything runs, and makes it again: no connection notices."""
        stream = self.streams.get(name)
        if stream is not None and self.running:
            self.remove_stream(stream)
            self.add_stream(Stream(self, stream.config))

    def lead_anew(self, name: str, count: int = 0, *, stranded: bool = True) -> None:
        """Another server comes to lead a stream, with an older store: its newest messages are not there any more.

        No connection notices. Where something was lost, the server of a consumer does not find back to the others
        (`stranded`, as real ones): it delivers nothing more, its heartbeats come. Or the consumer stays where it was,
        and is silent until the sequences that it has delivered were used again.
        """
        if not self.clustered:
            raise RuntimeError("only a server of a cluster hands its streams on")
        stream = self.streams.get(name)
        if stream is not None and self.running:
            stream.lead_anew(count, stranded=stranded and count > 0)

    def empty(self) -> None:
        """Nothing is stored any more; the server must be down."""
        self._must_be_down()
        for name in list(self.streams):
            self.lose_stream(name)

    def save(self) -> dict[str, Stream]:
        """A copy of the store, for `restore`."""
        return {name: stream.copy() for name, stream in self.streams.items()}

    def restore(self, saved: dict[str, Stream]) -> None:
        """Put a copy of the store in place; the server must be down."""
        self.empty()
        for stream in saved.values():
            self.add_stream(stream.copy())

    def _must_be_down(self) -> None:
        if self.running:
            raise RuntimeError("the store of a running server is its own: stop it first")


def _resolve(waiting: Any) -> None:
    if not waiting.done():
        waiting.set_result(None)


@lru_cache(256)  # of the same few seconds it is asked again and again: when a stream was made, and now
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
