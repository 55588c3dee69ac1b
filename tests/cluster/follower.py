"""A program outside of the cluster that follows placements by TLS, as docs/subscribe.md has it: prints a line for each.

Arguments: URL, CA file, password file. The server keeps its position, so nothing is missed while the bus is away; what
is sent again after a lost acknowledgement has the same `sequence`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from pathlib import Path

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy


async def _quiet(error: Exception) -> None:
    """The bus may be away for a while."""


async def main(url: str, ca_file: str, password_file: str) -> None:
    """Until it is killed."""
    bus = await nats.connect(
        url,
        tls=ssl.create_default_context(cafile=ca_file),
        user="reader",
        password=Path(password_file).read_text(),
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.5,
        error_cb=_quiet,
    )
    stream = bus.jetstream(domain="berth")
    config = ConsumerConfig(
        durable_name="real-node",
        filter_subject="berth.v1.evt.placement.>",
        deliver_policy=DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
    )
    await stream.add_consumer("BERTH_EVT", config)
    events = await stream.pull_subscribe_bind("real-node", "BERTH_EVT")
    while True:
        try:
            messages = await events.fetch(100, timeout=2)
        except TimeoutError:  # nothing new, or the bus is away
            continue
        except nats.errors.Error:
            await asyncio.sleep(0.5)
            continue
        for message in messages:
            event = {"sequence": message.metadata.sequence.stream, **json.loads(message.data)}
            print(json.dumps(event), flush=True)
            await message.ack()


asyncio.run(main(*sys.argv[1:]))
