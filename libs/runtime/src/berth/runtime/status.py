"""How a service answers questions: everybody the one for its status, some others of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from berth.bus.port import Endpoint
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.runtime.context import Context

Facts = Mapping[str, str | int | float]


async def serve_status(
    context: Context[Any],
    facts: Callable[[], Facts],
    *,
    active: Callable[[], bool] = lambda: True,
    ready: Callable[[], bool] | None = None,
    others: Mapping[str, Endpoint] | None = None,
    node: str = "",
) -> None:
    """Answer `berth.v1.svc.<service>.status`, and the `others` by the last word of their subjects, from now on.

    `facts`: figures for people. `active`: this replica does the work. `ready`: by default what the health checks say.
    `node`: the one that this instance is the agent of, which is silent when another one is asked about.
    """

    async def status(payload: bytes) -> bytes | None:
        if node and _asked_about(payload) not in ("", node):
            return None
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


def _asked_about(payload: bytes) -> str:
    """The node that a question is about; empty: any. Whoever asks by hand may send anything."""
    try:
        return decode(payload, StatusQuestion).node
    except InvalidMessage:
        return ""


def version_of(service: str) -> str:
    """The version of the installed package; 0.0.0 where there is none."""
    try:
        return version(f"berth-{service}")
    except PackageNotFoundError:
        return "0.0.0"
