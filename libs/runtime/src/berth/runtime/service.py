"""The loops that services share, around a reconciler that decides.

`Replica` reads buckets, holds the lease and answers for itself; `Manager` also takes the names that changed, asks its
reconciler about each and carries out what it answers. Every replica reads everything all the time; only the holder of
the lease works. What a former holder might still write is refused by the sequences that every write expects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from berth.bus.port import PublisherPort, Sink
from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.runtime.changes import ChangeSet
from berth.runtime.context import Context
from berth.runtime.outcome import Command, Event, Moment, Outcome, Reconciler, Write
from berth.runtime.periodic import Periodic
from berth.runtime.published import OwnView
from berth.runtime.standby import ActiveStandby
from berth.runtime.status import serve_status
from berth.telemetry.metrics import Counter, Histogram

if TYPE_CHECKING:
    from berth.bus.port import FollowerPort, OwnedPort

BATCH_MAX: Final = 500
_TEXT_MAX: Final = 500
"""Characters of an id, and of a key in the log."""

S = TypeVar("S")
R = TypeVar("R", bound=Reconciler)


class Input(NamedTuple):
    """A bucket that is followed, from its start and for ever."""

    bucket: str
    view: Sink
    keys: str | Sequence[str] = ">"


class Output(NamedTuple):
    """The bucket that the service owns, its view of it, and what counts its changes: as `written` or `deleted`."""

    bucket: str
    view: OwnView
    counter: Counter
    written: str
    deleted: str


class Replica(ABC, Generic[S]):
    """One replica of a service with a lease."""

    def __init__(self, service: str, context: Context[S], *, inputs: Sequence[Input], lease_ttl_s: int) -> None:
        self.service = service
        self.context = context
        self.inputs = inputs
        self.standby = ActiveStandby(context.bus, service, context.instance, ttl_s=lease_ttl_s)
        self.followers: dict[str, FollowerPort] = {}
        """Of the inputs, by bucket, once it runs."""

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """The views show enough to decide."""

    @property
    @abstractmethod
    def missing(self) -> str:
        """What the views still lack, for people."""

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, str | int | float]:
        """What the question for the status is answered with."""

    @abstractmethod
    async def work(self) -> None:
        """Work for as long as this replica is the active one; cancelled when it no longer is."""

    async def run(self) -> None:
        """Start everything and work until cancelled."""
        context = self.context
        health = context.health
        health.add(_short(self.inputs[0].bucket), lambda: (self.is_ready, self.missing))
        health.add("lease", self.standby.check)
        for each in self.inputs:
            follower = self.followers[each.bucket] = context.bus.follow(each.bucket, each.view, keys=each.keys)
            context.spawn(follower.run(), name=f"follow-{_short(each.bucket)}")
        await serve_status(
            context,
            lambda: self.facts,
            active=lambda: self.standby.active,
            ready=lambda: self.is_ready,
            others=self.questions,
        )
        await self.prepare()
        try:
            await self.standby.run(self.work)
        finally:
            await self.finish()

    @property
    def questions(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What it answers beside the question for its status, by the last word of the subject."""
        return {}

    async def prepare(self) -> None:
        """Return when this replica may try for the lease."""

    async def finish(self) -> None:
        """Return when what was begun is done."""

    def announce(self, event: Event) -> None:
        """Send an event, and write its line to the log. Better one lost than the service held up."""
        if event.level:
            getattr(self.context.log, event.level)(event.text, **event.fields)
        self.context.bus.events().offer(
            event.subject, encode(event.message), id=event.id[:_TEXT_MAX], type=_type(event)
        )

    async def send(self, command: Command) -> bool:
        """Send a command; False: dropped, since there was no place for one that may be."""
        commands: PublisherPort = self.context.bus.commands()
        payload, identity = encode(command.message), command.id[:_TEXT_MAX]
        if command.may_drop:
            return commands.offer(command.subject, payload, id=identity, type=_type(command))
        await commands.publish(command.subject, payload, id=identity, type=_type(command))
        return True

    def moment(self) -> Moment:
        """The time now."""
        return Moment(self.context.clock.now(), self.context.clock.monotonic())


