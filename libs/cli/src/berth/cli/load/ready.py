"""Wait until Berth knows a cluster: device totals stand in the status of every node that has a Device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from berth.cli.errors import EXIT_BAD, CliError
from berth.cli.load.api import Api
from berth.vendors.sums import owned

NODES = "/api/v1/nodes"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
POLL_S = 0.3


class _Meta(msgspec.Struct):
    name: str


class _Status(msgspec.Struct):
    allocatable: dict[str, str] = {}


class _Node(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _Nodes(msgspec.Struct):
    items: list[_Node]


class _Slot(msgspec.Struct):
    resources: dict[str, str] = {}


class _Spec(msgspec.Struct):
    devices: list[_Slot] = []


class _Device(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Devices(msgspec.Struct):
    items: list[_Device]


async def until_counted(api: Api, *, timeout_s: float, say: Callable[[int, int], None]) -> None:
    """Return when every node shows something of what its Device has for it. `say` gets how many do, of how many."""
    decode = msgspec.json.Decoder(_Nodes).decode
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    listed = msgspec.json.decode(await api.raw(DEVICES), type=_Devices).items
    reported = {each.metadata.name: {name for slot in each.spec.devices for name in slot.resources} for each in listed}
    summed = owned()
    wanted = {node: names & summed for node, names in reported.items() if names & summed}
    while True:
        nodes = decode(await api.raw(NODES)).items
        done = sum(1 for n in nodes if wanted.get(n.metadata.name, set()) & n.status.allocatable.keys())
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
