"""What a process does about itself: garbage collection, its parent, its port file, threads that would not end."""

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# Views hold hundreds of thousands of long-lived objects; Python's default of a young collection every 700 allocations
# walks them far too often for how little of it is cyclic garbage.
_GC_THRESHOLDS: Final = (20_000, 20, 20)
# What somebody waits for makes a few tens of thousands of objects. The bound is for what runs on, or waits itself.
_PUT_OFF_TO: Final = 500_000
_PR_SET_PDEATHSIG: Final = 1


def tune_garbage_collection() -> None:
    """Collect less often."""
    gc.set_threshold(*_GC_THRESHOLDS)


def freeze_garbage_collection() -> None:
    """Leave what is alive now out of all further collections. It is still freed when its last reference goes."""
    gc.collect()
    gc.freeze()


class _PuttingOff:
    """How many are at work for whom collections are put off, and what held before the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.before = gc.get_threshold()


_putting_off: Final = _PuttingOff()


@contextmanager
def collections_put_off() -> Iterator[None]:
    """Within it garbage is collected only once half a million objects have come, and else right after it.

    For what others wait for: a collection in its midst adds a tenth or more to it, and is as good a little later. They
    may overlap.
    """
    if not _putting_off.count:
        _putting_off.before = young, *older = gc.get_threshold()
        if young:  # else nothing is collected at all
            gc.set_threshold(max(young, _PUT_OFF_TO), *older)
    _putting_off.count += 1
    try:
        yield
    finally:
        _putting_off.count -= 1
        if not _putting_off.count:
            gc.set_threshold(*_putting_off.before)


def signal_on_parent_death() -> None:
    """Ask Linux for a SIGTERM when the parent ends, however it ends. Elsewhere the heartbeat notices, a little later.

    The parent is the thread that started this process, so a launcher must start its children from a thread that stays.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def write_port_file(path: str, port: int) -> None:
    """Write the port so that a reader sees the whole number or no file."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_text(f"{port}\n")
    temporary.replace(target)


def lingering_threads(timeout_s: float) -> list[str]:
    """Threads that would keep the interpreter from exiting, after giving them `timeout_s` to end."""
    deadline = time.monotonic() + timeout_s
    for thread in _others():
        thread.join(max(0.0, deadline - time.monotonic()))
    return sorted(thread.name for thread in _others())


def _others() -> list[threading.Thread]:
    current = threading.current_thread()
    return [thread for thread in threading.enumerate() if thread is not current and not thread.daemon]
