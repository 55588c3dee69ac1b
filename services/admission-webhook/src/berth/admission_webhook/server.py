"""The door that the API server knocks at: HTTPS on a port of its own. Every request is answered from memory."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

from aiohttp import web

from berth.contracts.errors import InvalidMessage
from berth.rules.webhooks import PATHS
from berth.telemetry import counter, histogram

BODY_BYTES_MAX: Final = 8 << 20
"""An object of the API server's largest size, twice (as it is and as it was), and what is around it."""
_CLOSE_TIMEOUT_S: Final = 2.0
REVIEWS = counter("berth_admission_reviews_total", "Requests that were answered.", ["path", "outcome"])
REVIEWING = histogram(
    "berth_admission_review_seconds",
    "Time to answer one request.",
    ["path"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0),
)

Answer = Callable[[str, bytes], tuple[bytes, str]]
"""From path and body to the answer and its outcome in a word. Raises InvalidMessage for what is no review."""


class Server:
    """A server that is not started yet. `port` is the one it really listens on, once it does."""

    def __init__(self, answer: Answer) -> None:
        self.port = 0
        self._answer = answer
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.add_routes([web.post(path, self._handle) for path in sorted(PATHS)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_TIMEOUT_S)

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> None:
        """Listen. Raises OSError when the address cannot be had."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=context).start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening; what is being answered is answered."""
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        path, body = request.path, await request.read()
        try:
            with REVIEWING.labels(path).time():
                answer, outcome = self._answer(path, body)
        except InvalidMessage as error:
            REVIEWS.labels(path, "invalid").inc()
            return web.Response(status=400, text=f"{error}\n")
        REVIEWS.labels(path, outcome).inc()
        return web.Response(body=answer, content_type="application/json")
