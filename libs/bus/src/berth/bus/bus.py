"""The bus on NATS: one object that a service is given, with everything it may do."""

from __future__ import annotations

import asyncio
import random as randomness
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from berth.bus import past, questions
from berth.bus.client import ClientFactory, direct_client
from berth.bus.clock import SystemClock
from berth.bus.consumer import BACKOFF_S, Consumer
from berth.bus.ensure import check_version, ensure
from berth.bus.follower import Follower
from berth.bus.key_follower import KeyFollower
from berth.bus.keys import are_exact
from berth.bus.lease import BusLease
from berth.bus.ledger import Ledger
from berth.bus.link import Link
from berth.bus.listener import Listener
from berth.bus.logins import Issuer, Logins
from berth.bus.owned import OwnedBucket
from berth.bus.pattern_follower import PatternFollower
from berth.bus.port import Authenticator, BusPort, Clock, Endpoint, Handler, Message, Sink
from berth.bus.publisher import Publisher
from berth.bus.settings import BusSettings
from berth.bus.topology import TOPOLOGY
from berth.contracts import buckets


class Bus(BusPort):
    """See `berth.bus.port.BusPort`. Made by `connect`."""

    def __init__(self, link: Link, settings: BusSettings, *, clock: Clock, random: randomness.Random) -> None:
        self._link = link
        self._settings = settings
        self._clock = clock
        self._random = random
        self._owned: dict[OwnedBucket, None] = {}
        self._publishers: dict[str, Publisher] = {}
        self._ledger = Ledger(link, buckets.LEDGER)
        self._services: list[questions.Service] = []
        self._logins: list[Logins] = []

    @classmethod
    async def connect(
        cls,
        settings: BusSettings,
        *,
        service: str,
        clock: Clock | None = None,
        random: randomness.Random | None = None,
        client: ClientFactory = direct_client,
    ) -> Bus:
        """Connect, waiting for the server as long as it takes. Raises ServerTooOld.

        `service` names the connection and its inbox, `_INBOX_<service>.>`. Every connection is a client made by
        `client`; names that must be unique come from `random`.
        """
        clock = clock or SystemClock()
        random = random or randomness.Random()
        link = Link(settings, service=service, clock=clock, random=random, client=client)
        await link.start()
        try:
            await check_version(link)
        except BaseException:
            await link.close()
            raise
        return cls(link, settings, clock=clock, random=random)

    async def close(self) -> None:
        """End every task and the connection; what waits for an acknowledgement may be stored or not."""
        for service in self._services:
            await service.stop()
        for logins in self._logins:
            await logins.stop()
        for owned in list(self._owned):
            await owned.close()
        for publisher in self._publishers.values():
            await publisher.close()
        await self._link.close()

    @property
    def connected(self) -> asyncio.Event:
        """Set while there is a connection; to wait for one, or for a health check."""
        return self._link.connected

    async def ensure(self) -> None:
        """Make streams and buckets what the topology says.

        Idempotent, also while other services do the same. Raises ServerTooOld, TopologyError, Denied.
        """
        await ensure(self._link, TOPOLOGY, self._settings.replicas)

    def follow(self, bucket: str, sink: Sink, *, keys: str | Sequence[str] = ">") -> Follower | KeyFollower:
        """A follower of a bucket; run its `run()` as a task.

        `keys` narrows it by subject patterns; who must know when the view is complete reads all (`>`), or every
        entry shows a gap. Where they are all keys and no pattern, they are read by name, every second.
        """
        names = [keys] if isinstance(keys, str) else list(keys)
        if are_exact(names):
            return KeyFollower(self._link, bucket, sink, keys=names, clock=self._clock, random=self._random)
        return Follower(self._link, bucket, sink, keys=keys, clock=self._clock, random=self._random)

    def follow_by_asking(self, bucket: str, sink: Sink, *, pattern: str) -> PatternFollower:
        """A follower of the keys of a pattern that makes no consumer: the leader is asked for news every second.

        For users that may only read messages, and patterns of few keys: each is read by itself.
        """
        return PatternFollower(self._link, bucket, sink, pattern=pattern, clock=self._clock, random=self._random)

    def owned(
        self,
        bucket: str,
        *,
        on_conflict: Callable[[str], None] | None = None,
        on_reset: Callable[[], None] | None = None,
        sink: Sink | None = None,
        keys: str = ">",
    ) -> OwnedBucket:
        """The sole writer's side of a bucket; it follows the bucket itself, and shows `sink` what it reads.

        Where many share a bucket (`berth_metrics`), `keys` is the subject pattern of those this writer owns.
        """
        owned = OwnedBucket(
            self._link,
            bucket,
            clock=self._clock,
            random=self._random,
            on_conflict=on_conflict,
            on_reset=on_reset,
            on_close=self._forget,
            sink=sink,
            keys=keys,
        )
        self._owned[owned] = None
        return owned

    def _forget(self, owned: OwnedBucket) -> None:
        self._owned.pop(owned, None)

    def ledger(self) -> Ledger:
        """Atomic batches and leader reads of the ledger."""
        return self._ledger

    def events(self) -> Publisher:
        """Publisher into BERTH_EVT, the same for every call."""
        return self._publisher(buckets.EVENTS)

    async def last_event(self, subject: str) -> Message | None:
        """The newest event of a subject that BERTH_EVT still keeps; None: there is none. Raises BusError."""
        return await past.last(self._link, subject)

    def past_events(self, pattern: str, sequence: int = 0) -> AsyncIterator[Message]:
        """The events of a pattern that BERTH_EVT still keeps, behind a sequence, in order; a question for each."""
        return past.following(self._link, pattern, sequence)

    def commands(self) -> Publisher:
        """Publisher into BERTH_CMD, the same for every call."""
        return self._publisher(buckets.COMMANDS)

    def _publisher(self, stream: str) -> Publisher:
        if stream not in self._publishers:
            self._publishers[stream] = Publisher(
                self._link, stream, clock=self._clock, batches=stream == buckets.EVENTS
            )
        return self._publishers[stream]

    def consume(
        self,
        durable: str,
        handler: Handler,
        *,
        subjects: str,
        stream: str = buckets.COMMANDS,
        concurrency: int = 1,
        ack_wait_s: float = 30.0,
        backoff_s: Sequence[float] = BACKOFF_S,
        max_deliver: int = 8,
    ) -> Consumer:
        """A durable consumer; run its `run()` as a task.

        `concurrency` handlers run at once (1 keeps the order). A handler that fails is tried again after
        `backoff_s[deliveries - 1]` seconds (the last one again and again), `max_deliver` times in all; then, or at
        once when it raises InvalidMessage, the message goes to BERTH_DEAD.
        """
        return Consumer(
            self._link,
            stream,
            durable,
            handler,
            subjects=subjects,
            concurrency=concurrency,
            ack_wait_s=ack_wait_s,
            backoff_s=backoff_s,
            max_deliver=max_deliver,
            clock=self._clock,
        )

    async def serve(self, service: str, version: str, endpoints: Mapping[str, Endpoint]) -> None:
        """Answer `berth.v1.svc.<service>.<verb>` (one instance answers) and the same with `.all` (each one does).

        A NATS micro service: `nats micro ls` shows it. `InvalidMessage` and ValueError of a handler become an error 400
        with their text, anything else an error 500 without.
        """
        self._services.append(await questions.serve(self._link, service, version, endpoints))

    async def authenticate(self, authenticator: Authenticator, seed: bytes) -> None:
        """Answer the logins that the server leaves to this user, signed with the seed of the issuer that it names.

        Raises ValueError for what is not the seed of an account. See `berth.bus.logins`.
        """
        logins = Logins(self._link, Issuer(seed), authenticator, self._clock)
        self._logins.append(logins)
        await logins.start()
        await self._link.flush()

    async def ask(self, subject: str, payload: bytes, *, timeout_s: float = 2.0) -> bytes:
        """One answer. Raises NoAnswer, TimedOut, RemoteError, Denied, Disconnected."""
        return await questions.ask(self._link, subject, payload, timeout_s=timeout_s)

    async def ask_all(self, subject: str, payload: bytes, *, wait_s: float = 0.5) -> list[bytes]:
        """The good answers of all instances that answer within `wait_s`; empty when nobody listens."""
        return await questions.ask_all(self._link, subject, payload, wait_s=wait_s)

    def lease(
        self,
        name: str,
        holder: str,
        *,
        ttl_s: int = 6,
        on_change: Callable[[bool], None] | None = None,
        note: str = "",
    ) -> BusLease:
        """A lease in `berth_lease`; run its `run()` as a task. `holder` is a text for people, `note` goes beside it."""
        return BusLease(
            self._link,
            buckets.LEASE,
            name,
            holder,
            ttl_s=ttl_s,
            on_change=on_change,
            note=note,
            clock=self._clock,
            random=self._random,
        )

    async def subscribe(self, subject: str, callback: Handler) -> Listener:
        """Messages as they are published; nothing is stored, what comes while disconnected is missed."""
        listener = await Listener.start(self._link, subject, callback)
        await self._link.flush()
        return listener
