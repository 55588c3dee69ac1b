"""Following a pattern of keys by asking: what they hold, what they come to hold, and what was lost."""

from __future__ import annotations

import asyncio

import pytest

from berth.bus import Bus, jetstream, pattern_follower
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

BUCKET = "berth_slo"
PATTERN = "pod.n1.*"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_follower, "CHECK_BEATS", 1)
    monkeypatch.setattr("berth.bus.beat.EVERY_S", 0.05)


async def put(bus: Bus, key: str, value: bytes, **headers: str) -> None:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    answer = await bus._link.request(f"$KV.{BUCKET}.{key}", value, timeout_s=5, headers=named or None)
    assert b"error" not in answer.data


async def delete(bus: Bus, key: str) -> None:
    await put(bus, key, b"", KV_Operation="DEL")


async def begin_anew(bus: Bus) -> None:
    await jetstream.call(bus._link, f"STREAM.DELETE.KV_{BUCKET}")
    await bus.ensure()


async def purge(bus: Bus, key: str) -> None:
    await jetstream.call(bus._link, f"STREAM.PURGE.KV_{BUCKET}", {"filter": f"$KV.{BUCKET}.{key}"})


async def test_it_shows_in_order_what_is_there_and_what_changes(bus: Bus, spawn) -> None:
    await put(bus, "pod.n1.a", b"1")
    await put(bus, "pod.n2.a", b"other")
    await put(bus, "pod.n1.b", b"2")
    view = View()
    follower = bus.follow_by_asking(BUCKET, view, pattern=PATTERN)
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 5)
    assert [(each.key, each.value, each.pending) for each in view.entries] == [
        ("pod.n1.a", b"1", 1),
        ("pod.n1.b", b"2", 0),
    ]
    await put(bus, "pod.n1.a", b"3")
    await put(bus, "pod.n1.c", b"4")
    await delete(bus, "pod.n1.b")
    await eventually(lambda: view.values == {"pod.n1.a": b"3", "pod.n1.c": b"4"})
    assert await follower.has_all()
    await delete(bus, "pod.n1.c")
    await put(bus, "pod.n1.b", b"5")
    await eventually(lambda: view.values == {"pod.n1.a": b"3", "pod.n1.b": b"5"})
    assert view.resets == 0
    assert all(each.key.startswith("pod.n1.") for each in view.entries)
    info = await jetstream.stream_info(bus._link, f"KV_{BUCKET}")
    assert info.state.consumer_count == 0


async def test_markers_that_expire_are_no_loss(bus: Bus, spawn) -> None:
    view = View()
    follower = bus.follow_by_asking(BUCKET, view, pattern=PATTERN)
    spawn(follower.run())
    for key in ("pod.n1.a", "pod.n1.b"):
        await put(bus, key, b"1")
    await eventually(lambda: len(view.values) == 2)
    for key in ("pod.n1.b", "pod.n1.a"):
        await delete(bus, key)
        await eventually(lambda key=key: key not in view.values)
        await purge(bus, key)
        await eventually(lambda key=key: key not in follower._shown)
    await put(bus, "pod.n1.a", b"2")
    await eventually(lambda: view.values == {"pod.n1.a": b"2"})
    assert view.resets == 0


async def test_what_was_read_last_goes_and_another_key_comes(bus: Bus, spawn, monkeypatch) -> None:
    """Both between two questions."""
    monkeypatch.setattr("berth.bus.beat.EVERY_S", 0.5)
    await put(bus, "pod.n1.a", b"1")
    view = View()
    follower = bus.follow_by_asking(BUCKET, view, pattern=PATTERN)
    task = spawn(follower.run())
    await eventually(lambda: view.values == {"pod.n1.a": b"1"})
    await delete(bus, "pod.n1.a")
    await put(bus, "pod.n1.b", b"2")
    await eventually(lambda: view.values == {"pod.n1.b": b"2"})
    assert not task.done()
    assert list(follower._shown) == ["pod.n1.b"]


@pytest.mark.parametrize("others", [0, 9])
async def test_a_lost_bucket_is_noticed_and_read_again(bus: Bus, spawn, others: int) -> None:
    for key in ("pod.n1.a", "pod.n1.b", "pod.n1.c"):
        await put(bus, key, b"1")
    view = View()
    spawn(bus.follow_by_asking(BUCKET, view, pattern=PATTERN).run())
    await eventually(lambda: len(view.values) == 3)
    await begin_anew(bus)
    # What it holds now is in part behind what was read of the former one.
    await put(bus, "pod.n1.a", b"2")
    for number in range(others):
        await put(bus, f"pod.n2.{number}", b"other")
    await put(bus, "pod.n1.c", b"2")
    await eventually(lambda: view.values == {"pod.n1.a": b"2", "pod.n1.c": b"2"}, deadline_s=5)
    assert view.resets >= 1


async def test_it_goes_on_when_the_server_comes_back(bus: Bus, nats_server: NatsServer, spawn) -> None:
    await put(bus, "pod.n1.a", b"1")
    view = View()
    spawn(bus.follow_by_asking(BUCKET, view, pattern=PATTERN).run())
    await eventually(lambda: view.values == {"pod.n1.a": b"1"})
    nats_server.kill()
    await eventually(lambda: not bus.connected.is_set())
    nats_server.start()
    await eventually(bus.connected.is_set)
    await put(bus, "pod.n1.a", b"2")
    await eventually(lambda: view.values == {"pod.n1.a": b"2"})
    assert view.resets == 0
