"""What time alone ends, and what waits for an acknowledgement: the same from the real server and the simulated one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.libs.bus.test_contract_consumers import COMMANDS, INBOX, NANO, pull
from tests.libs.bus.test_contract_writes import LEDGER, refused

from berth.testing.views import eventually

SILENCE_S = 10.0
WINDOW_S = 0.5


@pytest.mark.slow
async def test_a_batch_that_falls_silent_is_given_up(raw: Any) -> None:
    def batch(name: str, number: int, **more: str) -> dict[str, str]:
        return {"Nats_Batch_Id": name, "Nats_Batch_Sequence": str(number), **more}

    for name in ("silent", "kept"):
        assert await raw.put(LEDGER + "a", **batch(name, 1)) is None
    await asyncio.sleep(SILENCE_S * 0.1)
    assert await raw.put(LEDGER + "b", **batch("silent", 2)) is None  # which begins the silence anew
    await asyncio.sleep(SILENCE_S * 0.3)
    assert await raw.put(LEDGER + "b", **batch("kept", 2)) is None
    await asyncio.sleep(SILENCE_S * 0.7 + 1.0)
    incomplete = refused(10176, "atomic publish batch is incomplete")
    assert await raw.put(LEDGER + "d", **batch("silent", 3, Nats_Batch_Commit="1")) == incomplete
    assert (await raw.api("STREAM.INFO.KV_berth_ledger"))["state"]["last_seq"] == 0
    committed = await raw.put(LEDGER + "c", **batch("kept", 3, Nats_Batch_Commit="1"))
    assert committed == {"seq": 3, "batch": "kept", "count": 3}
    assert await raw.put(LEDGER + "d", **batch("silent", 1, Nats_Batch_Commit="1")) == {
        "seq": 4,
        "batch": "silent",
        "count": 1,
    }


async def test_an_identity_is_forgotten_when_its_window_is_over(raw: Any) -> None:
    config = {"name": "w", "subjects": ["w.>"], "duplicate_window": int(WINDOW_S * NANO), "num_replicas": 1}
    assert "error" not in await raw.api("STREAM.CREATE.w", config | {"retention": "limits", "storage": "file"})
    assert await raw.put("w.a", Nats_Msg_Id="a") == {"seq": 1}
    assert await raw.put("w.a", Nats_Msg_Id="a") == {"seq": 1, "duplicate": True}
    await asyncio.sleep(WINDOW_S * 3)
    assert await raw.put("w.a", Nats_Msg_Id="a") == {"seq": 2}


async def test_no_more_is_delivered_than_may_wait_for_an_acknowledgement(raw: Any, bus: Any) -> None:
    found = await raw.listen(INBOX)
    await raw.api("CONSUMER.CREATE.BERTH_CMD.d", pull(max_ack_pending=2, ack_wait=30 * NANO))
    for number in range(4):
        await raw.put(f"{COMMANDS}x{number}", b"%d" % number)
    query = b'{"batch": 4, "expires": 5000000000}'
    await bus._link.publish("$JS.API.CONSUMER.MSG.NEXT.BERTH_CMD.d", query, reply=INBOX)
    await eventually(lambda: len(found) >= 2)
    await asyncio.sleep(0.3)
    assert [each.data for each in found] == [b"0", b"1"]
    await bus._link.request(found[0].reply, b"+ACK", timeout_s=5)
    await eventually(lambda: len(found) >= 3)
    await asyncio.sleep(0.3)
    assert [each.data for each in found] == [b"0", b"1", b"2"]
    info = await raw.api("CONSUMER.INFO.BERTH_CMD.d")
    assert (info["num_ack_pending"], info["num_pending"]) == (2, 1)


async def test_a_message_is_delivered_as_often_as_its_consumer_says(raw: Any, bus: Any) -> None:
    found = await raw.listen(INBOX)
    await raw.api("CONSUMER.CREATE.BERTH_CMD.d", pull(max_deliver=2, ack_wait=30 * NANO))
    await raw.put(f"{COMMANDS}x", b"x")
    for times in (1, 2):
        query = b'{"batch": 1, "expires": 5000000000}'
        await bus._link.publish("$JS.API.CONSUMER.MSG.NEXT.BERTH_CMD.d", query, reply=INBOX)
        await eventually(lambda times=times: len(found) >= times)
        await bus._link.request(found[-1].reply, b"-NAK", timeout_s=5)
    query = b'{"batch": 1, "expires": 500000000}'
    await bus._link.publish("$JS.API.CONSUMER.MSG.NEXT.BERTH_CMD.d", query, reply=INBOX)
    await eventually(lambda: len(found) >= 3)
    assert [each.data for each in found[:2]] == [b"x", b"x"]
    assert b"408" in found[2].raw_headers
