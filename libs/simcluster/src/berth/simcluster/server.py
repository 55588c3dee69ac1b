"""The simulated cluster as one thing: store, kubelets, HTTP server; started and stopped together."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aiohttp import web

from berth.simcluster.admission.asking import Asker
from berth.simcluster.admission.reviewing import Admission
from berth.simcluster.controllers import Controllers
from berth.simcluster.faults import Faults
from berth.simcluster.http.admin import Admin
from berth.simcluster.http.app import App
from berth.simcluster.http.auth import Tokens
from berth.simcluster.http.watch import Hub
from berth.simcluster.kubelet import Kubelets
from berth.simcluster.manifests import load, read_manifests
from berth.simcluster.settings import SimSettings
from berth.simcluster.store import Store
from berth.simcluster.store.bodies import BODY_LIMIT_BYTES
from berth.simcluster.store.crds import find_crds
from berth.simcluster.store.objects import Json

_KEEP_ALIVE_S = 3600.0  # a client's idle connection must not be closed under it
_SHUTDOWN_S = 2.0
_VERSIONS_PER_SECOND = 100_000  # more than any run makes; a later start is above an earlier one's end


class SimCluster:
    """A simulated cluster. `url` is known once it is started."""

    def __init__(self, settings: SimSettings) -> None:
        """Builds everything but opens no socket.

        Raises ValueError naming the setting or manifest that can't be used.
        """
        problem = settings.problem()
        if problem:
            raise ValueError(problem)
        self.settings = settings
        first = settings.first_version or int(time.time() * _VERSIONS_PER_SECOND)
        self.store = Store(
            clock=time.time, random=random.Random(settings.seed), history=settings.history, first_version=first
        )
        self.faults = Faults(settings.faults, seed=settings.seed)
        self.hub = Hub()
        self.store.listen(self.hub.publish)
        self._due = asyncio.Event()
        self._controllers_due = asyncio.Event()
        if settings.install_crds:
            self.load(find_crds(settings.crds))
        for file in settings.manifests:
            self.load(read_manifests(file))
        self.kubelets: Kubelets | None = None
        if settings.kubelet is not None:
            self.kubelets = Kubelets(self.store, settings.kubelet, wake=self._due.set)
        self.controllers: Controllers | None = None
        if settings.controllers is not None:
            self.controllers = Controllers(self.store, settings.controllers, wake=self._controllers_due.set)
        admin = Admin(self.store, self.hub, self.faults, self.kubelets) if settings.admin else None
        tokens = Tokens.read(settings.token_file)
        self._asker = Asker()
        admission = Admission(self.store, self._asker.ask)
        self.app = App(self.store, self.hub, self.faults, tokens, admin, admission, settings.seed)
        self.port = 0
        self._runner: web.ServerRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """Where the API is."""
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"http://{host}:{self.port}"

    def load(self, manifests: Iterable[Json]) -> int:
        """Create objects; returns how many. Raises ValueError naming the first one that is refused."""
        return load(self.store, manifests)

    async def start(self) -> None:
        """Open the port, then write the port file."""
        server = web.Server(
            self.app.handle,
            request_factory=_request_factory(),
            handler_cancellation=True,  # a watch ends when its client goes
            keepalive_timeout=_KEEP_ALIVE_S,
            access_log=None,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.settings.host, self.settings.port, backlog=1024)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        self._tasks = [asyncio.create_task(self._bookmarks())]
        if self.kubelets is not None:
            self._tasks.append(asyncio.create_task(_run(self.kubelets, self._due)))
        if self.controllers is not None:
            self._tasks.append(asyncio.create_task(_run(self.controllers, self._controllers_due)))
        if self.settings.port_file is not None:
            part = self.settings.port_file.with_name(self.settings.port_file.name + ".part")
            part.write_text(f"{self.port}\n", encoding="utf-8")
            part.replace(self.settings.port_file)

    async def stop(self) -> None:
        """End the watches, finish the requests, close the port."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.hub.close()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._asker.close()

    async def wait(self, asked: asyncio.Event) -> BaseException | None:
        """Until `asked` is set (None), or a background task has failed (why)."""
        stop = asyncio.create_task(asked.wait())
        try:
            done, _ = await asyncio.wait([stop, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        return next((task.exception() for task in done if task is not stop), None)

    async def _bookmarks(self) -> None:
        while True:
            await asyncio.sleep(self.settings.bookmark_s)
            self.hub.bookmark(self.store.version)


async def _run(timers: Kubelets | Controllers, woken: asyncio.Event) -> None:
    while True:
        woken.clear()
        due = timers.next_due()
        delay_s = None if due is None else due - time.time()
        if delay_s is not None and delay_s <= 0:
            timers.run(time.time())
            await asyncio.sleep(0)  # requests go between two batches of timers
            continue
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await woken.wait()


def _request_factory() -> Any:
    def make(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT_BYTES + 1)

    return make


@contextlib.asynccontextmanager
async def serve(settings: SimSettings | None = None) -> AsyncIterator[SimCluster]:
    """A running simulated cluster for the length of a `with` block."""
    sim = SimCluster(settings or SimSettings())
    await sim.start()
    try:
        yield sim
    finally:
        await sim.stop()
