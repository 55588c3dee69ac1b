import asyncio

import pytest
import structlog

from berth.runtime import Supervisor
from berth.telemetry import get_logger


@pytest.fixture
def logged():
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def supervisor(logged):
    return Supervisor(get_logger("test"))


async def returns():
    await asyncio.sleep(0)


async def fails(error):
    await asyncio.sleep(0)
    raise error


async def forever():
    await asyncio.Event().wait()


async def test_finished_when_no_task_is_left(supervisor, logged):
    supervisor.spawn(returns(), name="a")
    supervisor.spawn(returns(), name="b")
    assert supervisor.names() == ["a", "b"]
    await asyncio.wait_for(supervisor.finished(), 10)
    assert supervisor.names() == []
    assert supervisor.failure is None
    assert logged == []


async def test_finished_at_the_first_failure(supervisor, logged):
    first = ValueError("first")
    supervisor.spawn(forever(), name="main")
    supervisor.spawn(fails(first), name="a")
    await asyncio.wait_for(supervisor.finished(), 10)
    supervisor.spawn(fails(ValueError("second")), name="b")
    main = next(task for task in asyncio.all_tasks() if task.get_name() == "main")
    await returns()
    await returns()
    assert await supervisor.stop(main, 10) == []
    assert supervisor.failure is first
    assert [line["task"] for line in logged] == ["a", "b"]


async def test_a_failure_that_is_told_otherwise_has_no_traceback(logged):
    told = []

    def tell(error):
        told.append(error)
        return isinstance(error, KeyError)

    supervisor = Supervisor(get_logger("test"), tell)
    first, second = KeyError("known"), ValueError("strange")
    supervisor.spawn(fails(first), name="a")
    await asyncio.wait_for(supervisor.finished(), 10)
    await asyncio.wait({supervisor.spawn(fails(second), name="b")})
    await returns()
    assert supervisor.failure is first
    assert told == [first, second]
    assert [line["task"] for line in logged] == ["b"]


async def test_stop_names_what_will_not_end(supervisor):
    released = asyncio.Event()

    async def stubborn():
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    main = supervisor.spawn(forever(), name="main")
    supervisor.spawn(stubborn(), name="stubborn")
    await returns()
    assert await supervisor.stop(main, 0.01, grace_s=0.01) == ["stubborn"]
    released.set()
    await asyncio.wait_for(supervisor.finished(), 10)


async def test_cancelling_is_no_failure(supervisor, logged):
    task = supervisor.spawn(forever(), name="a")
    await returns()
    task.cancel()
    await asyncio.wait_for(supervisor.finished(), 10)
    assert supervisor.failure is None
    assert logged == []
