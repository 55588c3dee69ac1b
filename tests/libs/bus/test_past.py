"""Events that are kept, read one by one: the same from the real server and the simulated one."""

from __future__ import annotations

from berth.bus import Bus

A, B = "berth.v1.evt.placement.bound.ns.a", "berth.v1.evt.placement.bound.ns.b"


async def publish(bus: Bus, subject: str, text: str) -> None:
    await bus.events().publish(subject, text.encode(), id=text, type="t")
    await bus.events().drain()


async def test_the_newest_event_of_a_subject(bus: Bus) -> None:
    assert await bus.last_event(A) is None
    await publish(bus, A, "one")
    await publish(bus, A, "two")
    await publish(bus, B, "three")
    found = await bus.last_event(A)
    assert found is not None
    assert (found.subject, found.data, found.id, found.sequence) == (A, b"two", "two", 2)
    assert found.headers["ce-time"].endswith("Z")


async def test_the_events_of_a_pattern_in_order(bus: Bus) -> None:
    for subject, text in ((A, "one"), (B, "two"), (A.replace("bound", "ended"), "three"), (A, "four")):
        await publish(bus, subject, text)
    pattern = "berth.v1.evt.placement.*.ns.a"
    assert [each.data async for each in bus.past_events(pattern)] == [b"one", b"three", b"four"]
    assert [each.data async for each in bus.past_events(pattern, 1)] == [b"three", b"four"]
    assert [each async for each in bus.past_events("berth.v1.evt.node.>")] == []
