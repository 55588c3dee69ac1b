"""Three real nats-servers with routes between them, on loopback, for tests of what a cluster adds: copies and leaders.

with NatsCluster(config) as cluster:        # config(name) -> lines for the configuration of that server
    cluster.url                             # all three, separated by commas
    cluster["nats-1"].kill()                # each is a NatsServer
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from types import TracebackType

from berth.testing.nats_server import NatsServer

NAMES = ("nats-0", "nats-1", "nats-2")
TRIES = 3


class NatsCluster:
    """Three servers that know each other's routes.

    Args:
        config: lines for the configuration of each server. `$ROUTES` and `$ROUTE_PORT` stand for what only this class
            knows: the addresses of all routes, and the port of this server's own.
        scheme: of the clients' addresses.
        between: the port by which one server is to reach another's route, given the names of both and the port itself;
            for something between the two.
    """

    def __init__(
        self,
        config: str,
        *,
        scheme: str = "tls",
        between: Callable[[str, str, int], int] = lambda one, other, port: port,
    ) -> None:
        self._config = config
        self._scheme = scheme
        self._between = between
        self._servers: dict[str, NatsServer] = {}
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return ",".join(f"{self._scheme}://127.0.0.1:{server.port}" for server in self._servers.values())

    def __getitem__(self, name: str) -> NatsServer:
        return self._servers[name]

    def _try_start(self) -> None:
        ports = dict(zip(NAMES, _free_ports(len(NAMES)), strict=True))
        for name, port in ports.items():
            ways = [self._between(name, other, its) for other, its in ports.items()]
            routes = ", ".join(f"nats-route://127.0.0.1:{way}" for way in ways)
            config = self._config.replace("$ROUTES", routes).replace("$ROUTE_PORT", str(port))
            self._servers[name] = server = NatsServer(name=name, config=config)
            self._stack.callback(server.close)
        for server in self._servers.values():
            server.start()

    def __enter__(self) -> NatsCluster:
        for left in reversed(range(TRIES)):
            try:
                self._try_start()
                break
            except RuntimeError:  # somebody took a port between finding and using it
                self._stack.close()
                if not left:
                    raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()


def _free_ports(count: int) -> list[int]:
    """Routes are written into the configuration before any server runs, so their ports cannot be left to it."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
