"""A running control plane in the hands of a test: bus, API server and every service as processes.

`run_whole` starts it. It can be asked through its API server, its bus and its metrics; a test makes its objects in a
`Corner` of it.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import msgspec
from tests.e2e.clusters import Cluster, Simulated
from tests.e2e.corner import Corner
from tests.e2e.objects import Json
from tests.e2e.waiting import POLL_S, WAIT_S, until

from berth.bus import Bus, BusSettings
from berth.cli.commands.why import ask_why
from berth.cli.stack.services import SERVICES
from berth.cli.stack.stack import Stack
from berth.contracts import buckets, subjects
from berth.contracts.codec import decode
from berth.contracts.question import WhyAnswer, WhyQuestion
from berth.contracts.reservation import ReservedCapacity
from berth.testing.views import View, eventually

KEEP = os.environ.get("BERTH_TEST_KEEP", "") == "1"
"""Leave the logs of the processes behind."""


class Whole:
    """One running control plane."""

    def __init__(self, stack: Stack, session: aiohttp.ClientSession, bus: Bus, cluster: Cluster) -> None:
        self.stack = stack
        self.bus = bus
        self.cluster = cluster
        self.session = session
        self._corners = 0

    # --- the API server ----------------------------------------------------------------------------------------------

    async def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", user: str = ""
    ) -> Json:
        """The decoded answer, `user` being impersonated. Fails for anything but success, and waits for a server that
        asks for it."""
        deadline = time.monotonic() + WAIT_S
        while True:
            status, answer = await self.try_call(method, path, body, kind=kind, user=user)
            if status != 429 or time.monotonic() > deadline:
                break
            await asyncio.sleep(POLL_S)  # a server that has just been started fills its caches
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    async def try_call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", user: str = ""
    ) -> tuple[int, Json]:
        """Status and decoded answer."""
        data = None if body is None else io.BytesIO(msgspec.json.encode(body))
        headers = {"Content-Type": kind}
        headers |= self.cluster.headers
        if user:
            headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        url = self.cluster.url + path
        async with self.session.request(method, url, data=data, headers=headers) as response:
            return response.status, msgspec.json.decode(await response.read())

    async def items(self, path: str) -> list[Json]:
        """The items of a list."""
        found: list[Json] = (await self.call("GET", path))["items"]
        return found

    async def patch(self, path: str, body: Json) -> Json:
        """A merge patch."""
        return await self.call("PATCH", path, body, kind="application/merge-patch+json")

    # --- processes ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def paused(self, name: str) -> AsyncIterator[None]:
        """A service stands still meanwhile."""
        pid = self.stack.processes[name].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def until_in_state(self, namespace: str, *pods: str) -> None:
        """Return once STATE shows these pods, so that whoever reads it next sees all of them."""
        keys = {subjects.pod_key(namespace, pod) for pod in pods}
        async with self._viewed(buckets.STATE, f"pod.{subjects.escape(namespace)}.>") as view:
            await eventually(lambda: keys <= set(view.values), what=f"pods {pods} in STATE")

    async def until_in_reserved(self, reservation: str) -> None:
        """Return once RESERVATION shows its capacity on a node: a pod that is created now can draw on it."""
        key = subjects.named_key("reservation", reservation)
        async with self._viewed(buckets.RESERVATION, key) as view:

            def is_there() -> bool:
                return key in view.values and bool(decode(view.values[key], ReservedCapacity).node)

            await eventually(is_there, what=f"the capacity of {reservation}")

    @asynccontextmanager
    async def _viewed(self, bucket: str, keys: str) -> AsyncIterator[View]:
        view = View()
        task = asyncio.create_task(self.bus.follow(bucket, view, keys=keys).run())
        try:
            yield view
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def metrics(self, name: str) -> dict[str, float]:
        """Every sample of a service, by name with labels."""
        async with self.session.get(f"{self.stack.address(name)}/metrics") as response:
            text = await response.text()
        samples = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                sample, _, value = line.rpartition(" ")
                samples[sample] = float(value)
        return samples

    async def counted(self, name: str, *prefixes: str) -> float:
        """The sum of the samples whose names begin with one of the prefixes."""
        found = await self.metrics(name)
        return sum(value for sample, value in found.items() if sample.startswith(prefixes))

    async def forbidden(self) -> dict[str, float]:
        """Requests to the API server that the rights of a service did not cover, by sample."""
        found: dict[str, float] = {}
        for spec in SERVICES:
            if spec.needs_kube:
                asked = partial(self.counted, spec.name, "berth_kube_requests_total{")
                await until(asked, f"{spec.name} to have asked the API server")
                samples = await self.metrics(spec.name)
                found |= {f"{spec.name} {sample}": n for sample, n in samples.items() if 'code="403"' in sample}
        return found

    async def why(self, namespace: str, name: str) -> WhyAnswer:
        """What the solver says of a pod."""
        answer = await ask_why(self.bus, WhyQuestion(namespace=namespace, name=name))
        assert answer is not None, "no solver answers"
        return answer

    # --- corners -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def corner(self) -> AsyncIterator[Corner]:
        """A namespace and nodes of a test's own; its nodes, pods and quotas go away with it."""
        self._corners += 1
        corner = Corner(self, f"c{self._corners}")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": corner.namespace}}
        await self.call("POST", "/api/v1/namespaces", namespace)
        try:
            yield corner
        finally:
            await corner.clear()


@asynccontextmanager
async def run_whole(
    cluster: Cluster | None = None,
    *,
    replicas: Mapping[str, int] | None = None,
    environment: Mapping[str, str] | None = None,
    sim_arguments: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> AsyncIterator[Whole]:
    """Everything started and ready; stopped on the way out. Without a cluster on the simulated API."""
    server = cluster or Simulated()
    settings = {"BERTH_REPORT_AFTER_S": "0.5", **(environment or {})}
    sim = ["--sim", "--start-delay-seconds", "0.1", "--stop-delay-seconds", "0.1", *sim_arguments]
    timeout = aiohttp.ClientTimeout(total=30)
    known = server.stack_settings()
    async with Stack(replicas=replicas, environment=settings, sim_arguments=sim, say=say, keep=KEEP, **known) as stack:
        server.adopt(stack)
        bus = await Bus.connect(BusSettings(url=stack.nats_url), service="test")
        connector = aiohttp.TCPConnector(limit=48, ssl=server.tls)
        try:
            async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
                yield Whole(stack, session, bus, server)
        finally:
            await bus.close()
