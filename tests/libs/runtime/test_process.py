import asyncio
import gc
import os
import threading

from berth.runtime import Context, ServiceSettings
from berth.runtime.heartbeat import pulse
from berth.runtime.process import collections_put_off, lingering_threads, write_port_file
from berth.telemetry import Health


def test_the_port_file_is_replaced_whole(tmp_path):
    path = tmp_path / "port"
    path.write_text("an older, much longer content")
    write_port_file(str(path), 8080)
    assert path.read_text() == "8080\n"
    assert os.listdir(tmp_path) == ["port"]


def test_lingering_threads_are_named():
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="worker")
    thread.start()
    try:
        assert "worker" in lingering_threads(0.01)
    finally:
        release.set()
        thread.join()
    assert "worker" not in lingering_threads(0.01)


def test_collections_are_put_off_by_whoever_is_at_work_and_come_back_with_the_last():
    before = gc.get_threshold()
    first, second = collections_put_off(), collections_put_off()
    with first:
        put_off = gc.get_threshold()
        second.__enter__()
    assert gc.get_threshold() == put_off
    assert put_off[0] > before[0]
    assert put_off[1:] == before[1:]
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


async def test_the_pulse_beats_and_freezes_once_ready(monkeypatch):
    frozen = []
    monkeypatch.setattr("berth.runtime.heartbeat.freeze_garbage_collection", lambda: frozen.append(True))
    times = iter(range(10_000))
    health = Health(beat_timeout_s=1, monotonic=lambda: next(times))
    ready = [False]
    health.add("state", lambda: (ready[0], ""))
    beaten = []
    monkeypatch.setattr(health, "beat", lambda: beaten.append(True))
    task = asyncio.ensure_future(pulse(health, interval_s=0.001))
    await _until(lambda: len(beaten) > 3)
    assert frozen == []
    ready[0] = True
    await _until(lambda: frozen)
    seen = len(beaten)
    await _until(lambda: len(beaten) > seen + 3)
    assert frozen == [True]
    task.cancel()
    await asyncio.wait({task})


async def test_the_pulse_notices_a_lost_parent_once(monkeypatch):
    monkeypatch.setattr("berth.runtime.heartbeat.freeze_garbage_collection", lambda: None)
    parents = iter([100, 100, 1, 1, 1])
    monkeypatch.setattr("os.getppid", lambda: next(parents, 1))
    lost = []
    beaten = []
    health = Health()
    monkeypatch.setattr(health, "beat", lambda: beaten.append(True))
    task = asyncio.ensure_future(pulse(health, orphaned=lambda: lost.append(len(beaten)), interval_s=0.001))
    await _until(lambda: len(beaten) > 5)
    assert lost == [2]
    task.cancel()
    await asyncio.wait({task})


async def test_a_context_can_be_made_for_a_test():
    context = Context(service="s", settings=ServiceSettings(), bus=None)
    done = asyncio.Event()

    async def work():
        done.set()

    context.spawn(work(), name="work")
    await asyncio.wait_for(context.supervisor.finished(), 10)
    assert done.is_set()
    assert gc.isenabled()


async def _until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)