class Manager(Replica[S], Generic[S, R]):
    """A replica that keeps a bucket of its own in line with what it reads.

    A subclass makes its views, which mark what changed in `changed`, and its reconciler, and calls `wire` with them.
    """

    reconciler: R
    output: Output
    owned: OwnedPort

    def __init__(self, service: str, context: Context[S], *, lease_ttl_s: int) -> None:
        super().__init__(service, context, inputs=(), lease_ttl_s=lease_ttl_s)
        self.changed: ChangeSet[str] = ChangeSet(context.clock)

    def wire(
        self,
        reconciler: R,
        *,
        inputs: Sequence[Input],
        output: Output,
        commands: Counter,
        window_s: float,
        deciding: Histogram | None = None,
        tick_s: float | None = None,
        rest: float = 0.0,
    ) -> None:
        """Connect views, reconciler and bus.

        Args:
            reconciler: decides.
            inputs: what is followed.
            output: what is published.
            commands: counts the commands that were sent.
            window_s: how long changes are gathered before they are decided on.
            deciding: observes the seconds that the decisions of a batch take.
            tick_s: how often time alone is a reason to look; None: never.
            rest: batches are spaced by at least so many times their length.
        """
        self.reconciler, self.inputs, self.output = reconciler, inputs, output
        self._commands, self._deciding = commands, deciding
        self._window_s, self._tick_s, self._rest = window_s, tick_s, rest
        self.owned = self.context.bus.owned(
            output.bucket, sink=output.view, on_conflict=self._on_conflict, on_reset=self.on_reset
        )

    @property
    def is_ready(self) -> bool:
        """See `Replica`."""
        return self.reconciler.is_ready

    @property
    def missing(self) -> str:
        """See `Replica`."""
        return self.reconciler.missing

    @property
    def facts(self) -> Mapping[str, str | int | float]:
        """See `Replica`."""
        return self.reconciler.facts

    def measure(self) -> None:
        """Set the gauges; called after each batch and at each tick."""

    def mark_all(self) -> None:
        """Every name has changed."""
        self.changed.mark_all(self.reconciler.names())

    def on_reset(self) -> None:
        """The bucket began anew, and was read to its end."""
        self.mark_all()

    async def prepare(self) -> None:
        """Return when the bucket was read to its end."""
        if self._tick_s is not None:
            self.context.spawn(self._tick(self._tick_s), name="tick")
        await self.owned.ready()

    async def finish(self) -> None:
        """Return when every write has its outcome."""
        await self.owned.drain()

    async def work(self) -> None:
        """See `Replica`."""
        self.context.log.info("active: publishing", bucket=self.output.bucket)
        self.reconciler.begin()
        self.mark_all()
        async for names in self.changed.batches(self._window_s, BATCH_MAX):
            # Before the views are complete nothing is decided; that they are marks every name.
            if not self.reconciler.is_ready:
                continue
            began = self.context.clock.monotonic()
            await self._batch(names)
            busy_s = self.context.clock.monotonic() - began
            self.measure()
            await self.owned.wait_while_full()
            if self._rest * busy_s > self._window_s:
                await self.context.clock.sleep(self._rest * busy_s - self._window_s)

    async def _batch(self, names: list[str]) -> None:
        """Decide about each name and carry it out.

        No write waits for a command, except those that are the record of one. What an interruption leaves undone does
        not pass for written, so that it is decided again.
        """
        deciding_s = 0.0
        commands: list[tuple[str, Command]] = []
        for name in names:
            if not self.reconciler.is_ready:
                break  # a bucket began anew while a command waited for its place
            at = self.moment()
            outcome = self.reconciler.reconcile(name, at)
            deciding_s += self.context.clock.monotonic() - at.monotonic
            for event in outcome.events:
                self.announce(event)
            if outcome.commands_first:
                await self._record(name, outcome)
            else:
                self._publish(outcome.writes)
                commands += [(name, command) for command in outcome.commands]
        if self._deciding is not None:
            self._deciding.observe(deciding_s)
        for name, command in commands:
            await self._command(name, command)

    async def _record(self, name: str, outcome: Outcome) -> None:
        """Send the commands, then write that they were sent."""
        shown = [self.output.view.get(write.key) for write in outcome.writes]
        for command in outcome.commands:
            if not await self._command(name, command):
                return
        if shown == [self.output.view.get(write.key) for write in outcome.writes]:
            self._publish(outcome.writes)  # else the bucket showed something else meanwhile, and the name is marked

    async def _command(self, name: str, command: Command) -> bool:
        try:
            sent = await self.send(command)
        except (InvalidMessage, ValueError) as error:  # a name or a message too large for the bus
            self.context.log.error("command cannot be sent", name=name[:_TEXT_MAX], error=str(error))
            return False
        if sent:
            self._commands.inc()
        return sent

    def _publish(self, writes: Sequence[Write]) -> None:
        for write in writes:
            self.output.view.wrote(write.key, write.message)
            try:
                if write.message is None:
                    changes = self.owned.delete(write.key)
                else:
                    changes = self.owned.put(write.key, encode(write.message))
            except (InvalidMessage, ValueError) as error:  # a name or a message too large for the bus
                self.context.log.error("message cannot be published", key=write.key[:_TEXT_MAX], error=str(error))
                continue
            if changes:  # else the bucket's echo of an earlier write made it look different for a moment
                self.output.counter.labels(self.output.deleted if write.message is None else self.output.written).inc()
                for event in write.events:
                    self.announce(event)

    def _on_conflict(self, key: str) -> None:
        """A write was refused: another replica wrote this key."""
        name = self.output.view.name_of(key)
        if name is None:
            self.mark_all()
        else:
            self.changed.mark(name)

    async def _tick(self, tick_s: float) -> None:
        async for _ in Periodic(self.context.clock, tick_s).ticks():
            self.changed.mark_all(self.reconciler.due(self.moment()))
            self.measure()


def _short(bucket: str) -> str:
    return bucket.removeprefix("berth_")


def _type(sent: Command | Event) -> str:
    return str(sent.message.__struct_config__.tag)
