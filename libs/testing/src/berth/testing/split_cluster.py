"""Three real nats-servers with a proxy in each way between two of them: one can be cut off, clients do not notice.

async with SplitCluster(lines) as split:
    split.servers["nats-2"].url
    split.set("nats-2", Way.CUT)      # from the others; Way.OPEN heals
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

from berth.testing.nats_cluster import NAMES, NatsCluster
from berth.testing.tcp_proxy import TcpProxy, Way

ADVERTISED = "127.0.0.1:9"
"""What servers tell each other of the others leads nowhere, so that nothing goes around the proxies."""


class SplitCluster:
    """An asynchronous context. `config`: more lines for the configuration of each server."""

    def __init__(self, config: str = "") -> None:
        cluster = f'cluster {{ name: split, host: 127.0.0.1, port: $ROUTE_PORT, advertise: "{ADVERTISED}", '
        self.servers = NatsCluster(
            f"{cluster}no_advertise: true, routes: [ $ROUTES ] }}\n{config}", scheme="nats", between=self._between
        )
        self._ways: dict[tuple[str, str], TcpProxy] = {}
        self._stack = AsyncExitStack()

    def _between(self, one: str, other: str, port: int) -> int:
        way = self._ways[one, other]
        way.target = ("127.0.0.1", port)
        return way.port

    async def __aenter__(self) -> SplitCluster:
        for ends in [(one, other) for one in NAMES for other in NAMES]:
            self._ways[ends] = await self._stack.enter_async_context(TcpProxy("127.0.0.1", 9))
        self._stack.enter_context(self.servers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def set(self, name: str, way: Way) -> None:
        """What the network does between one server and the others from now on."""
        for ends, proxy in self._ways.items():
            if name in ends:
                proxy.set(way)

    def save(self, names: Iterable[str]) -> dict[str, Path]:
        """The stores of these as they are now."""
        saved = {}
        for name in names:
            server = self.servers[name]
            server.pause()
            try:
                saved[name] = server.save_store()
            finally:
                server.resume()
        return saved

    def restore(self, saved: Mapping[str, Path]) -> None:
        """Kill these servers, and start them on the stores of before."""
        for name, store in saved.items():
            self.servers[name].kill()
            self.servers[name].restore_store(store)
        for name in saved:
            self.servers[name].start()
