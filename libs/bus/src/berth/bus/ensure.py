"""Make the streams on the server what the topology says: create, compare, update; safe to run by many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from berth.bus import jetstream
from berth.bus.errors import (
    ApiError,
    BusError,
    Denied,
    Disconnected,
    NoAnswer,
    ServerTooOld,
    TimedOut,
    TopologyError,
    describe,
)
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.topology import SERVER_MIN, Bucket, Stream

log = FieldLogger(__name__)

NAME_IN_USE = 10058
NOT_ENOUGH_STORAGE = frozenset({10023, 10028, 10047})
PAUSE_S = 0.5


async def ensure(link: Link, topology: Iterable[Bucket | Stream], replicas: int) -> None:
    """Bring every stream of the topology into being, and into shape.

    Waits while the bus is away or JetStream is still starting. Raises ServerTooOld, TopologyError for a stream that
    cannot be changed, and Denied when this user may neither read nor make streams.
    """
    await check_version(link)
    for item in topology:
        await _ensure_one(link, item.config(replicas))


async def check_version(link: Link) -> None:
    """Raises ServerTooOld for a server before `SERVER_MIN`."""
    while True:
        await link.connected.wait()
        try:
            version = link.client.connected_server_version
            break
        except Disconnected:
            continue
    if (version.major, version.minor) < SERVER_MIN:
        need = ".".join(map(str, SERVER_MIN))
        raise ServerTooOld(
            f"nats-server {version.major}.{version.minor}.{version.patch} is too old: Berth needs {need} or newer "
            "(atomic batches, TTL per message)"
        )


async def _ensure_one(link: Link, wanted: dict[str, Any]) -> None:
    name = wanted["name"]
    while True:
        await link.connected.wait()
        try:
            await _create_or_update(link, wanted)
            return
        except ApiError as error:
            if error.code in NOT_ENOUGH_STORAGE:
                size = f"{wanted['max_bytes'] >> 20} MiB for " if wanted.get("max_bytes", 0) > 0 else ""
                raise TopologyError(
                    f"nats-server has no space on its disk ({size}stream {name}): {error.message}"
                ) from error
            if error.code != 0 and error.message and not _is_temporary(error):
                raise TopologyError(f"stream {name}: {error}") from error
            log.warning("cannot make or update a stream, trying again", stream=name, error=str(error))
        except Denied:
            if await _exists(link, name):
                return
            raise
        except (Disconnected, NoAnswer, TimedOut) as error:
            log.warning("cannot make or update a stream, trying again", stream=name, error=describe(error))
        await asyncio.sleep(PAUSE_S)


def _is_temporary(error: ApiError) -> bool:
    return error.code in (10005, 10008, 10009) or "temporarily" in error.message


async def _create_or_update(link: Link, wanted: dict[str, Any]) -> None:
    name = wanted["name"]
    try:
        info = await jetstream.stream_info(link, name)
    except ApiError as error:
        if error.code != jetstream.STREAM_NOT_FOUND:
            raise
        try:
            await jetstream.call(link, f"STREAM.CREATE.{name}", wanted)
            log.info("made a stream", stream=name)
            return
        except ApiError as refused:
            if refused.code != NAME_IN_USE:
                raise
            info = await jetstream.stream_info(link, name)
    changed = differences(info.config, wanted)
    if changed:
        # Settings that the topology does not name stay what an operator made them.
        await jetstream.call(link, f"STREAM.UPDATE.{name}", info.config | wanted)
        log.info("updated a stream", stream=name, settings=", ".join(changed))


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Names of the wanted settings that the found configuration lacks; the server leaves out false and zero."""
    return [name for name, value in wanted.items() if found.get(name, type(value)()) != value]


async def _exists(link: Link, name: str) -> bool:
    """A service without the right to make streams goes on with one that is there."""
    try:
        await jetstream.stream_info(link, name)
    except BusError:
        return False
    return True
