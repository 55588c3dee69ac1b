"""Work on a copy of this process as it is now, which ends with an answer and changes nothing here.

The copy is a forked child: the kernel shares the memory until one of both writes to it, so it costs no copying and the
process goes on at once. The child is the forking thread alone. It has no file, no socket and no signal handler of its
parent's, so nothing that it does can be seen outside but the bytes that it answers; it ends at the latest when its time
is over, and with its parent. Locks that other threads held at that moment are never released in it: it must not need
them, and would be killed when it is late.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

ANSWER_BYTES_MAX: Final = 16 << 20
NICE: Final = 5
_FILES_MAX: Final = 1 << 20
_PR_SET_PDEATHSIG: Final = 1
_CHUNK: Final = 1 << 16
_REAP_EVERY_S: Final = 0.01
_GOOD: Final = b"+"
_BAD: Final = b"-"


class SnapshotFailed(Exception):  # noqa: N818 - what it is, not that it is an error
    """The copy gave no answer: it raised, was late, or died. The text is for people."""


async def in_snapshot(work: Callable[[], bytes], limit_s: float) -> bytes:
    """What `work` answers in a copy of this process. Raises SnapshotFailed; OSError where there can be no copy.

    `work` may change everything that it sees. It must not await, or use the loop, threads or the bus.
    """
    loop = asyncio.get_running_loop()
    child, source = _fork(work, limit_s)
    answer, done = bytearray(), asyncio.Event()

    def read() -> None:
        data = os.read(source, _CHUNK)
        answer.extend(data)
        if not data or len(answer) > ANSWER_BYTES_MAX:
            loop.remove_reader(source)
            done.set()

    loop.add_reader(source, read)
    try:
        async with asyncio.timeout(limit_s):
            await done.wait()
    except TimeoutError:
        raise SnapshotFailed(f"no answer within {limit_s:g} s") from None
    finally:
        loop.remove_reader(source)
        os.close(source)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        while not _has_ended(child):  # noqa: ASYNC110 - nobody sets an event
            await asyncio.sleep(_REAP_EVERY_S)
    return _judged(answer)


def wait_for_snapshot(work: Callable[[], bytes], limit_s: float) -> bytes:
    """The same for a caller without a loop, or with one on virtual time: it waits."""
    child, source = _fork(work, limit_s)
    answer = bytearray()
    try:
        while data := os.read(source, _CHUNK):
            answer.extend(data)
    finally:
        os.close(source)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return _judged(answer)


def _has_ended(child: int) -> bool:
    return os.waitpid(child, os.WNOHANG) != (0, 0)


def _judged(answer: bytearray) -> bytes:
    head, rest = bytes(answer[:1]), bytes(answer[1:])
    if head == _GOOD and len(rest) < ANSWER_BYTES_MAX:
        return rest
    raise SnapshotFailed(rest.decode("utf-8", "replace")[:500] if head == _BAD else "it ended without an answer")


def _fork(work: Callable[[], bytes], limit_s: float) -> tuple[int, int]:
    """The child, and where its answer comes."""
    source, sink = os.pipe()
    os.set_blocking(source, True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which see above
            child = os.fork()
    except OSError:
        os.close(source)
        os.close(sink)
        raise
    if child == 0:
        _live(work, sink, limit_s)
    os.close(sink)
    return child, source


def _live(work: Callable[[], bytes], sink: int, limit_s: float) -> NoReturn:
    """All that the child does."""
    try:
        _part_from_parent(sink, limit_s)
        try:
            answer = _GOOD + work()
        except Exception as error:
            answer = _BAD + f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        while answer:
            answer = answer[os.write(sink, answer) :]
    finally:
        os._exit(0)  # neither buffers nor exit handlers of the parent's


def _part_from_parent(sink: int, limit_s: float) -> None:
    gc.disable()  # a collection would write to every object, and copy all memory
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)  # or its signals would be the parent's
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)
    os.closerange(3, sink)
    os.closerange(sink + 1, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] % (1 << 62), _FILES_MAX))
    logging.disable(logging.CRITICAL)
    os.nice(NICE)
    seconds = int(limit_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
