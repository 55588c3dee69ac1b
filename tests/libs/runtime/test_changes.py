import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.runtime import ChangeSet, SystemClock


async def test_marks_join_a_window_and_come_once(clock):
    changes = ChangeSet[str](clock)
    batches = changes.batches(window_s=0.005)
    changes.mark("a")
    taking = asyncio.ensure_future(anext(batches))
    await clock.advance(0.002)
    changes.mark("b")
    changes.mark("a")
    assert not taking.done()
    await clock.advance(0.004)
    assert await taking == ["a", "b"]
    assert len(changes) == 0
    await batches.aclose()


async def test_marks_during_the_work_come_again(clock):
    changes = ChangeSet[str](clock)
    batches = changes.batches(window_s=0)
    changes.mark("a")
    assert await anext(batches) == ["a"]
    changes.mark("a")
    changes.mark("b")
    assert await anext(batches) == ["a", "b"]
    await batches.aclose()


async def test_a_full_window_is_not_waited_for(clock):
    changes = ChangeSet[int](clock)
    changes.mark_all(range(25))
    batches = changes.batches(window_s=60, max_keys=10)
    assert await anext(batches) == list(range(10))
    assert await anext(batches) == list(range(10, 20))
    taking = asyncio.ensure_future(anext(batches))
    await clock.advance(59)
    assert not taking.done()
    await clock.advance(2)
    assert await taking == list(range(20, 25))
    await batches.aclose()


async def test_nothing_marked_nothing_taken(clock):
    changes = ChangeSet[str](clock)
    batches = changes.batches(window_s=0.005)
    taking = asyncio.ensure_future(anext(batches))
    changes.mark_all([])
    await clock.advance(10)
    assert not taking.done()
    changes.mark("a")
    changes.mark("b")
    changes.discard("a")
    changes.discard("never there")
    assert "a" not in changes
    assert "b" in changes
    await clock.advance(1)
    assert await taking == ["b"]
    taking = asyncio.ensure_future(anext(batches))
    changes.mark("c")
    changes.clear()
    await clock.advance(10)
    assert not taking.done()
    changes.mark("d")
    await clock.advance(1)
    assert await taking == ["d"]
    await batches.aclose()


async def test_a_batch_of_no_keys_is_refused(clock):
    with pytest.raises(ValueError, match="max_keys"):
        await anext(ChangeSet[str](clock).batches(max_keys=0))


@given(st.lists(st.lists(st.integers(0, 9), max_size=20), max_size=10), st.integers(1, 5))
def test_every_marked_key_is_taken_after_its_last_mark(rounds, max_keys):
    async def take_all():
        changes = ChangeSet[int](SystemClock())
        for marked in rounds:
            changes.mark_all(marked)
            taken = []
            batches = changes.batches(window_s=0, max_keys=max_keys)
            while len(changes):
                batch = await anext(batches)
                assert 0 < len(batch) <= max_keys
                taken += batch
            await batches.aclose()
            assert taken == list(dict.fromkeys(marked))

    asyncio.run(take_all())
