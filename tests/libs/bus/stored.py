"""What a bucket holds, read straight from the server and not through what is tested."""

from __future__ import annotations

from berth.bus import Bus, jetstream

STATE = "berth_state"
LEASE = "berth_lease"  # waits for the disk, so a kill loses nothing that was acknowledged


async def read(bus: Bus, key: str, bucket: str = STATE) -> bytes | None:
    stored = await jetstream.newest(bus._link, bucket, key)
    return None if stored is None or stored.deleted else stored.value


async def last_sequence(bus: Bus, bucket: str = STATE) -> int:
    return (await jetstream.stream_info(bus._link, f"KV_{bucket}")).state.last_seq
