import asyncio

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from berth.telemetry import Health, counter, serve_health


class Ticks:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def ticks():
    return Ticks()


@pytest.fixture
def health(ticks):
    return Health(beat_timeout_s=10, monotonic=ticks)


def test_alive_while_it_beats(health, ticks):
    assert health.alive
    ticks.now += 10
    assert health.alive
    ticks.now += 0.1
    assert not health.alive
    assert health.liveness()["event loop"].text == "beat 10.1 s ago, at most 10 s allowed"
    health.beat()
    assert health.alive


def test_every_promised_beat_counts(health, ticks):
    health.watch("solver", 30)
    ticks.now += 31
    health.beat()
    assert not health.alive
    assert [name for name, verdict in health.liveness().items() if not verdict.ok] == ["solver"]
    health.remove("solver")
    assert health.alive


def test_ready_when_every_check_passes(health):
    assert health.ready
    answers = {"bus": True, "state": False}
    health.add("bus", lambda: (answers["bus"], "connected"))
    health.add("state", lambda: (answers["state"], "3 of 9 read"))
    assert not health.ready
    assert health.readiness()["state"] == (False, "3 of 9 read")
    answers["state"] = True
    assert health.ready


def test_a_check_that_raises_has_failed(health):
    health.add("odd", lambda: (1 / 0, "never"))
    ok, text = health.readiness()["odd"]
    assert not ok
    assert "ZeroDivisionError" in text


def test_a_check_is_added_once(health):
    health.add("bus", lambda: (True, ""))
    with pytest.raises(ValueError, match="bus"):
        health.add("bus", lambda: (True, ""))


async def test_pages(health, ticks):
    registry = CollectorRegistry()
    counter("berth_test_things_total", "Things.", registry=registry).inc(7)
    ready = [False]
    health.add("bus", lambda: (ready[0], "connecting"))
    server = await serve_health("127.0.0.1", 0, health, registry=registry)
    try:
        assert server.port > 0
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            async with session.get("/readyz") as reply:
                assert reply.status == 503
                assert await reply.json() == {"ready": False, "checks": {"bus": {"ok": False, "text": "connecting"}}}
            ready[0] = True
            async with session.get("/readyz") as reply:
                assert reply.status == 200
            async with session.get("/livez") as reply:
                assert reply.status == 200
            ticks.now += 60
            async with session.get("/livez") as reply:
                assert reply.status == 503
                assert (await reply.json())["checks"]["event loop"]["ok"] is False
            async with session.get("/metrics") as reply:
                assert reply.status == 200
                assert reply.content_type == "text/plain"
                assert "berth_test_things_total 7.0" in await reply.text()
            async with session.get("/other") as reply:
                assert reply.status == 404
            async with session.post("/livez") as reply:
                assert reply.status == 405
    finally:
        await server.close()
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_a_taken_port_is_an_oserror(health):
    server = await serve_health("127.0.0.1", 0, health)
    try:
        with pytest.raises(OSError, match="in use"):
            await serve_health("127.0.0.1", server.port, health)
    finally:
        await server.close()
