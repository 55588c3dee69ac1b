"""A simulated cluster over real HTTP, and a small client for it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from berth.simcluster import SimCluster, SimSettings, serve

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


class Client:
    """Requests that return status and decoded body."""

    def __init__(self, session: aiohttp.ClientSession, sim: SimCluster) -> None:
        self.session = session
        self.sim = sim

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        async with self.session.request(method, path, data=data, headers=given) as response:
            return response.status, await response.json(content_type=None)

    async def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, answer = await self.call(method, path, body, **headers)
        assert status < 300, answer
        return answer

    async def patch(self, path: str, body: Any, kind: str = MERGE) -> tuple[int, Any]:
        return await self.call("PATCH", path, body, Content_Type=kind)

    async def pod(self, name: str, **more: Any) -> Any:
        return await self.ok("POST", PODS, make_pod(name, **more))

    async def bind(self, name: str, node: str = "n1", **meta: Any) -> tuple[int, Any]:
        body = {"metadata": {"name": name, **meta}, "target": {"kind": "Node", "name": node}}
        return await self.call("POST", f"{PODS}/{name}/binding", body)

    @contextlib.asynccontextmanager
    async def watch(self, path: str) -> AsyncIterator["Watch"]:
        async with self.session.get(path, timeout=aiohttp.ClientTimeout(total=None)) as response:
            assert response.status == 200, await response.text()
            yield Watch(response)


class Watch:
    """The lines of a watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self, timeout_s: float = 10) -> Any:
        line = await asyncio.wait_for(self._response.content.readline(), timeout_s)
        return json.loads(line) if line else None

    async def change(self) -> tuple[str, str]:
        """The next event that is no bookmark: type and name."""
        while True:
            event = await self.next()
            if event["type"] != "BOOKMARK":
                return event["type"], event["object"]["metadata"]["name"]


def make_pod(name: str, *, spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    return {"metadata": {"name": name, **meta}, "spec": {"containers": containers, **(spec or {})}}


@pytest.fixture
def new_pod() -> Callable[..., dict[str, Any]]:
    return make_pod


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    """Start a cluster with settings; stopped at the end of the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def begin(**settings: Any) -> Client:
            sim = await stack.enter_async_context(serve(SimSettings(**{"kubelet": None, **settings})))
            session = await stack.enter_async_context(aiohttp.ClientSession(sim.url))
            return Client(session, sim)

        yield begin


@pytest.fixture
async def client(start: Callable[..., Any]) -> Client:
    """A cluster without kubelets."""
    found: Client = await start()
    return found


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Poll until a condition holds, or fail after a deadline."""

    async def wait(condition: Callable[[], Any], timeout_s: float = 10) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.01)

    return wait
