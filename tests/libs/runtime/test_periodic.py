import asyncio
import random

import pytest

from berth.runtime import Periodic


class Ticking:
    def __init__(self, periodic, **options):
        self.times = []
        self._task = asyncio.ensure_future(self._run(periodic, options))

    async def _run(self, periodic, options):
        async for now in periodic.ticks(**options):
            self.times.append(round(now - 1_700_001_000.0, 6))

    async def stop(self):
        self._task.cancel()
        await asyncio.wait({self._task})


async def test_ticks_do_not_drift(clock):
    ticking = Ticking(Periodic(clock, 10))
    for _ in range(35):
        await clock.advance(1)
    await ticking.stop()
    assert ticking.times == [10, 20, 30]


async def test_at_once(clock):
    ticking = Ticking(Periodic(clock, 10), at_once=True)
    await clock.advance(25)
    await ticking.stop()
    assert ticking.times == [0, 10, 20]


async def test_missed_ticks_are_skipped_and_the_grid_kept(clock):
    times = []
    ticks = Periodic(clock, 10).ticks()

    async def slow():
        async for now in ticks:
            times.append(round(now - 1_700_001_000.0))
            if len(times) == 1:
                await clock.sleep(35)

    task = asyncio.ensure_future(slow())
    for _ in range(65):
        await clock.advance(1)
    task.cancel()
    await asyncio.wait({task})
    assert times == [10, 50, 60]  # 20, 30 and 40 fell into the work


async def test_jitter_moves_the_first_tick_only_so_far(clock):
    ticking = Ticking(Periodic(clock, 10, jitter=0.5, rng=random.Random(7)))
    await clock.advance(40)
    await ticking.stop()
    assert 10 < ticking.times[0] <= 15
    assert ticking.times[1] - ticking.times[0] == pytest.approx(10)


@pytest.mark.parametrize(("interval_s", "jitter"), [(0, 0), (-1, 0), (float("nan"), 0), (1, -0.1), (1, 2)])
def test_senseless_intervals(clock, interval_s, jitter):
    with pytest.raises(ValueError, match=r"interval_s|jitter"):
        Periodic(clock, interval_s, jitter=jitter)
