"""A store without its newest messages: the simulation's short way to it against a real server on an older store."""

from __future__ import annotations

import base64
from typing import Any

from tests.libs.bus.down import while_down
from tests.libs.bus.test_contract_writes import LEDGER, refused

from berth.bus import Bus
from berth.testing.nats_server import NatsServer
from berth.testing.simulation.nats.loopback import LoopbackServer
from berth.testing.views import eventually

STREAM = "KV_berth_ledger"
EXPECT = "Nats_Expected_Last_Subject_Sequence"


async def lose(bus: Bus, server: NatsServer | LoopbackServer, saved: Any, count: int) -> None:
    """Start it without the `count` newest messages; a real one on the store of before they came."""
    if isinstance(server, LoopbackServer):
        await while_down(bus, server, lambda: server.nats.lose_tail(STREAM, count))
    else:
        await while_down(bus, server, lambda: server.restore_store(saved))


async def stored(raw: Any) -> tuple[dict[str, int], dict[int, tuple[str, bytes]]]:
    """What the stream says of itself, and each message that is there."""
    state = (await raw.api(f"STREAM.INFO.{STREAM}"))["state"]
    found: dict[int, tuple[str, bytes]] = {}
    for sequence in range(1, state["last_seq"] + 1):
        answer = await raw.api(f"STREAM.MSG.GET.{STREAM}", {"seq": sequence})
        if "message" in answer:
            message = answer["message"]
            found[sequence] = (message["subject"].removeprefix(LEDGER), base64.b64decode(message.get("data", "")))
    told = ("messages", "bytes", "first_seq", "last_seq", "num_subjects", "num_deleted")
    return {name: state.get(name, 0) for name in told}, found


async def test_what_the_lost_messages_had_replaced_is_there_again(
    raw: Any, bus: Bus, nats_server: NatsServer | LoopbackServer
) -> None:
    await raw.put(LEDGER + "kept", b"1", Nats_Msg_Id="k")
    await raw.put(LEDGER + "changed", b"2")
    await raw.put(LEDGER + "deleted", b"3")
    await raw.put(LEDGER + "twice", b"4")
    await raw.put(LEDGER + "changed", b"5")
    saved, before = await while_down(bus, nats_server, nats_server.save_store), await stored(raw)
    assert list(before[1]) == [1, 3, 4, 5]

    await raw.put(LEDGER + "new", b"6", Nats_Msg_Id="n")
    await raw.put(LEDGER + "changed", b"7")
    await raw.put(LEDGER + "twice", b"8")
    await raw.put(LEDGER + "twice", b"9")
    await raw.put(LEDGER + "deleted", b"", KV_Operation="DEL")
    for number in (1, 2):
        headers = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": str(number)}
        await raw.put(LEDGER + f"batch.{number}", **headers, **({"Nats_Batch_Commit": "1"} if number == 2 else {}))
    assert (await stored(raw))[0]["last_seq"] == 12
    await lose(bus, nats_server, saved, 7)
    assert await stored(raw) == before


async def test_a_server_without_its_newest_messages_gives_their_sequences_again(
    raw: Any, bus: Bus, nats_server: NatsServer | LoopbackServer
) -> None:
    await raw.put(LEDGER + "a", b"1", Nats_Msg_Id="kept")
    saved = await while_down(bus, nats_server, nats_server.save_store)
    await raw.put(LEDGER + "a", b"2", Nats_Msg_Id="lost")
    await raw.put(LEDGER + "b", b"3")
    await lose(bus, nats_server, saved, 2)
    assert await raw.put(LEDGER + "a", **{EXPECT: "2"}) == refused(10071, "wrong last sequence: 1")
    assert await raw.put(LEDGER + "b", **{EXPECT: "3"}) == refused(10071, "wrong last sequence: 0")
    assert await raw.put(LEDGER + "a", Nats_Msg_Id="kept") == {"seq": 1, "duplicate": True}
    assert await raw.put(LEDGER + "a", Nats_Msg_Id="lost", **{EXPECT: "1"}) == {"seq": 2}
    assert await raw.put(LEDGER + "b", **{EXPECT: "0"}) == {"seq": 3}


async def test_a_consumer_goes_on_at_the_messages_that_take_the_place_of_the_lost(
    raw: Any, bus: Bus, nats_server: NatsServer | LoopbackServer
) -> None:
    config = {"durable_name": "d", "ack_policy": "explicit", "deliver_policy": "all", "num_replicas": 1}
    await raw.put(LEDGER + "a", b"1")
    made = await raw.api(f"CONSUMER.DURABLE.CREATE.{STREAM}.d", {"stream_name": STREAM, "config": config})
    assert "error" not in made
    saved = await while_down(bus, nats_server, nats_server.save_store)
    await raw.put(LEDGER + "b", b"2")
    await lose(bus, nats_server, saved, 1)
    assert (await raw.api(f"CONSUMER.INFO.{STREAM}.d"))["num_pending"] == 1
    await raw.put(LEDGER + "c", b"3")
    found = await raw.listen("_INBOX.losses")
    await bus._link.publish(
        f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.d", b'{"batch": 5, "expires": 1000000000}', reply="_INBOX.losses"
    )
    await eventually(lambda: len(found) >= 2)
    assert [each.data for each in found[:2]] == [b"1", b"3"]
