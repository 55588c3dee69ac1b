"""One time of being the active replica: lists and watches in, STATE out, with everything that it knows."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, Final

from berth.bus.port import OwnedPort
from berth.cluster_watcher import metrics
from berth.cluster_watcher.core.published_view import PublishedView
from berth.cluster_watcher.kinds import scopes
from berth.cluster_watcher.outbox import Outbox
from berth.cluster_watcher.publisher import Publisher
from berth.cluster_watcher.reconciler import Reconciler
from berth.cluster_watcher.settings import Settings
from berth.cluster_watcher.source import NOT_INSTALLED, Source
from berth.contracts import buckets
from berth.contracts.base import Problem
from berth.kube import KubeApi, Outages, Reflector, WatchSettings
from berth.runtime import Context, Periodic

TICK_S: Final = 1.0
REPORTED_MAX: Final = 1024
"""Objects whose problem was logged and is not logged again."""


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
        self._reconcilers: dict[str, Reconciler] = {}
        self._reported: OrderedDict[str, Problem] = OrderedDict()
        self.publisher = Publisher(
            self.sources,
            self._outbox,
            self._published,
            clock=context.clock,
            crowding=context.crowding,
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
            await end(tasks)

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
            "conflicts": self.publisher.conflicts.count,
            "times STATE was lost": self.publisher.resets,
        }

    # --- lists and watches --------------------------------------------------------------------------------------------

    async def _follow(self, source: Source) -> None:
        """List and watch one scope, from the start again whenever somebody asks for it."""
        context = self._context
        while True:
            source.relist.clear()
            began = context.clock.monotonic()
            reconciler = Reconciler(source, self._outbox, self._published, clock=context.clock, report=self._report)
            self._reconcilers[source.scope.name] = reconciler
            reflector = Reflector(
                self._api,
                source.scope.selection,
                source.scope.kind.item,
                reconciler,
                clock=context.clock,
                rng=context.random,
                settings=WatchSettings(limit=context.settings.list_page),
                outages=self._outages,
            )
            await _until(reflector.run(), source.relist)
            reconciler.close()
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
        for reconciler in self._reconcilers.values():
            reconciler.close()

    def _report(self, kind: str, key: str, problem: Problem) -> None:
        """Log what is wrong with an object, once."""
        if self._reported.get(key) == problem:
            self._reported.move_to_end(key)
            return
        self._reported[key] = problem
        if len(self._reported) > REPORTED_MAX:
            self._reported.popitem(last=False)
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
        await end(tasks)


async def end(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel them, and return once they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
