"""Commands in the queue: put there, handed back unanswered, and what is left of them."""

from __future__ import annotations

from berth.bus import Bus, jetstream
from berth.bus import consumer as consuming
from berth.testing.views import eventually, eventually_async

SUBJECTS = "berth.v1.cmd.>"


async def send(bus: Bus, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        await bus.commands().publish(f"berth.v1.cmd.bind.ns.p{number}", b"%d" % number, id=f"c{number}", type="bind.v1")
    await bus.commands().drain()


async def left(bus: Bus, stream: str = "BERTH_CMD") -> int:
    return (await jetstream.stream_info(bus._link, stream)).state.messages


async def emptied(bus: Bus) -> None:
    async def empty() -> bool:
        try:
            return await left(bus) == 0
        except Exception:
            return False

    await eventually_async(empty)


async def hand_back(bus: Bus, consumer: consuming.Consumer, times: int) -> None:
    """As a consumer does whose holder has to give way, over and over: the one message of the queue, untried."""
    await consumer._ensure()
    inbox, given = bus._link.new_inbox(), []

    def drop(msg) -> None:
        given.append(msg)
        bus._link.client.post(msg.reply, b"-NAK", "", None)

    subscription = await bus._link.subscribe(inbox, drop)
    await bus._link.publish("$JS.API.CONSUMER.MSG.NEXT.BERTH_CMD.writer", b"%d" % times, reply=inbox)
    await eventually(lambda: len(given) == times)
    await subscription.unsubscribe()
