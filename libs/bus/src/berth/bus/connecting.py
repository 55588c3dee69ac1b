"""From addresses and credentials to a connected client, and to its end.

Connecting never gives up. Credentials are read anew for every try, so that a file mended meanwhile is enough.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as randomness
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from nats.errors import Error as NatsError

from berth.bus.client import BusClient, ClientFactory
from berth.bus.logs import FieldLogger
from berth.bus.port import Clock
from berth.bus.settings import BusSettings

log = FieldLogger(__name__)

PING_INTERVAL_S = 5
RECONNECT_FIRST_S = 0.02


class Connector:
    """Makes one client after the other. `on_error` and `on_lost` hear from each of them."""

    def __init__(
        self,
        settings: BusSettings,
        *,
        service: str,
        inbox_prefix: str,
        clock: Clock,
        random: randomness.Random,
        client: ClientFactory,
        on_error: Callable[[Exception], Awaitable[None]],
        on_lost: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._service = service
        self._inbox_prefix = inbox_prefix
        self._clock = clock
        self._random = random
        self._make_client = client
        self._on_error = on_error
        self._on_lost = on_lost

    async def dial(self) -> BusClient:
        """Try until a server takes us; pauses grow and vary."""
        pause_s, attempts = RECONNECT_FIRST_S, 0
        while True:
            client = self._make_client(self._settings)
            try:
                async with asyncio.timeout(self._settings.connect_timeout_s * 2):
                    await client.connect(**self._options())
                if client.is_connected:
                    return client
                problem: object = client.last_error or "connection closed"
            except (TimeoutError, NatsError, OSError, ValueError) as error:
                problem = error if str(error) else type(error).__name__
            except asyncio.CancelledError:
                await shut(client)
                raise
            await shut(client)
            level = logging.WARNING if attempts % 20 == 0 else logging.DEBUG
            log.at(level, "cannot connect to the bus, trying again", problem=problem)
            attempts += 1
            await self._clock.sleep(pause_s * self._random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, self._settings.reconnect_max_s)

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        options: dict[str, Any] = {
            "servers": settings.urls,
            "name": settings.name or self._service,
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0.05,
            "connect_timeout": settings.connect_timeout_s,
            "ping_interval": PING_INTERVAL_S,
            "max_outstanding_pings": 2,
            "inbox_prefix": self._inbox_prefix,
            "error_cb": self._on_error,
            "disconnected_cb": self._on_lost,
            "flusher_queue_size": 8192,
            "pending_size": 8 * 1024 * 1024,
        }
        if settings.user:
            options["user"] = settings.user
        if settings.password_file:
            options["password"] = Path(settings.password_file).read_text().strip()
        if settings.creds_file:
            options["user_credentials"] = settings.creds_file
        if settings.ca_file:
            try:
                options["tls"] = ssl.create_default_context(cafile=settings.ca_file)
            except OSError as error:  # it does not say which file
                raise OSError(f"{error}: {settings.ca_file!r}") from error
        return options


async def shut(client: BusClient) -> None:
    """Close a client, whatever state it is in, and never wait long for it."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(1):
            await client.close()
    transport = getattr(client, "_transport", None)
    if transport:
        with contextlib.suppress(Exception):
            transport.close()


async def barrier(client: BusClient, timeout_s: int) -> None:
    """Return once the server has taken everything sent so far.

    Twice, because the client's ping overtakes what waits in its own buffer; the second one does not.
    """
    await client.flush(timeout=timeout_s)
    await client.flush(timeout=timeout_s)
