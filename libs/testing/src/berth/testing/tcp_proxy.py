"""A TCP proxy for partitions in user space: cut, half-open, one way only, slow; set and healed while it runs.

    async with TcpProxy("127.0.0.1", port) as proxy:
        proxy.port            # where clients connect
        proxy.set(Way.CUT)    # from now on; Way.OPEN heals

What a real network keeps back arrives after the partition, or not at all when a side has given up meanwhile. So does
this one: bytes that are held back wait in order (in the kernel's buffers, so a sender feels the back-pressure), and
`CUT` alone resets what is open. It understands no protocol and drops no single byte out of a stream that goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum
from types import TracebackType

CHUNK_BYTES = 1 << 16


class Way(Enum):
    """What the network does."""

    OPEN = "open"
    CUT = "cut"
    """Connections are reset, new ones refused."""
    HALF_OPEN = "half-open"
    """Connections stay and are accepted; nothing passes in either direction, as behind a silent firewall."""
    ONLY_IN = "only requests pass"
    """From client to server only: the server hears, its answers are held back."""
    ONLY_OUT = "only answers pass"
    """From server to client only."""


class TcpProxy:
    """One listening port in front of one target; an asynchronous context. `delay_s` is added to every chunk."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.port = 0
        self.delay_s = 0.0
        self._way = Way.OPEN
        self._inward = asyncio.Event()
        self._outward = asyncio.Event()
        self._server: asyncio.Server
        self._pairs: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, ...]] = {}

    async def __aenter__(self) -> TcpProxy:
        self.set(Way.OPEN)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = list(self._pairs)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the next turn

    @property
    def way(self) -> Way:
        """What the network does now."""
        return self._way

    def is_cut(self) -> bool:
        """Nothing gets through, and a client that tries is refused."""
        return self._way is Way.CUT

    def set(self, way: Way) -> None:
        """Let the network do this from now on."""
        self._way = way
        for gate, ways in ((self._inward, (Way.OPEN, Way.ONLY_IN)), (self._outward, (Way.OPEN, Way.ONLY_OUT))):
            (gate.set if way in ways else gate.clear)()
        if way is Way.CUT:
            for writers in self._pairs.values():
                for writer in writers:
                    writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs[task] = (writer,)
        try:
            if self.is_cut():
                return
            far_reader, far_writer = await asyncio.open_connection(*self.target)
            self._pairs[task] = (writer, far_writer)
            if self.is_cut():  # meanwhile
                return
            pumps = [
                asyncio.create_task(self._pump(reader, far_writer, self._inward)),
                asyncio.create_task(self._pump(far_reader, writer, self._outward)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # nobody listens at the target
        except asyncio.CancelledError:
            pass  # the proxy is closing; a cancelled callback of a stream server is reported as an error
        finally:
            for each in self._pairs.pop(task):
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await gate.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(chunk)
                await writer.drain()
