"""A copy of the process: what it answers, what it cannot touch, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from berth.runtime.snapshot import SnapshotFailed, in_snapshot, wait_for_snapshot


async def test_a_copy_sees_what_there_is_and_changes_nothing_here() -> None:
    seen = {"a": 1}

    def work() -> bytes:
        seen["a"] += 1
        return str(seen["a"]).encode() * 100_000

    assert await in_snapshot(work, 10.0) == b"2" * 100_000
    assert seen == {"a": 1}


async def test_the_loop_goes_on_meanwhile() -> None:
    answer = asyncio.create_task(in_snapshot(lambda: time.sleep(0.05) or b"", 10.0))  # type: ignore[func-returns-value]
    turns = 0
    while not answer.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 1
    assert await answer == b""


async def test_what_it_raises_is_told() -> None:
    def work() -> bytes:
        raise ValueError("no such node")

    with pytest.raises(SnapshotFailed, match="ValueError: no such node"):
        await in_snapshot(work, 10.0)


async def test_one_that_dies_or_is_late_is_a_failure_and_leaves_nothing() -> None:
    with pytest.raises(SnapshotFailed, match="ended without an answer"):
        await in_snapshot(lambda: os.kill(os.getpid(), signal.SIGKILL) or b"", 10.0)  # type: ignore[func-returns-value]
    with pytest.raises(SnapshotFailed, match="no answer within"):
        await in_snapshot(lambda: time.sleep(60) or b"", 0.05)  # type: ignore[func-returns-value]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_it_has_no_file_of_its_parents() -> None:
    source, sink = os.pipe()

    def work() -> bytes:
        found = []
        for each in (source, sink):
            try:
                os.fstat(each)
            except OSError:
                found.append(b"closed")
        return b" ".join(found)

    try:
        assert wait_for_snapshot(work, 10.0) == b"closed closed"
    finally:
        os.close(source)
        os.close(sink)
