"""HTTP to ResourceManagers: one request, one answer of bounded size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Protocol

import aiohttp

BODY_BYTES_MAX: Final = 64 << 20
_JSON: Final = {"Accept": "application/json", "Content-Type": "application/json"}


class NoAnswerError(Exception):
    """There is no answer, or none that can be read to its end; whether the request was carried out is not known."""


class Answer(NamedTuple):
    """Status and body."""

    status: int
    body: bytes


class Rest(Protocol):
    """A way to ask. Redirections are answers: the standby of a pair sends people on."""

    async def get(self, url: str, params: Mapping[str, str]) -> Answer:
        """Read. Raises NoAnswerError."""

    async def post(self, url: str, params: Mapping[str, str], body: bytes) -> Answer:
        """Have something done. Raises NoAnswerError."""


class HttpRest:
    """By a session of aiohttp."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def get(self, url: str, params: Mapping[str, str]) -> Answer:
        """See `Rest`."""
        return await self._ask("GET", url, params, None)

    async def post(self, url: str, params: Mapping[str, str], body: bytes) -> Answer:
        """See `Rest`."""
        return await self._ask("POST", url, params, body)

    async def _ask(self, method: str, url: str, params: Mapping[str, str], data: bytes | None) -> Answer:
        try:
            async with self._session.request(
                method, url, data=data, params=params, headers=_JSON, allow_redirects=False
            ) as response:
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > BODY_BYTES_MAX:
                        raise NoAnswerError(f"answers with more than {BODY_BYTES_MAX} bytes")
                return Answer(response.status, bytes(body))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswerError(str(error) or type(error).__name__) from error


@asynccontextmanager
async def by_http(timeout_s: float) -> AsyncIterator[Rest]:
    """A way to ask that gives up after so long."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s)) as session:
        yield HttpRest(session)
