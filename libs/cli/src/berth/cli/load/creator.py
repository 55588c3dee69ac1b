"""Create objects in order, with a bounded number of requests under way.

Requests start in the order given, at most `in_flight` at once and at most `rate` a second; a request that was lost is
sent again (creating twice is answered with 409, which counts as done).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from berth.cli.errors import EXIT_BAD, CliError
from berth.cli.load.api import Api, path_of, refusal

IN_FLIGHT = 48
TRIES_MAX = 60
RETRY_PAUSE_S = 0.5
_CONFLICT = 409
_AGAIN = (429, 500, 502, 503, 504)


class Creation(NamedTuple):
    """One object to create: its collection's path, its JSON, and whom to tell just before it is sent."""

    path: str
    body: bytes
    on_send: Callable[[], None] | None = None


async def create_all(api: Api, manifests: Sequence[dict[str, Any]], *, in_flight: int = IN_FLIGHT) -> int:
    """Create manifests in order; how many. Raises CliError with the first refusal."""
    creations = [Creation(path_of(each), msgspec.json.encode(each)) for each in manifests]
    await create(api, creations, in_flight=in_flight)
    return len(creations)


async def create(api: Api, creations: Iterable[Creation], *, in_flight: int = IN_FLIGHT, rate: float = 0.0) -> None:
    """Create them; `rate` 0 is as fast as it goes. Raises CliError with the first refusal."""
    queue = iter(creations)
    loop = asyncio.get_running_loop()
    began, taken = loop.time(), 0

    async def worker() -> None:
        nonlocal taken
        for creation in queue:
            taken += 1
            if rate:
                await asyncio.sleep(max(0.0, began + taken / rate - loop.time()))
            await _create(api, creation)

    workers = [asyncio.create_task(worker()) for _ in range(in_flight)]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _create(api: Api, creation: Creation) -> None:
    if creation.on_send is not None:
        creation.on_send()
    for _ in range(TRIES_MAX):
        try:
            status, body = await api.post(creation.path, creation.body)
        except (TimeoutError, OSError):
            await asyncio.sleep(RETRY_PAUSE_S)
            continue
        if status < 300 or status == _CONFLICT:
            return
        if status not in _AGAIN:
            raise CliError(f"the API server refuses {_name(creation.body)}: {status} {refusal(body)}", EXIT_BAD)
        await asyncio.sleep(RETRY_PAUSE_S)
    raise CliError(f"the API server does not accept {_name(creation.body)} after {TRIES_MAX} tries", EXIT_BAD)


def _name(body: bytes) -> str:
    found = msgspec.json.decode(body)
    return f"{found.get('kind')} {found.get('metadata', {}).get('name')}"
