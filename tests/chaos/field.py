"""A whole control plane to break: real bus, simulated API over HTTP, real services; a load on it and eyes over it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from tests.chaos.eyes import Eyes
from tests.chaos.load import Load
from tests.chaos.mix import Json, Mix, cluster
from tests.e2e.clusters import Simulated
from tests.e2e.ledger_log import LedgerLog
from tests.e2e.objects import NODES
from tests.e2e.waiting import until
from tests.e2e.whole import Whole, run_whole

from berth.bus.port import Message
from berth.cli.load.api import Api
from berth.cli.load.creator import create_all
from berth.cli.stack.process import Process
from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.event import AuditReported, EpochRaised
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.subjects import PREFIX, question_subject
from berth.testing.nats_cluster import NatsCluster
from berth.testing.nats_server import NatsServer
from berth.testing.tcp_proxy import TcpProxy

BUS_CONFIG = "max_payload: 2MB"
GPU = "koordinator.sh/gpu-core"
SETTINGS = {"BERTH_AUDIT_INTERVAL_S": "4", "BERTH_AUDIT_PATIENCE_S": "0"}
"""The auditor looks more often than anybody needs elsewhere: each fault lasts some seconds."""
IN_TIME = ("I3", "I4")
"""What is under way for long in an outage may look like a breach of these; once all is quiet they are checked."""
NODES_COUNT = 24
READY_S = 90.0
LOUD = os.environ.get("BERTH_CHAOS_LOUD", "") == "1"


class OnBus(Simulated):
    """The simulated API as a process of the stack, a bus of the test's own, and proxies in front of both for some."""

    def __init__(self, url: str, replicas: int, ways: Mapping[str, Ways]) -> None:
        super().__init__()
        self._settings = {"BERTH_NATS_URL": url, "BERTH_NATS_REPLICAS": str(replicas)}
        self._ways = ways

    def stack_settings(self) -> dict[str, Any]:
        return {"nats": self._settings, "reroute": self._reroute}

    def _reroute(self, service: str, settings: dict[str, str]) -> dict[str, str]:
        ways = self._ways.get(service)
        return settings if ways is None else ways.reroute(settings)


class Ways:
    """The ways of one service to the bus and to the API, each through a proxy."""

    def __init__(self, bus: TcpProxy, api: TcpProxy) -> None:
        self.bus = bus
        self.api = api

    def reroute(self, settings: dict[str, str]) -> dict[str, str]:
        """The settings, leading through the proxies."""
        changed = dict(settings)
        for name, proxy in (("BERTH_NATS_URL", self.bus), ("BERTH_KUBE_URL", self.api)):
            if name in settings:
                parts = urlsplit(settings[name])
                proxy.target = (parts.hostname or "127.0.0.1", parts.port or 80)
                changed[name] = f"{parts.scheme}://127.0.0.1:{proxy.port}"
        return changed


