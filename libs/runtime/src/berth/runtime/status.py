"""How a service answers questions: everybody the one for its status, some others of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from berth.contracts.codec import encode
from berth.contracts.question import StatusAnswer
from berth.runtime.context import Context

Facts = Mapping[str, str | int | float]


async def serve_status(
    context: Context[Any],
    facts: Callable[[], Facts],
    *,
    active: Callable[[], bool] = lambda: True,
    ready: Callable[[], bool] | None = None,
    others: Mapping[str, Callable[[bytes], Awaitable[bytes]]] | None = None,
) -> None:
    """Answer `berth.v1.svc.<service>.status`, and the `others` by the last word of their subjects, from now on.

    `facts`: figures for people. `active`: this replica does the work. `ready`: by default what the health checks say.
    """

    async def status(_: bytes) -> bytes:
        return encode(
            StatusAnswer(
                service=context.service,
                instance=context.instance,
                active=active(),
                ready=context.health.ready if ready is None else ready(),
                facts=dict(facts()),
            )
        )

    await context.bus.serve(context.service, version_of(context.service), {**(others or {}), "status": status})


def version_of(service: str) -> str:
    """The version of the installed package; 0.0.0 where there is none."""
    try:
        return version(f"berth-{service}")
    except PackageNotFoundError:
        return "0.0.0"
