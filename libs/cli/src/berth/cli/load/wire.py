"""HTTP/1.1 by hand: one POST after the other on a connection, at a fraction of a general client's cost.

Made for load: what measures must not be the bottleneck of what is measured. It talks plain HTTP to the simulated
API, whose answers carry their length; any other form of answer is a lost connection to it.
"""

from __future__ import annotations

import asyncio
from typing import cast
from urllib.parse import urlsplit

HEAD_BYTES_MAX = 64 << 10
BODY_BYTES_MAX = 64 << 20
TIMEOUT_S = 60.0
_LENGTH = b"content-length:"


class Wire(asyncio.Protocol):
    """One connection; at most one request is under way on it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._received = bytearray()
        self._head_end = 0
        self._needed = 0
        self._status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for requests."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Callers that wait hear of it."""
        self._transport = None
        self._fail("the connection was lost")

    def data_received(self, data: bytes) -> None:
        """A piece of the answer."""
        self._received += data
        if not self._needed and not self._read_head():
            return
        if len(self._received) >= self._needed and self._answer is not None and not self._answer.done():
            self._answer.set_result((self._status, bytes(self._received[self._head_end : self._needed])))

    def _read_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > HEAD_BYTES_MAX:
                self._break("an endless header")
            return False
        head = bytes(self._received[:end])
        at = head.lower().find(_LENGTH)
        digits = head[at + len(_LENGTH) :].split(b"\r\n", 1)[0].strip() if at >= 0 else b""
        status = head[9:12]
        if not head.startswith(b"HTTP/1.") or not status.isdigit() or not digits.isdigit():
            self._break("an answer without a length")
            return False
        if int(digits) > BODY_BYTES_MAX:
            self._break("an answer that is too long")
            return False
        self._status, self._head_end = int(status), end + 4
        self._needed = self._head_end + int(digits)
        return True

    async def request(self, data: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to these bytes. Raises OSError when the connection fails, TimeoutError."""
        if self._transport is None:
            raise ConnectionError("not connected")
        self._received.clear()
        self._needed = 0
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._answer
        except TimeoutError:
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _break(self, why: str) -> None:
        self._fail(why)
        self.close()

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(why))


class Wires:
    """Connections to one server, opened as they are needed and used again."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._idle: list[Wire] = []
        self._tail = f" HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\nContent-Length: ".encode()

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """As `Wire.request`."""
        wire = self._idle.pop() if self._idle else await self._open()
        data = b"POST " + path.encode() + self._tail + str(len(body)).encode() + b"\r\n\r\n" + body
        try:
            answer = await wire.request(data)
        except BaseException:
            wire.close()
            raise
        self._idle.append(wire)
        return answer

    async def _open(self) -> Wire:
        _, wire = await asyncio.get_running_loop().create_connection(Wire, self._host, self._port)
        return wire

    def close(self) -> None:
        """Drop all connections."""
        for wire in self._idle:
            wire.close()
        self._idle.clear()
