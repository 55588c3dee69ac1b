"""What a failed run leaves behind: the logs of every process, and what each server of the bus holds by its own word."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import aiohttp
from tests.chaos.field import Field
from tests.chaos.table import FILE

from berth.testing.nats_cluster import NAMES, NatsCluster
from berth.testing.nats_server import NatsServer

HELD = "jsz?streams=1&consumers=1&config=1&raft=1"
"""Of its monitoring: its own copy of each stream and consumer, whoever leads them."""


async def keep(field: Field, name: str) -> Path:
    """Copy it to a folder of the fault's own, in place of what an earlier run left there."""
    folder = FILE.with_suffix("") / re.sub(r"\W+", "-", name).strip("-")
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    await asyncio.to_thread(shutil.copytree, field.whole.stack.home / "logs", folder / "services")
    for server in _servers(field):
        await asyncio.to_thread(shutil.copy, server.log, folder / f"{server.name}.log")
        try:
            async with field.whole.session.get(f"http://127.0.0.1:{server.monitor_port}/{HELD}") as answer:
                held = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            held = str(error).encode()
        await asyncio.to_thread((folder / f"{server.name}.json").write_bytes, held)
    return folder


def _servers(field: Field) -> list[NatsServer]:
    bus = field.bus
    return [bus[name] for name in NAMES] if isinstance(bus, NatsCluster) else [bus]
