"""Reflectors in, STATE out.

Only the holder of the lease lists and watches. A standby keeps nothing but its connection to the bus: taking over means
to read STATE, to list, and to write the difference. What a former holder might still write is refused by the
sequences that every write expects, and by versions that never go down.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from berth.cluster_watcher.batch_writer import StateDoubtfulError
from berth.cluster_watcher.settings import Settings
from berth.cluster_watcher.term import Term, end
from berth.kube import KubeApi
from berth.runtime import ActiveStandby, Context, serve_status

SERVICE: Final = "cluster-watcher"
ENSURE_S: Final = 30.0
"""How often a bucket that somebody deleted is noticed in a cluster where nothing happens."""
ENSURE_RETRY_S: Final = 2.0
ENSURE_TIMEOUT_S: Final = 10.0


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
        await serve_status(context, self._facts, active=lambda: self.standby.active, ready=lambda: self._check()[0])
        # Also on a standby: without the bucket of leases nobody is active.
        keeper = asyncio.create_task(self._keep_buckets())
        try:
            await self.standby.run(self._work)
        finally:
            await end([keeper])

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

    def _facts(self) -> dict[str, str | int | float]:
        return {} if self.term is None else self.term.facts()


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    kube = await context.kube_patiently(context.settings.kube())
    try:
        await Shell(context, kube).run()
    finally:
        await kube.close()
