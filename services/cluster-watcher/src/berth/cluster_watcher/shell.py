"""Reflectors in, STATE out.

Only the holder of the lease lists and watches. A standby keeps nothing but its connection to the bus: taking over means
to read STATE, to list, and to write the difference. What a former holder might still write is refused by the
sequences that every write expects, and by versions that never go down.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Coroutine
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from berth.bus.port import OwnedPort
from berth.cluster_watcher import metrics
from berth.cluster_watcher.core.published_view import PublishedView
from berth.cluster_watcher.handlers import Intake
from berth.cluster_watcher.kinds import scopes
from berth.cluster_watcher.outbox import Outbox
from berth.cluster_watcher.publisher import Publisher, StateDoubtfulError
from berth.cluster_watcher.settings import Settings
from berth.cluster_watcher.source import NOT_INSTALLED, Source
from berth.contracts import buckets
from berth.contracts.base import Problem
from berth.contracts.codec import encode
from berth.contracts.question import StatusAnswer
from berth.kube import KubeApi, Outages, Reflector, WatchSettings
from berth.runtime import ActiveStandby, Context, Periodic

SERVICE: Final = "cluster-watcher"
TICK_S: Final = 1.0
ENSURE_S: Final = 30.0
"""How often a bucket that somebody deleted is noticed in a cluster where nothing happens."""
ENSURE_RETRY_S: Final = 2.0
ENSURE_TIMEOUT_S: Final = 10.0
COMPLAINTS_MAX: Final = 1024
"""Objects whose problem was logged and is not logged again."""


class Shell:
    """One replica."""

    def __init__(self, context: Context[Settings], api: KubeApi) -> None:
        self.context = context
        self.standby = ActiveStandby(context.bus, SERVICE, context.instance, ttl_s=context.settings.lease_ttl_s)
        self.term: Term | None = None
        self._api = api
        self._doubt = asyncio.Event()

    async def run(self) -> None:
        """Work whenever the lease is held, until cancelled."""
        context = self.context
        context.health.add("cluster", self._check)
        context.health.add("lease", self.standby.check)
        await context.bus.ensure()
        await context.bus.serve(SERVICE, _version(), {"status": self._status})
        # Also on a standby: without the bucket of leases nobody is active.
        keeper = asyncio.create_task(self._keep_buckets())
        try:
            await self.standby.run(self._work)
        finally:
            await _end([keeper])

    async def _work(self) -> None:
        self.context.log.info("active: publishing the state of the cluster")
        try:
            while True:
                await self._one_term()
        finally:
            self._doubt.set()

    async def _one_term(self) -> None:
        self.term = term = Term(self.context, self._api)
        try:
            await term.run()
        except StateDoubtfulError as error:
            self.context.log.warning("starting over", why=str(error))
            self._doubt.set()
        finally:
            self.term = None
            await term.close()

    async def _keep_buckets(self) -> None:
        """Make buckets again that somebody deleted: at once when STATE or the lease is in doubt, and now and then."""
        pause_s = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._doubt.wait()
            self._doubt.clear()
            try:
                async with asyncio.timeout(ENSURE_TIMEOUT_S):
                    await self.context.bus.ensure()
                pause_s = self.context.random.uniform(0.5, 1.0) * ENSURE_S
            except Exception as error:  # the bus is away, or does not allow it: what needs the bucket waits
                pause_s = ENSURE_RETRY_S
                self.context.log.debug("cannot check the buckets", error=str(error)[:300])

    def _check(self) -> tuple[bool, str]:
        """Ready once every required kind was synced; a standby is ready to take over."""
        if self.term is None:
            return True, "standby"
        missing = [f"{each.scope.name}: {each.describe()}" for each in self.term.required if not each.synced]
        return not missing, "; ".join(missing) or "synced"

    async def _status(self, question: bytes) -> bytes:
        term = self.term
        facts: dict[str, str | int | float] = {} if term is None else term.facts()
        return encode(
            StatusAnswer(
                service=SERVICE,
                instance=self.context.instance,
                active=self.standby.active,
                ready=self._check()[0],
                facts=facts,
            )
        )


class Term:
    """One time of being active, with everything that it knows."""

    def __init__(self, context: Context[Settings], api: KubeApi) -> None:
        self.sources = [Source(scope) for scope in scopes(context.settings.config_maps)]
        self.required = [source for source in self.sources if source.scope.kind.required]
        self._context = context
        self._api = api
        self._outages = Outages()
        self._published = PublishedView()
        self._outbox = Outbox(context.clock)
        self._intakes: dict[str, Intake] = {}
        self._complaints: OrderedDict[str, Problem] = OrderedDict()
        self.publisher = Publisher(
            self.sources,
            self._outbox,
            self._published,
            clock=context.clock,
            log=context.log,
            halt=self._halt,
        )
        self.owned: OwnedPort = context.bus.owned(
            buckets.STATE,
            sink=self.publisher,
            on_conflict=self.publisher.on_conflict,
            on_reset=self.publisher.on_reset,
        )

    async def run(self) -> None:
        """Follow everything until cancelled, or until a part fails."""
        await self.publisher.start(self.owned)
        parts: list[Coroutine[Any, Any, None]] = [self.publisher.run(self.owned), self._tick()]
        parts += [self._follow(source) for source in self.sources]
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await _end(tasks)

    async def close(self) -> None:
        """Stop following STATE."""
        self._halt()
        close = getattr(self.owned, "close", None)
        if close is not None:
            await close()

    def facts(self) -> dict[str, str | int | float]:
        """Figures for people."""
        facts: dict[str, str | int | float] = {}
        for source in self.sources:
            if not source.scope.only_key:
                facts[source.scope.name] = len(self._published.keys(source.scope.kind.prefix))
            facts[f"{source.scope.name} are" if not source.scope.only_key else source.scope.name] = source.describe()
            if source.malformed:
                facts[f"{source.scope.name} with problems, seen"] = source.malformed
        return facts | {
            "waiting changes": len(self._outbox),
            "conflicts": self.publisher.conflicts,
            "times STATE was lost": self.publisher.resets,
        }

    # --- lists and watches --------------------------------------------------------------------------------------------

    async def _follow(self, source: Source) -> None:
        """List and watch one scope, from the start again whenever somebody asks for it."""
        context = self._context
        while True:
            source.relist.clear()
            began = context.clock.monotonic()
            intake = Intake(source, self._outbox, self._published, clock=context.clock, complain=self._complain)
            self._intakes[source.scope.name] = intake
            reflector = Reflector(
                self._api,
                source.scope.selection,
                source.scope.kind.item,
                intake,
                clock=context.clock,
                rng=context.random,
                settings=WatchSettings(limit=context.settings.list_page),
                outages=self._outages,
            )
            await _until(reflector.run(), source.relist)
            intake.close()
            context.log.info("listing again", kind=source.scope.name, why=source.why)
            await self._rest(source, began)
            await context.clock.sleep(context.random.uniform(0.0, 0.2))

    async def _rest(self, source: Source, began: float) -> None:
        """Until the next list may begin. A list that is wanted for another reason meanwhile does not wait as long."""
        clock, shortest_s = self._context.clock, self._context.settings.relist_pause_s
        while (rest_s := began + source.relist_pause_s(shortest_s) - clock.monotonic()) > 0:
            source.relist.clear()
            await _until(clock.sleep(rest_s), source.relist)

    def _halt(self) -> None:
        for intake in self._intakes.values():
            intake.close()

    def _complain(self, kind: str, key: str, problem: Problem) -> None:
        """Log what is wrong with an object, once."""
        if self._complaints.get(key) == problem:
            self._complaints.move_to_end(key)
            return
        self._complaints[key] = problem
        if len(self._complaints) > COMPLAINTS_MAX:
            self._complaints.popitem(last=False)
        self._context.log.warning(
            "object with problems", kind=kind, object=key[:300], field=problem.field, problem=problem.message
        )

    async def _tick(self) -> None:
        reported: dict[str, str] = {}
        whole = [source for source in self.sources if not source.scope.only_key]
        plurals = [source.scope.kind.plural for source in whole]
        gauges = [(metrics.OBJECTS.labels(plural), metrics.SYNCED.labels(plural)) for plural in plurals]
        async for _ in Periodic(self._context.clock, TICK_S).ticks():
            for source, (objects, synced) in zip(whole, gauges, strict=True):
                objects.set(len(self._published.keys(source.scope.kind.prefix)))
                synced.set(source.synced and source.refusal is None)
            for source in self.sources:
                how = source.describe() if source.refusal is not None else ""
                if how and reported.get(source.scope.name) != how:
                    say = self._context.log.info if how == NOT_INSTALLED else self._context.log.warning
                    say("cannot be followed now, trying again", kind=source.scope.name, why=how)
                reported[source.scope.name] = how


async def _until(work: Coroutine[Any, Any, None], event: asyncio.Event) -> None:
    """Run `work` until the event is set; what it raises comes out here."""
    tasks = [asyncio.create_task(work), asyncio.create_task(event.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
    finally:
        await _end(tasks)


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    kube = await context.kube_patiently(context.settings.kube())
    try:
        await Shell(context, kube).run()
    finally:
        await kube.close()


def _version() -> str:
    try:
        return version(f"berth-{SERVICE}")
    except PackageNotFoundError:
        return "0.0.0"
