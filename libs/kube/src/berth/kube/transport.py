"""HTTP to the API server: raw bytes both ways, bounded, with every outcome as an Answer.

Two connection pools: ordinary requests share a bounded one, each watch has a connection of its own, so that a burst of
binds never waits for a stream that stays open for minutes. Cancellation is the only thing that raises.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
from yarl import URL

from berth.kube import metrics
from berth.kube.answer import TOO_LARGE, Answer, answer_of
from berth.kube.credentials import Endpoint
from berth.kube.lines import LineSplitter, LineTooLongError
from berth.kube.settings import KubeSettings

_ERROR_BODY_BYTES_MAX = 1 << 20
_CONNECT_TIMEOUT_S = 10.0
_KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A peer that is gone without a word is noticed after 30 s of silence, where the kernel has these options."""


class HttpTransport:
    """Sends requests to one API server (`berth.kube.port.Transport`).

    Make it inside a running event loop and close it there.
    """

    def __init__(self, endpoint: Endpoint, settings: KubeSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # inside a cluster, compressing costs both sides more than it saves
            "User-Agent": settings.user_agent,
        }
        self._timeout = aiohttp.ClientTimeout(total=settings.timeout_s, sock_connect=_CONNECT_TIMEOUT_S)
        self._requests = self._session(settings.connections, headers)
        self._streams = self._session(0, headers)

    def _session(self, connections: int, headers: Mapping[str, str]) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=connections, ssl=self._endpoint.tls or False, keepalive_timeout=60.0, socket_factory=_socket
        )
        session = aiohttp.ClientSession(
            connector=connector, headers=headers, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )
        # By itself aiohttp repeats a PUT or DELETE whose connection broke, and so turns "unknown" into a false 409 or
        # 404 about our own change. There is no public switch; this is the one that its own test client uses.
        session._retry_connection = False
        return session

    async def close(self) -> None:
        """Close every connection; streams under way end."""
        await self._requests.close()
        await self._streams.close()

    async def send(
        self,
        verb: str,
        method: str,
        label: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """One request. `verb` and `label` name it in the metrics; `path` is escaped already."""
        began = time.perf_counter()
        answer = await self._authorised(method, path, params, body, content_type)
        metrics.seconds(verb, label).observe(time.perf_counter() - began)
        metrics.requests(verb, label, answer.status).inc()
        return answer

    async def _authorised(
        self, method: str, path: str, params: Mapping[str, str] | None, body: bytes | None, content_type: str
    ) -> Answer:
        """A 401 had no effect, so it is safe to try once more if a newer token can be had."""
        credentials = self._endpoint.credentials
        header = await credentials.authorization()
        answer = await self._once(method, path, params, body, content_type, header)
        if answer.status == 401 and (renewed := await credentials.authorization(renew=True)) != header:
            answer = await self._once(method, path, params, body, content_type, renewed)
        return answer

    async def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        authorization: str | None,
    ) -> Answer:
        headers = {} if authorization is None else {"Authorization": authorization}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._requests.request(
                method,
                self._url(path, params),
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=self._timeout,
                proxy=self._endpoint.proxy,
                server_hostname=self._endpoint.tls_server_name,
            ) as response:
                read = await _body(response, self._settings.page_bytes_max)
                if read is None:
                    response.close()
                    return Answer(0, b"", TOO_LARGE)
                return answer_of(response.status, read, response.reason or "", response.headers.get("Retry-After"))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Answer(0, b"", _what(error))

    async def stream(
        self, label: str, path: str, *, params: Mapping[str, str], idle_s: float
    ) -> AsyncGenerator[bytes | Answer, None]:
        """A watch: its lines, then one Answer that says how it ended."""
        end = Answer(200, b"", "EndOfStream")
        try:
            async with self._opened(self._url(path, params), idle_s) as response:
                metrics.REQUESTS.labels("watch", label, str(response.status)).inc()
                if response.status != 200:
                    if response.status == 401:
                        await self._endpoint.credentials.authorization(renew=True)
                    async with asyncio.timeout(self._settings.timeout_s):
                        read = await _bounded(response.content, _ERROR_BODY_BYTES_MAX)
                    end = answer_of(
                        response.status, read or b"", response.reason or "", response.headers.get("Retry-After")
                    )
                else:
                    splitter = LineSplitter(self._settings.line_bytes_max)
                    async for chunk in response.content.iter_any():
                        lines = 0
                        for line in splitter.feed(chunk):
                            lines += 1
                            yield line
                        if (rest_s := self._settings.rest_s(lines)) > 0:
                            await _rest(response, rest_s)
        except LineTooLongError as error:
            end = Answer(0, b"", f"{TOO_LARGE}: {error}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            end = Answer(0, b"", _what(error))
        yield end

    @asynccontextmanager
    async def _opened(self, url: URL, idle_s: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """The server says at once that a watch has begun, long before its first line: waiting for that has a request's
        limit, so that a watch asked for during an outage is not taken for a quiet one."""
        asked = self._streams.get(
            url,
            headers=await self._stream_headers(),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=idle_s),
            proxy=self._endpoint.proxy,
            server_hostname=self._endpoint.tls_server_name,
        )
        async with asyncio.timeout(self._settings.timeout_s):
            response = await asked
        async with response:
            yield response

    async def _stream_headers(self) -> dict[str, str]:
        authorization = await self._endpoint.credentials.authorization()
        return {} if authorization is None else {"Authorization": authorization}

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        url = URL(self._endpoint.server + path, encoded=True)
        return url.with_query(params) if params else url


def _socket(info: tuple[Any, ...]) -> socket.socket:
    """A socket for an address (`aiohttp.TCPConnector.socket_factory`) that asks its peer now and then."""
    family, kind, protocol = info[:3]
    made = socket.socket(family, kind, protocol)
    with suppress(OSError):  # a kernel without them has to do without
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE.items():
            if (option := getattr(socket, name, None)) is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


async def _rest(response: aiohttp.ClientResponse, pause_s: float) -> None:
    """Leave the socket alone for a moment; what comes meanwhile waits in the kernel and is read at once."""
    connection = response.connection
    transport = connection.transport if connection is not None else None
    if transport is None or transport.is_closing():
        return
    transport.pause_reading()
    try:
        await asyncio.sleep(pause_s)
    finally:
        if not transport.is_closing():
            transport.resume_reading()


async def _body(response: aiohttp.ClientResponse, bytes_max: int) -> bytes | None:
    """The whole body, None when it is longer than allowed. Most answers say how long they are."""
    length = response.content_length
    if length is None:
        return await _bounded(response.content, bytes_max)
    return await response.read() if length <= bytes_max else None


async def _bounded(content: aiohttp.StreamReader, bytes_max: int) -> bytes | None:
    """The whole body, None as soon as it is longer than allowed."""
    chunks = []
    length = 0
    async for chunk in content.iter_any():
        length += len(chunk)
        if length > bytes_max:
            return None
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _what(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text and not isinstance(error, asyncio.TimeoutError) else "Timeout"
