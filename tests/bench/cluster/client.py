"""The load client and the independent observer: bytes in, bytes out, nothing decoded that is not needed.

The observer is a watch of its own that the API server filters (`spec.nodeName!=`) and cuts to metadata, so that each
pod costs one short line, and neither contender shares its encoding with it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

import aiohttp
from fixtures import Item

CONNECTIONS = 32
RETRY_PAUSE_S = 0.2
BOUND = "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%21%3D"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_NAME = b'"name":"'


class Client:
    """An asynchronous context around one session."""

    def __init__(self, url: str, token: str, tls: ssl.SSLContext) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "race-load"}
        self._tls = tls
        self.sent: dict[str, float] = {}
        """When the creation of each object was sent, on the monotonic clock."""
        self.answered: dict[str, float] = {}
        """When it was answered."""
        self.bound: dict[str, float] = {}
        """When the observer saw each pod bound."""

    async def __aenter__(self) -> Client:
        connector = aiohttp.TCPConnector(limit=CONNECTIONS + 4, ssl=self._tls, keepalive_timeout=300)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(
            self._url, connector=connector, headers=self._headers, timeout=timeout, raise_for_status=False
        )
        self._observer = asyncio.create_task(self._observe())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._observer.cancel()
        await asyncio.gather(self._observer, return_exceptions=True)
        await self._session.close()

    async def create(self, items: Iterable[Item], *, rate: float = 0.0, connections: int = CONNECTIONS) -> int:
        """Create objects in order, at most `rate` a second (0: as fast as it goes); how many. Raises RuntimeError."""
        queue = iter(list(items))
        began, taken = time.monotonic(), 0

        async def one_after_the_other() -> None:
            nonlocal taken
            for item in queue:
                due = began + taken / rate if rate else 0.0
                taken += 1
                if rate and (pause := due - time.monotonic()) > 0:
                    await asyncio.sleep(pause)
                self.sent[item.name] = time.monotonic()
                await self._post(item)
                self.answered[item.name] = time.monotonic()

        await asyncio.gather(*(one_after_the_other() for _ in range(connections)))
        return taken

    async def _post(self, item: Item) -> None:
        headers = {"Content-Type": "application/json", "Accept": _METADATA}
        async with self._session.post(item.path, data=item.body, headers=headers) as response:
            answer = await response.read()
            if response.status not in (201, 409):
                raise RuntimeError(f"{item.path} {item.name}: {response.status} {answer[:300]!r}")

    async def raw(self, path: str) -> bytes:
        """The body of a GET. Raises RuntimeError."""
        async with self._session.get(path) as response:
            body = await response.read()
            if response.status != 200:
                raise RuntimeError(f"{path}: {response.status} {body[:300]!r}")
            return body

    async def json(self, path: str) -> Any:
        """The same, decoded."""
        return json.loads(await self.raw(path))

    async def until_bound(self, names: Iterable[str], timeout_s: float) -> list[str]:
        """Wait until the observer has seen all of them bound; those that it had not by then."""
        waiting = set(names)
        deadline = time.monotonic() + timeout_s
        while waiting and time.monotonic() < deadline:
            waiting.difference_update(self.bound)
            if waiting:
                await asyncio.sleep(0.05)
        return sorted(waiting)

    async def _observe(self) -> None:
        while True:
            with suppress(aiohttp.ClientError, OSError):
                async for line, now in self.lines(BOUND):
                    self._see(line, now)
            await asyncio.sleep(RETRY_PAUSE_S)

    async def lines(self, path: str) -> AsyncIterator[tuple[bytes, float]]:
        """The lines of one watch, cut to metadata, and when each came."""
        async with self._session.get(path, headers={"Accept": _METADATA}) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                now = time.monotonic()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line, now

    def _see(self, line: bytes, now: float) -> None:
        """The first name in a line is the object's own: it leads the metadata."""
        begin = line.find(_NAME) + len(_NAME)
        if begin >= len(_NAME):
            self.bound.setdefault(line[begin : line.index(b'"', begin)].decode(), now)
