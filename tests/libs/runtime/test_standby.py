import asyncio

import pytest

from berth.runtime import ActiveStandby


class FakeLease:
    """A lease that a test gives and takes."""

    def __init__(self, name, holder, on_change):
        self.key = (name, holder)
        self.active = False
        self.released = False
        self._on_change = on_change
        self._broken = asyncio.Event()

    async def run(self):
        try:
            await self._broken.wait()
            raise ConnectionError("no lease any more")
        finally:
            self.give(False)
            self.released = True

    def give(self, active):
        self.active = active
        self._on_change(active)

    def fail(self):
        self._broken.set()


class FakeBus:
    def lease(self, name, holder, *, ttl_s=6, on_change=None):
        self.made = FakeLease(name, holder, on_change)
        return self.made


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("never came true")


@pytest.fixture
def bus():
    return FakeBus()


@pytest.fixture
def standby(bus):
    return ActiveStandby(bus, "quota-manager", "one")


class Work:
    def __init__(self):
        self.begun = self.ended = 0

    async def __call__(self):
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended += 1


async def test_works_only_while_active(bus, standby):
    work = Work()
    running = asyncio.ensure_future(standby.run(work))
    await until(lambda: not running.done())
    assert (work.begun, standby.check()) == (0, (True, "standby"))
    for term in (1, 2):
        bus.made.give(True)
        await until(lambda term=term: work.begun == term)
        assert standby.active
        assert standby.check() == (True, "active")
        bus.made.give(False)
        await until(lambda term=term: work.ended == term)
    bus.made.give(True)
    await until(lambda: work.begun == 3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert work.ended == 3
    assert bus.made.released
    assert bus.made.key == ("quota-manager", "one")


async def test_cancelled_in_standby_gives_the_lease_back(bus, standby):
    running = asyncio.ensure_future(standby.run(Work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bus.made.released


async def test_ends_when_the_work_is_done(bus, standby):
    async def work():
        await asyncio.sleep(0)

    running = asyncio.ensure_future(standby.run(work))
    await asyncio.sleep(0)
    bus.made.give(True)
    await asyncio.wait_for(running, 10)
    assert bus.made.released


async def test_a_failure_of_the_work_comes_out(bus, standby):
    async def work():
        raise ValueError("work failed")

    running = asyncio.ensure_future(standby.run(work))
    await asyncio.sleep(0)
    bus.made.give(True)
    with pytest.raises(ValueError, match="work failed"):
        await asyncio.wait_for(running, 10)
    assert bus.made.released


async def test_a_failure_while_giving_way_comes_out(bus, standby):
    begun = asyncio.Event()

    async def work():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("could not clean up")

    running = asyncio.ensure_future(standby.run(work))
    await asyncio.sleep(0)
    bus.made.give(True)
    await begun.wait()
    bus.made.give(False)
    with pytest.raises(ValueError, match="could not clean up"):
        await asyncio.wait_for(running, 10)


@pytest.mark.parametrize("active", [False, True])
async def test_a_failure_of_the_lease_comes_out(bus, standby, active):
    work = Work()
    running = asyncio.ensure_future(standby.run(work))
    await asyncio.sleep(0)
    if active:
        bus.made.give(True)
        await until(lambda: work.begun == 1)
    bus.made.fail()
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(running, 10)
    assert work.ended == work.begun
