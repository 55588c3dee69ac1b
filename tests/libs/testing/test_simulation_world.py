"""The scheduler of the simulation: asyncio as it is known, on virtual time, the same in every run of one seed."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from berth.testing.simulation.process import Process
from berth.testing.simulation.world import World

SCENARIO = Path(__file__).with_name("simulation_scenario.py")


@pytest.fixture
def world() -> Iterator[World]:
    with World(7) as made:
        yield made


def finish(world: World, main: Coroutine[Any, Any, Any], *, within_s: float = 100.0) -> Process:
    """Run it as a process to its end, and raise what it raised."""
    process = world.process("p")
    process.start(main)
    assert world.run_until(lambda: process.finished, within_s)
    if process.failure is not None:
        raise process.failure
    return process


def test_sleep_takes_virtual_time_only(world: World) -> None:
    async def main() -> None:
        await asyncio.sleep(3600)
        assert asyncio.get_running_loop().time() == 3600

    finish(world, main(), within_s=4000)
    assert world.now >= 3600


def test_timers_fire_in_order_of_their_time_then_of_their_setting(world: World) -> None:
    fired: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(2, fired.append, "late")
        loop.call_later(1, fired.append, "first")
        loop.call_later(1, fired.append, "second")
        loop.call_later(1, fired.append, "never").cancel()
        loop.call_soon(fired.append, "soon")
        await asyncio.sleep(3)

    finish(world, main())
    assert fired == ["soon", "first", "second", "late"]


def test_timeouts(world: World) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        assert world.now == 5
        async with asyncio.timeout(5):
            await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 2)
        assert world.now == 8

    finish(world, main())


def test_what_asyncio_offers_works(world: World) -> None:
    async def numbers(count: int) -> AsyncIterator[int]:
        for number in range(count):
            await asyncio.sleep(0.1)
            yield number

    async def main() -> None:
        assert await asyncio.gather(*(asyncio.sleep(n, n) for n in (3, 1, 2))) == [3, 1, 2]
        tasks = [asyncio.create_task(asyncio.sleep(n, n)) for n in (5, 1, 9)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [1]
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        event, limit, lock = asyncio.Event(), asyncio.Semaphore(2), asyncio.Lock()

        async def feed() -> None:
            for number in range(5):
                await queue.put(number)
            event.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(feed())
            assert [await queue.get() for _ in range(5)] == [0, 1, 2, 3, 4]
            await event.wait()
        async with limit, limit, lock:
            assert limit.locked()
            assert lock.locked()
        async with aclosing(numbers(10)) as read:
            async for number in read:
                if number == 3:
                    break
        assert await asyncio.to_thread(lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    finish(world, main())


def test_an_abandoned_generator_is_closed_as_asyncio_does(world: World) -> None:
    closed: list[str] = []

    async def source() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    async def main() -> None:
        async for _ in source():
            break
        await asyncio.sleep(1)

    finish(world, main())
    assert closed == ["closed"]


def test_kill_runs_nothing_further(world: World) -> None:
    seen: list[str] = []

    async def helper() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("helper's finally")

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                await asyncio.sleep(1)
                yield 1
        finally:
            seen.append("generator's finally")

    async def main() -> None:
        tasks = [asyncio.create_task(helper())]
        try:
            async for _ in endless():
                seen.append("tick")  # noqa: PERF401 - what was seen must not be lost with the loop
        finally:
            seen.append("main's finally")
            await asyncio.wait(tasks)

    process = world.process("p")
    process.start(main())
    world.later(2.5, None, process.kill)
    ended: list[str] = []
    process.on_end(lambda who: ended.append(who.name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        world.run(10)
        gc.collect()
    assert seen == ["tick", "tick"]
    assert ended == ["p"]
    assert (process.alive, process.finished, process.failure, process.unseen_failures) == (False, False, None, [])


def test_the_dead_are_let_go_of_quietly(recwarn: pytest.WarningsRecorder) -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            except GeneratorExit:
                await asyncio.sleep(1)  # "coroutine ignored GeneratorExit"

    async def main() -> None:
        asyncio.create_task(stubborn())  # noqa: RUF006 - it is the loop's to keep
        asyncio.get_running_loop().call_later(0, asyncio.create_task, asyncio.sleep(1))
        await asyncio.sleep(0)
        asyncio.create_task(asyncio.sleep(1))  # noqa: RUF006 - never begins
        await asyncio.Event().wait()

    with World(1) as world:
        process = world.process("p")
        process.start(main())
        process.kill_after(3)
        world.run(5)
        assert not process.alive
        living = world.process("q")
        living.start(stubborn())
        world.run(10)
    gc.collect()
    assert not recwarn.list


def test_kill_in_the_middle_of_a_burst(world: World) -> None:
    seen: list[int] = []

    async def main() -> None:
        for number in range(100):
            seen.append(number)
            await asyncio.sleep(0)

    process = world.process("p")
    process.start(main())
    process.kill_after(5)
    world.run(1)
    assert seen == [0, 1, 2, 3, 4]
    assert not process.alive


def test_the_dead_take_nothing(world: World) -> None:
    got: list[str] = []
    process = world.process("p")
    process.start(asyncio.sleep(100))
    world.later(2, process, got.append, "too late")
    world.later(1, None, process.kill)
    world.run(3)
    assert process.loop.call_soon(got.append, "no").cancelled()
    assert process.loop.call_later(1, got.append, "no").cancelled()
    world.later(0, process, got.append, "no")
    world.run(10)
    assert got == []
    again = world.process("p")
    assert (again.incarnation, again.alive) == (2, True)
    with pytest.raises(RuntimeError, match="alive"):
        world.process("p")


def test_pause_and_resume(world: World) -> None:
    ticks: list[float] = []

    async def main() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(world.now)

    process = world.process("p")
    process.start(main())
    world.later(2.5, None, process.pause)
    world.later(2.7, process, ticks.append, -1.0)
    world.later(8.25, None, process.resume)
    world.run(10)
    assert ticks == [1, 2, 8.25, -1.0, 9.25] or ticks == [1, 2, -1.0, 8.25, 9.25]


def test_clocks_jump_but_measuring_goes_on(world: World) -> None:
    process = world.process("p", clock_skew_s=2.0)
    seen: list[tuple[float, float]] = []

    async def main() -> None:
        for _ in range(2):
            seen.append((process.clock.now() - world.wall(), process.clock.monotonic()))
            await process.clock.sleep(10)

    process.start(main())
    world.later(5, None, process.clock.jump, -3600)
    world.run(30)
    assert seen == [(2.0, 0.0), (-3598.0, 10.0)]


def test_failures_are_seen(world: World) -> None:
    async def fail() -> None:
        raise ValueError("a task")

    async def main() -> None:
        asyncio.create_task(fail())  # noqa: RUF006 - nobody looks at it: that is the point
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)
        raise KeyError("the process")

    process = world.process("p")
    process.start(main())
    world.run(5)
    assert isinstance(process.failure, KeyError)
    assert not process.alive
    assert any("ValueError: a task" in each for each in process.unseen_failures)
    assert any("ZeroDivisionError" in each for each in process.unseen_failures)


def test_a_failure_outside_of_processes_ends_the_run(world: World) -> None:
    world.later(1, None, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        world.run(5)


def test_who_spins_lets_time_pass(world: World) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        flag: list[int] = []
        loop.call_later(0.01, flag.append, 1)
        while not flag:
            await asyncio.sleep(0)

    finish(world, main())
    assert 0.01 <= world.now < 1


def test_no_world_inside_a_loop(world: World) -> None:
    async def main() -> None:
        world.run(1)

    with pytest.raises(RuntimeError, match="inside an event loop"):
        asyncio.run(main())


def scenario(seed: int, hash_seed: str) -> str:
    """Digest and trail of the scenario, from an interpreter of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, str(SCENARIO), str(seed)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_one_seed_is_one_run_on_any_hash_seed() -> None:
    first = scenario(3, "0")
    assert first.strip()
    assert scenario(3, "1") == first
    assert scenario(3, "4242") == first
    assert scenario(4, "0") != first


def test_the_seed_draws_who_goes_first() -> None:
    def order(seed: int) -> tuple[str, ...]:
        seen: list[str] = []

        async def main(name: str) -> None:
            await asyncio.sleep(1)
            seen.append(name)

        with World(seed) as world:
            for name in "abcde":
                world.process(name).start(main(name))
            world.run(2)
        return tuple(seen)

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(20)}) > 10