class Field:
    """What an experiment has in its hands."""

    def __init__(
        self,
        whole: Whole,
        api: Api,
        eyes: Eyes,
        load: Load,
        log: LedgerLog,
        bus: NatsServer | NatsCluster,
        ways: Mapping[str, Ways],
    ) -> None:
        self.raised_ms: dict[int, int] = {}
        """When each epoch was raised, in Unix milliseconds."""
        self.audit: list[AuditReported] = []
        """Differences that the auditor, a service under test itself, was certain of."""
        self.whole = whole
        self.api = api
        self.eyes = eyes
        self.load = load
        self.log = log
        self.bus = bus
        self.ways = ways

    @property
    def server(self) -> NatsServer:
        """The bus, where it is one server."""
        assert isinstance(self.bus, NatsServer)
        return self.bus

    def process(self, name: str) -> Process:
        """A process of the stack."""
        return self.whole.stack.processes[name]

    def kill(self, name: str) -> None:
        """kill -9; the stack starts it again after half a second, as a kubelet would."""
        self.process(name).signal(signal.SIGKILL)

    async def hear(self, message: Message) -> None:
        """An event of the auditor."""
        found = decode(message.data, AuditReported)
        if found.promise not in IN_TIME:
            self.audit.append(found)

    async def hear_epoch(self, message: Message) -> None:
        """An event of cluster-writer."""
        self.raised_ms[decode(message.data, EpochRaised).epoch] = time.time_ns() // 1_000_000

    async def is_ready(self, name: str, after_starts: int) -> bool:
        """It has been started again since then, and says that it is ready."""
        if self.process(name).starts <= after_starts:
            return False
        with suppress(aiohttp.ClientError, OSError):
            async with self.whole.session.get(f"{self.whole.stack.address(name)}/readyz") as response:
                return response.status == 200
        return False

    async def faults(self, *rules: Mapping[str, Any]) -> None:
        """What the API server does to requests from now on; nothing ends it."""
        await self.whole.call("PUT", "/sim/faults", {"faults": rules, "seed": 1})

    async def facts(self) -> str:
        """What cluster-writer and the solvers say of themselves."""
        found = []
        for service in ("cluster-writer", "placement-solver"):
            answers = await self.whole.bus.ask_all(question_subject(service, "status"), encode(StatusQuestion()))
            found += [f"{answer.instance} {answer.facts}" for raw in answers if (answer := decode(raw, StatusAnswer))]
        return "; ".join(found)

    async def active(self, service: str) -> str:
        """The process that holds the service's lease, of several replicas."""

        async def look() -> str:
            answers = await self.whole.bus.ask_all(question_subject(service, "status"), encode(StatusQuestion()))
            suffix = f"-{socket.gethostname()}-{os.getpid()}"
            found = [answer for raw in answers if (answer := decode(raw, StatusAnswer)).active]
            return found[0].instance.removesuffix(suffix) if len(found) == 1 else ""

        return await until(look, f"one active {service}")


@asynccontextmanager
async def open_field(
    bus: NatsServer | NatsCluster,
    *,
    proxied: Sequence[str] = (),
    replicas: Mapping[str, int] | None = None,
    nodes: int = NODES_COUNT,
    seed: int = 1,
    mix: type[Mix] = Mix,
    objects: Sequence[Json] = (),
    url: str = "",
) -> AsyncIterator[Field]:
    """Everything started and ready, the cluster known (with further `objects`), the load in place and paused.

    `url`: where everybody connects; all servers of the bus if empty.
    """
    async with AsyncExitStack() as stack:
        ways = {}
        for service in proxied:
            proxies = [await stack.enter_async_context(TcpProxy("127.0.0.1", 9)) for _ in range(2)]
            ways[service] = Ways(*proxies)
        copies = 3 if isinstance(bus, NatsCluster) else 1
        whole = await stack.enter_async_context(
            run_whole(
                OnBus(url or bus.url, copies, ways),
                replicas=replicas,
                environment=SETTINGS,
                sim_arguments=["--no-running"],
                say=(lambda text: print(f"    {text}")) if LOUD else (lambda text: None),
            )
        )
        api = await stack.enter_async_context(Api(whole.stack.kube_url))
        await create_all(api, [*cluster(nodes, seed), *objects])
        await until(lambda: _counted(whole), "the GPUs of the nodes", timeout_s=READY_S)
        eyes = Eyes(api)
        log = LedgerLog()
        for work in (eyes.run(), whole.bus.follow(buckets.LEDGER, log).run()):
            _running(stack, work)
        await eyes.seen.wait()
        load = await stack.enter_async_context(Load(api, eyes, mix(seed)))
        field = Field(whole, api, eyes, load, log, bus, ways)
        await whole.bus.subscribe(f"{PREFIX}.evt.audit.reported.found.>", field.hear)
        await whole.bus.subscribe(f"{PREFIX}.evt.epoch.raised.>", field.hear_epoch)
        yield field


def _running(stack: AsyncExitStack, work: Any) -> None:
    task = asyncio.create_task(work)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


async def _counted(whole: Whole) -> bool:
    """Every Device is in the status of its node."""
    with_gpus = {
        each["metadata"]["name"] for each in await whole.items("/apis/scheduling.koordinator.sh/v1alpha1/devices")
    }
    nodes = await whole.items(NODES)
    return all(GPU in node["status"]["allocatable"] for node in nodes if node["metadata"]["name"] in with_gpus)
