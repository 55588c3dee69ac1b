"""`/livez`, `/readyz` and `/metrics` of a service over HTTP.

The two health pages answer 200 or 503 with JSON naming each check, so that the reason is one `curl` away. They are
meant for kubelets, Prometheus and people inside the cluster: they hold no secrets, and take no input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

from berth.telemetry.health import Health, Verdict

if TYPE_CHECKING:
    from aiohttp import web

_REQUEST_BYTES_MAX: Final = 16 * 1024
_CLOSE_TIMEOUT_S: Final = 1.0


class HealthServer:
    """A running server; `port` is the one it really listens on."""

    def __init__(self, runner: web.AppRunner, host: str, port: int) -> None:
        self._runner = runner
        self.host = host
        self.port = port

    async def close(self) -> None:
        """Stop listening and drop what is open."""
        await self._runner.cleanup()


def health_app(health: Health, registry: CollectorRegistry = REGISTRY) -> web.Application:
    """The pages, as an application to which a service may add its own."""
    from aiohttp import web

    def answer(flag: str, verdicts: dict[str, Verdict]) -> web.Response:
        ok = all(verdict.ok for verdict in verdicts.values())
        checks = {name: {"ok": verdict.ok, "text": verdict.text} for name, verdict in verdicts.items()}
        body = msgspec.json.format(msgspec.json.encode({flag: ok, "checks": checks}), indent=2)
        return web.Response(body=body + b"\n", status=200 if ok else 503, content_type="application/json")

    async def livez(request: web.Request) -> web.Response:
        return answer("alive", health.liveness())

    async def readyz(request: web.Request) -> web.Response:
        return answer("ready", health.readiness())

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    app = web.Application(client_max_size=_REQUEST_BYTES_MAX)
    app.add_routes([web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app


async def serve_health(
    host: str, port: int, health: Health, *, registry: CollectorRegistry = REGISTRY, app: web.Application | None = None
) -> HealthServer:
    """Listen; port 0 takes any free one. Raises OSError when the address cannot be had."""
    from aiohttp import web

    runner = web.AppRunner(app or health_app(health, registry), access_log=None, shutdown_timeout=_CLOSE_TIMEOUT_S)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
    except BaseException:
        await runner.cleanup()
        raise
    address = runner.addresses[0]
    return HealthServer(runner, host, address[1])
