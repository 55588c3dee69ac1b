"""What consumers deliver and say: the same from the real server and from the simulated one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from berth.testing.views import eventually, eventually_async

STATE = "$KV.berth_state."
COMMANDS = "berth.v1.cmd."
NANO = 1_000_000_000
INBOX = "_INBOX_tester.mine"


def push(**more: Any) -> dict[str, Any]:
    config = {
        "name": "c",
        "deliver_subject": INBOX,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": 1,
        "ack_policy": "none",
        "max_deliver": 1,
        "replay_policy": "instant",
        "filter_subject": STATE + ">",
        "flow_control": True,
        "idle_heartbeat": NANO // 2,
        "inactive_threshold": NANO,
        "mem_storage": True,
        "num_replicas": 1,
    }
    return {"stream_name": "KV_berth_state", "config": config | more, "action": "create"}


def pull(action: str = "", **more: Any) -> dict[str, Any]:
    config = {
        "durable_name": "d",
        "name": "d",
        "ack_policy": "explicit",
        "ack_wait": NANO,
        "deliver_policy": "all",
        "replay_policy": "instant",
        "filter_subject": COMMANDS + ">",
        "max_deliver": -1,
        "max_ack_pending": 1000,
    }
    return {"stream_name": "BERTH_CMD", "config": config | more, "action": action}


def shown(found: list[Any]) -> list[tuple[str, str, bytes]]:
    """Subject, reply without the time in it, data; of a control message the headers instead."""
    shapes = []
    for each in found:
        tokens = each.reply.split(".")
        reply = ".".join([*tokens[4:7], tokens[8]]) if len(tokens) == 9 else each.reply
        shapes.append((each.subject, reply, each.data or each.raw_headers))
    return shapes


async def test_a_push_consumer_delivers_in_order_and_then_sends_heartbeats(raw: Any) -> None:
    for number in range(3):
        await raw.put(f"{STATE}k{number}", b"%d" % number)
    found = await raw.listen(INBOX)
    answer = await raw.api(f"CONSUMER.CREATE.KV_berth_state.c.{STATE}>", push())
    assert (answer["name"], answer["num_pending"], answer["push_bound"]) == ("c", 3, True)
    assert answer["delivered"] == {"consumer_seq": 0, "stream_seq": 0}
    await eventually(lambda: len(found) >= 4)
    heartbeat = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 3\r\nNats-Last-Stream: 3\r\n\r\n"
    assert shown(found)[:4] == [
        (f"{STATE}k0", "1.1.1.2", b"0"),
        (f"{STATE}k1", "1.2.2.1", b"1"),
        (f"{STATE}k2", "1.3.3.0", b"2"),
        (INBOX, "", heartbeat),
    ]
    info = await raw.api("CONSUMER.INFO.KV_berth_state.c")
    assert (info["delivered"]["consumer_seq"], info["delivered"]["stream_seq"], info["num_pending"]) == (3, 3, 0)
    assert (await raw.api("CONSUMER.CREATE.KV_berth_state.c", push(opt_start_seq=2)))["error"]["err_code"] == 10148
    assert (await raw.api("CONSUMER.CREATE.KV_none.c", push()))["error"]["err_code"] == 10056
    nowhere = push() | {"stream_name": "KV_none"}
    assert (await raw.api("CONSUMER.CREATE.KV_none.c", nowhere))["error"]["err_code"] == 10059
    assert (await raw.api("CONSUMER.DELETE.KV_berth_state.c"))["success"]
    for verb in ("INFO", "DELETE"):
        assert (await raw.api(f"CONSUMER.{verb}.KV_berth_state.c"))["error"]["err_code"] == 10014
    count = len(found)
    await raw.put(f"{STATE}k4")
    await asyncio.sleep(0.6)
    assert len(found) == count


async def test_a_push_consumer_behind_the_end_waits_for_its_sequence(raw: Any) -> None:
    await raw.put(f"{STATE}a")
    found = await raw.listen(INBOX)
    answer = await raw.api(
        "CONSUMER.CREATE.KV_berth_state.c", push(opt_start_seq=3, idle_heartbeat=0, flow_control=False)
    )
    assert answer["num_pending"] == 0
    await raw.put(f"{STATE}b")
    await raw.put(f"{STATE}c", b"third")
    await eventually(lambda: found)
    assert [each.data for each in found] == [b"third"]


async def test_a_push_consumer_without_a_listener_goes_after_a_while(raw: Any, bus: Any) -> None:
    found: list[Any] = []
    subscription = await bus._link.subscribe(INBOX, found.append)
    await raw.api("CONSUMER.CREATE.KV_berth_state.c", push())
    await eventually(lambda: found)
    await subscription.unsubscribe()
    info = await raw.api("CONSUMER.INFO.KV_berth_state.c")
    assert info["name"] == "c"
    for _ in range(60):
        info = await raw.api("CONSUMER.INFO.KV_berth_state.c")
        if "error" in info:
            break
        await asyncio.sleep(0.1)
    assert info["error"]["err_code"] == 10014


async def test_flow_control_stalls_a_reader_that_does_not_answer(raw: Any, bus: Any) -> None:
    for number in range(40):
        await raw.put(f"{STATE}k{number:02}", b"x" * 100_000)
    found = await raw.listen(INBOX)
    await raw.api("CONSUMER.CREATE.KV_berth_state.c", push())

    def stalled() -> list[str]:
        return [each.headers["Nats-Consumer-Stalled"] for each in found if "Nats-Consumer-Stalled" in each.headers]

    await eventually(stalled)
    requests = [(number, each) for number, each in enumerate(found) if b"FlowControl Request" in each.raw_headers]
    assert [number for number, _ in requests] == [11]
    assert stalled()[0] == requests[0][1].reply
    assert sum(bool(each.data) for each in found) == 21
    await bus._link.publish(stalled()[0])
    await eventually(lambda: sum(bool(each.data) for each in found) == 40)


async def test_pull_requests_end_with_a_status(raw: Any, bus: Any) -> None:
    found = await raw.listen(INBOX)
    answer = await raw.api("CONSUMER.CREATE.BERTH_CMD.d", pull())
    assert (answer["num_pending"], answer["num_waiting"]) == (0, 0)

    async def ask(**query: Any) -> None:
        body = json.dumps(query).encode()
        await bus._link.publish("$JS.API.CONSUMER.MSG.NEXT.BERTH_CMD.d", body, reply=INBOX)

    async def next_ones(count: int) -> list[bytes]:
        await eventually(lambda: len(found) >= count)
        texts = [each.raw_headers for each in found]
        found.clear()
        return texts

    await ask(batch=2, no_wait=True)
    assert await next_ones(1) == [b"NATS/1.0 404 No Messages\r\n\r\n"]
    await ask(batch=2, expires=NANO, idle_heartbeat=int(0.4 * NANO))
    beat = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 0\r\n\r\n"
    late = b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 2\r\nNats-Pending-Bytes: 0\r\n\r\n"
    assert await next_ones(3) == [beat, beat, late]
    await ask(batch=2, expires=NANO // 2, idle_heartbeat=int(0.4 * NANO))
    assert await next_ones(1) == [b"NATS/1.0 400 Bad Request - heartbeat value too large\r\n\r\n"]
    await ask(batch=2, expires=9 * NANO)
    while (await raw.api("CONSUMER.INFO.BERTH_CMD.d"))["num_waiting"] != 1:
        await asyncio.sleep(0.01)  # the server takes requests of pull consumers and of its API from different queues
    await raw.api("CONSUMER.DELETE.BERTH_CMD.d")
    assert await next_ones(1) == [b"NATS/1.0 409 Consumer Deleted\r\n\r\n"]
    await ask(batch=2, expires=9 * NANO)
    assert await next_ones(1) == [b"NATS/1.0 503\r\nNats-Subject: $JS.API.CONSUMER.MSG.NEXT.BERTH_CMD.d\r\n\r\n"]


async def test_what_is_not_acknowledged_comes_again(raw: Any, bus: Any) -> None:
    found = await raw.listen(INBOX)
    await raw.api("CONSUMER.CREATE.BERTH_CMD.d", pull(ack_wait=3 * NANO))
    for number in range(4):
        await raw.put(f"{COMMANDS}x{number}", b"%d" % number)

    async def has_counted() -> bool:
        """A consumer hears of what is stored a moment after whoever stored it."""
        return (await raw.api("CONSUMER.INFO.BERTH_CMD.d"))["num_pending"] == 4

    await eventually_async(has_counted)

    async def ask(count: int) -> list[tuple[str, str, bytes]]:
        query = b'{"batch": %d, "expires": 5000000000}' % count
        await bus._link.publish("$JS.API.CONSUMER.MSG.NEXT.BERTH_CMD.d", query, reply=INBOX)
        await eventually(lambda: len(found) >= count)
        return shown(found)

    async def settle(number: int, word: bytes) -> None:
        assert (await bus._link.request(found[number].reply, word, timeout_s=5)).data == b""

    assert await ask(3) == [
        (f"{COMMANDS}x0", "1.1.1.3", b"0"),
        (f"{COMMANDS}x1", "1.2.2.2", b"1"),
        (f"{COMMANDS}x2", "1.3.3.1", b"2"),
    ]
    await settle(0, b"-NAK")
    await settle(1, b"+TERM")
    await settle(2, b'-NAK {"delay": 1000000000}')
    found.clear()
    assert await ask(2) == [(f"{COMMANDS}x0", "2.1.4.1", b"0"), (f"{COMMANDS}x3", "1.4.5.0", b"3")]
    await settle(0, b"+ACK")
    await settle(0, b"+ACK")
    await settle(1, b"+WPI")
    found.clear()
    assert await ask(2) == [(f"{COMMANDS}x2", "2.3.6.0", b"2"), (f"{COMMANDS}x3", "2.4.7.0", b"3")]
    info = await raw.api("CONSUMER.INFO.BERTH_CMD.d")
    assert (info["num_ack_pending"], info["num_redelivered"], info["num_pending"]) == (2, 2, 0)
    assert (await raw.api("STREAM.INFO.BERTH_CMD"))["state"]["messages"] == 2


async def test_a_work_queue_has_one_consumer_that_acknowledges(raw: Any) -> None:
    async def code(name: str, body: dict[str, Any]) -> int:
        answer = await raw.api(f"CONSUMER.CREATE.BERTH_CMD.{name}", body)
        return int(answer.get("error", {}).get("err_code", 0))

    assert await code("e", pull(name="e", durable_name="e", ack_policy="none")) == 10084
    assert await code("d", pull()) == 0
    assert await code("e", pull(name="e", durable_name="e")) == 10100
    assert await code("d", pull("create")) == 0
    assert await code("d", pull("create", ack_wait=2 * NANO)) == 10148
    assert await code("d", pull(ack_wait=2 * NANO)) == 0
    assert await code("d", pull(ack_wait=2 * NANO, deliver_policy="new")) == 10012


async def test_what_was_being_handled_at_a_kill_comes_again(raw: Any, bus: Any, nats_server: Any) -> None:
    found = await raw.listen(INBOX)
    await raw.api("CONSUMER.CREATE.BERTH_CMD.d", pull())
    await raw.put(f"{COMMANDS}x", b"x")
    query = b'{"batch": 1, "expires": 20000000000}'
    await bus._link.publish("$JS.API.CONSUMER.MSG.NEXT.BERTH_CMD.d", query, reply=INBOX)
    await eventually(lambda: found)
    generation = bus._link.generation
    nats_server.restart()
    await eventually(lambda: bus._link.generation > generation and bus.connected.is_set())
    found.clear()
    await bus._link.publish("$JS.API.CONSUMER.MSG.NEXT.BERTH_CMD.d", query, reply=INBOX)
    await eventually(lambda: found)
    assert shown(found)[0][1].startswith("2.1.")
    assert found[0].data == b"x"


async def test_every_start_of_the_server_is_another_one(bus: Any, nats_server: Any) -> None:
    seen = {bus._link.server_id}
    for _ in range(2):
        generation = bus._link.generation
        nats_server.restart()
        await eventually(lambda generation=generation: bus._link.generation > generation and bus.connected.is_set())
        seen.add(bus._link.server_id)
    assert len(seen) == 3


async def test_a_restart_forgets_the_identities_of_messages_that_are_done_with(
    raw: Any, bus: Any, nats_server: Any
) -> None:
    for number in (1, 2):
        assert await raw.put(f"{COMMANDS}x", Nats_Msg_Id=f"m{number}") == {"seq": number}
    assert (await raw.api("STREAM.PURGE.BERTH_CMD", {"seq": 2}))["purged"] == 1
    assert await raw.put(f"{COMMANDS}x", Nats_Msg_Id="m1") == {"seq": 1, "duplicate": True}
    generation = bus._link.generation
    nats_server.restart()
    await eventually(lambda: bus._link.generation > generation and bus.connected.is_set())
    assert await raw.put(f"{COMMANDS}x", Nats_Msg_Id="m2") == {"seq": 2, "duplicate": True}
    assert await raw.put(f"{COMMANDS}x", Nats_Msg_Id="m1") == {"seq": 3}
