"""Everything that was promised, checked from outside: API objects, ledger, STATE and nodes' reports together."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from berth.auditor.core.reports import holds_of
from berth.bus import Bus, Entry
from berth.bus.errors import BusError
from berth.bus.port import FollowerPort
from berth.cli.errors import EXIT_BAD, CliError
from berth.contracts import buckets, kube
from berth.invariants import Report, World, check
from berth.invariants.facts import ENDED
from berth.invariants.payers import RULES_KEY, rules_in
from berth.invariants.world import read_objects
from berth.kube import resources

READ_TIMEOUT_S = 60.0
READ_AGAIN_S = 0.1
TRIES = 6
PAUSE_S = 1.0


class LiveSink:
    """The live keys of a bucket, with sequence and value."""

    def __init__(self) -> None:
        self.live: dict[str, tuple[int, bytes]] = {}

    def reset(self) -> None:
        """The bucket starts over."""
        self.live.clear()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        if entry.deleted:
            self.live.pop(entry.key, None)
        else:
            self.live[entry.key] = (entry.sequence, entry.value)

    def end(self, sequence: int) -> None:
        """The end was reached."""


async def read_bucket(bus: Bus, bucket: str, keys: str | Sequence[str] = ">") -> dict[str, tuple[int, bytes]]:
    """All of a bucket (of these keys) as its stream's leader has it now.

    Raises CliError when the bus does not give it.
    """
    sink = LiveSink()
    follower = bus.follow(bucket, sink, keys=keys)
    reading = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            await follower.ready.wait()
            await _until_all_is_read(follower)
        return dict(sink.live)
    except TimeoutError as error:
        raise CliError(f"{bucket} cannot be read within {READ_TIMEOUT_S:.0f} s", EXIT_BAD) from error
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _until_all_is_read(follower: FollowerPort) -> None:
    while True:
        with suppress(BusError):
            if await follower.has_all():
                return
        await asyncio.sleep(READ_AGAIN_S)


class Objects(Protocol):
    """Where the API's objects are read."""

    async def items(self, path: str) -> list[Any]:
        """Those of a list."""


async def judge(api: Objects, bus: Bus, *, excused_gangs: Collection[str] = ()) -> Report:
    """The invariants, once nothing is under way: what is broken is looked at again for a few seconds.

    `excused_gangs` (`namespace/name`) are those that nothing could keep whole.
    """
    report = await _look(api, bus, excused_gangs)
    for _ in range(TRIES):
        if report.ok:
            break
        await asyncio.sleep(PAUSE_S)
        report = await _look(api, bus, excused_gangs)
    return report


async def _look(api: Objects, bus: Bus, excused_gangs: Collection[str]) -> Report:
    # The ledger first: a decision that is read as open and bound a moment later is then seen as bound.
    ledger = await read_bucket(bus, buckets.LEDGER)
    believed = await read_bucket(bus, buckets.STATE)
    shares = await read_bucket(bus, buckets.QUOTA)

    async def items(resource: resources.Resource) -> list[Any]:
        return await api.items(resource.path())

    world = World.of(
        ledger=ledger,
        believed=believed,
        pods=await items(resources.PODS),
        nodes=await items(resources.NODES),
        devices=await items(resources.DEVICES),
        topologies=await items(resources.NODE_RESOURCE_TOPOLOGIES),
        quotas=await items(resources.ELASTIC_QUOTAS),
        pod_groups=await items(resources.POD_GROUPS),
        reservations=await items(resources.RESERVATIONS),
        excused_gangs=excused_gangs,
        quota_rules=rules_in(shares[RULES_KEY][1] if RULES_KEY in shares else None),
    )
    reports = read_objects(await items(resources.NODE_METRICS), kube.NodeMetric, world.unreadable)
    # A report is some seconds old, and may name a pod beside the one that was given its device after it had ended.
    holds = holds_of(reports, [pod for pod in world.pods if pod.status.phase not in ENDED])
    return check(replace(world, holds=holds))
