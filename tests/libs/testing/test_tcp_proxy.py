"""The proxy does to a connection what its name says, and heals."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest_asyncio

from berth.testing.tcp_proxy import TcpProxy, Way

SOON_S = 0.2
WAIT_S = 10.0


class Echo:
    """A server that answers each line in upper case and remembers it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.changed = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                self.heard.append(line)
                self.changed.set()
                writer.write(line.upper())
        writer.transport.abort()


@pytest_asyncio.fixture
async def echo() -> AsyncIterator[tuple[Echo, TcpProxy]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    async with TcpProxy("127.0.0.1", server.sockets[0].getsockname()[1]) as proxy:
        yield echo, proxy
    server.close()
    await asyncio.gather(*echo.tasks)
    await asyncio.sleep(0)  # transports close in the next turn


async def _line(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.readline(), WAIT_S)


async def _silent(reader: asyncio.StreamReader) -> bool:
    try:
        await asyncio.wait_for(reader.readline(), SOON_S)
    except TimeoutError:
        return True
    return False


async def _ended(reader: asyncio.StreamReader) -> bool:
    """The connection is reset, or closed."""
    try:
        return await _line(reader) == b""
    except ConnectionError:
        return True


async def test_open_passes_everything(echo: tuple[Echo, TcpProxy]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", echo[1].port)
    writer.write(b"a\n" + b"x" * 50_000 + b"\n")
    assert await _line(reader) == b"A\n"
    assert await _line(reader) == b"X" * 50_000 + b"\n"
    writer.close()


async def test_cut_resets_what_is_open_and_refuses_what_is_new(echo: tuple[Echo, TcpProxy]) -> None:
    _, proxy = echo
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"a\n")
    assert await _line(reader) == b"A\n"
    proxy.set(Way.CUT)
    assert await _ended(reader)
    again, second = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert await _ended(again)
    proxy.set(Way.OPEN)
    healed, third = await asyncio.open_connection("127.0.0.1", proxy.port)
    third.write(b"b\n")
    assert await _line(healed) == b"B\n"
    for each in (writer, second, third):
        each.close()


async def test_half_open_holds_both_directions_back(echo: tuple[Echo, TcpProxy]) -> None:
    server, proxy = echo
    proxy.set(Way.HALF_OPEN)
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"a\n")
    assert await _silent(reader)
    assert server.heard == []
    proxy.set(Way.OPEN)
    assert await _line(reader) == b"A\n"
    writer.close()


async def test_one_way_lets_the_server_hear_and_nobody_answer(echo: tuple[Echo, TcpProxy]) -> None:
    server, proxy = echo
    proxy.set(Way.ONLY_IN)
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"a\n")
    await asyncio.wait_for(server.changed.wait(), WAIT_S)
    assert server.heard == [b"a\n"]
    assert await _silent(reader)
    proxy.set(Way.OPEN)
    assert await _line(reader) == b"A\n"
    writer.close()


async def test_delay_is_added_each_way(echo: tuple[Echo, TcpProxy]) -> None:
    _, proxy = echo
    proxy.delay_s = 0.1
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    began = asyncio.get_running_loop().time()
    writer.write(b"a\n")
    assert await _line(reader) == b"A\n"
    assert asyncio.get_running_loop().time() - began >= 0.2
    writer.close()
