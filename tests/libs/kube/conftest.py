"""A scripted API server on a free port, a clock that tests move, and a reflector that writes a diary."""

import asyncio
import json
import random
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from tests.libs.kube.diary import Diary

from berth.contracts.kube import Pod
from berth.kube import PODS, Kube, KubeSettings, Reflector, Selection, WatchSettings

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedServer:
    """Answers each (method, path) from its queue of replies; the last one stays. Remembers what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str, dict[str, str], dict[str, str], Any]] = []
        self._replies: dict[tuple[str, str], deque[Reply]] = defaultdict(deque)

    def on(self, method: str, path: str, *replies: Reply) -> None:
        self._replies[method, path].extend(replies)

    def queries(self, method: str = "GET") -> list[dict[str, str]]:
        return [query for m, _, query, _, _ in self.asked if m == method]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(
            (
                request.method,
                request.raw_path.split("?")[0],
                dict(request.query),
                dict(request.headers),
                json.loads(body) if body else None,
            )
        )
        kind = "WATCH" if "watch" in request.query else request.method
        queue = self._replies[kind, request.path]
        if not queue:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        reply = queue.popleft() if len(queue) > 1 else queue[0]
        return await reply(request)


class Replies:
    """Makers of replies."""

    @staticmethod
    def json(body: Any, status: int = 200, **headers: str) -> Reply:
        async def reply(_: web.Request) -> web.StreamResponse:
            return web.json_response(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

        return reply

    @staticmethod
    def status(code: int, reason: str, message: str = "", **headers: str) -> Reply:
        body = {"kind": "Status", "code": code, "reason": reason, "message": message}
        return Replies.json(body, code, **headers)

    @staticmethod
    def page(items: list[Any], version: int, token: str = "") -> Reply:
        metadata = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
        return Replies.json({"kind": "List", "metadata": metadata, "items": items})

    @staticmethod
    def watch(*lines: Any, then: str = "close") -> Reply:
        """Stream lines (bytes as they are, else as JSON), then "close" properly, "drop" the connection or "hang"."""

        async def reply(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for line in lines:
                await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
            if then == "drop":
                assert request.transport is not None
                request.transport.abort()
            elif then == "hang":
                await asyncio.Event().wait()
            return response

        return reply

    @staticmethod
    def silence() -> Reply:
        """Take the request and say nothing."""

        async def reply(_: web.Request) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        return reply

    @staticmethod
    def drop(effect: Callable[[], None] = lambda: None) -> Reply:
        """Do it, then lose the connection before a byte of the answer."""

        async def reply(request: web.Request) -> web.StreamResponse:
            effect()
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

        return reply

    @staticmethod
    def hang() -> Reply:
        async def reply(_: web.Request) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        return reply


class ManualClock:
    """Time passes only in sleep, at once, and is written down."""

    def __init__(self) -> None:
        self.time_s = 1_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return 1_700_000_000.0 + self.time_s

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time_s += seconds
        await asyncio.sleep(0)


def pod(name: str, version: int, namespace: str = "default", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **rest}


@pytest.fixture
def make_pod() -> Callable[..., dict[str, Any]]:
    return pod


@pytest.fixture
def replies() -> type[Replies]:
    return Replies


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", scripted.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    scripted.url = f"http://{host}:{port}"
    yield scripted
    await runner.cleanup()


@pytest.fixture
async def connect(server: ScriptedServer) -> AsyncIterator[Callable[..., Awaitable[Kube]]]:
    opened: list[Kube] = []

    async def make(**settings: Any) -> Kube:
        kube = await Kube.connect(KubeSettings(**{"url": server.url, **settings}))
        opened.append(kube)
        return kube

    yield make
    for kube in opened:
        await kube.close()


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def follow(connect: Any, clock: Any, diary: Diary) -> Any:
    """Run a reflector until the diary has so many lines (refusals not counted), then stop it."""

    async def run(count: int, settings: WatchSettings | None = None, **client: Any) -> Reflector[Pod]:
        kube = await connect(**client)
        reflector = Reflector(kube, Selection(PODS), Pod, diary, clock=clock, rng=random.Random(1), settings=settings)
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(10):
            while len(diary.without_refusals()) < count:
                await asyncio.sleep(0.005)
                if task.done():
                    task.result()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return reflector

    return run
