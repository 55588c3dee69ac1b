"""Wait until Berth knows a cluster: device totals stand in the status of every node that has a Device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from berth.cli.errors import EXIT_BAD, CliError
from berth.cli.load.api import Api
from berth.contracts import names

NODES = "/api/v1/nodes"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
POLL_S = 0.3


class _Meta(msgspec.Struct):
    name: str


class _Status(msgspec.Struct):
    allocatable: dict[str, str] = {}


class _Object(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _List(msgspec.Struct):
    items: list[_Object]


async def until_counted(api: Api, *, timeout_s: float, say: Callable[[int, int], None]) -> None:
    """Return when every node with a Device shows GPU compute. `say` gets how many do, of how many."""
    decode = msgspec.json.Decoder(_List).decode
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    wanted = {device.metadata.name for device in decode(await api.raw(DEVICES)).items}
    while True:
        nodes = decode(await api.raw(NODES)).items
        done = sum(1 for n in nodes if n.metadata.name in wanted and names.GPU_CORE in n.status.allocatable)
        say(done, len(wanted))
        if done >= len(wanted):
            return
        if loop.time() > deadline:
            raise CliError(
                f"only {done} of {len(wanted)} nodes show their devices after {timeout_s:.0f} s; "
                "`berth status` shows which service is behind, and --keep leaves the logs",
                EXIT_BAD,
            )
        await asyncio.sleep(POLL_S)
