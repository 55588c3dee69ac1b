"""The scheduler: one virtual time, many event loops, and a seed that says whose turn it is.

Among the processes that have something to do at one instant the seed draws who goes first; each then does one turn of
its loop, as asyncio does. When nobody has anything to do, time jumps to the earliest timer. Nothing depends on the
machine's clock, on addresses in memory or on hash seeds: the same seed gives the same run, bit by bit.

A process that goes round and round at one instant (`while ...: await asyncio.sleep(0)`) is made to use up a little time
now and then, so that what it waits for can come.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import heapq
import random
import sys
import warnings
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

from berth.telemetry.capture import captured_logs
from berth.testing.simulation.loop import Handle, SimLoop, Timer
from berth.testing.simulation.process import Process

EPOCH_S: Final = 1_750_000_000.0
"""Unix time at virtual time 0."""
TURNS_MAX: Final = 1000
"""Turns of one loop at one instant before it uses up time."""
BUSY_S: Final = 0.001
COLLECT_S: Final = 600.0
"""Garbage is collected at fixed virtual times: collected whenever it suits the interpreter, it could move a run."""
_HEAP_MIN: Final = 400  # of a few hundred timers most are time-outs that were called off


class World:
    """See the module. Make it outside of every event loop; `close` it, or use it in a `with` block."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        """Virtual seconds since the beginning."""
        self.random = random.Random(f"{seed}/world")
        """For whoever drives the world. Parts with a life of their own take one of their own, see `chance`."""
        self.callbacks = 0
        """How many ran inside processes."""
        self.processes: list[Process] = []
        """All that ever were, in order."""
        self._turns = random.Random(f"{seed}/turns")
        self._incarnations: dict[str, int] = {}
        self._heap: list[tuple[float, int, Timer]] = []
        self._heap_limit = _HEAP_MIN
        self._order = 0
        self._runnable: list[SimLoop] = []
        self._hash = hashlib.blake2b(digest_size=16)
        self._trail = 0
        self._entered: SimLoop | None = None
        self._stopped = False
        self._closed = False
        self._collect_at_s = COLLECT_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    # --- what parts of a simulation use -------------------------------------------------------------------------------

    def wall(self) -> float:
        """Unix time in seconds, without anybody's skew."""
        return EPOCH_S + self.now

    def chance(self, name: str) -> random.Random:
        """A source of randomness of its own for a part of the simulation: what others draw does not move it."""
        return random.Random(f"{self.seed}/part/{name}")

    def process(self, name: str, clock_skew_s: float = 0.0) -> Process:
        """The next incarnation of a process. Raises RuntimeError while the former one lives."""
        if any(process.name == name and process.alive for process in self.processes):
            raise RuntimeError(f"process {name} is alive")
        incarnation = self._incarnations[name] = self._incarnations.get(name, 0) + 1
        process = Process(self, name, incarnation, len(self.processes), clock_skew_s)
        self.processes.append(process)
        return process

    def later(self, delay_s: float, process: Process | None, callback: Callable[..., object], *args: Any) -> Timer:
        """Call this after `delay_s`, inside a process if it still lives then, or (None) outside of every process.

        An exception of a callback outside comes out of `run`.
        """
        when_s = self.now + (delay_s if delay_s > 0 else 0.0)
        if process is not None:
            return process.loop.deliver(callback, args, when_s)
        timer = Timer(callback, args, None, None, when_s)
        self.push(timer)
        return timer

    def note(self, fact: bytes) -> None:
        """Feed `digest`."""
        self._hash.update(len(fact).to_bytes(8, "little"))
        self._hash.update(fact)

    @property
    def digest(self) -> str:
        """The hash of everything that was noted so far."""
        return self._hash.hexdigest()

    @property
    def trail(self) -> str:
        """A hash of every turn that was taken: when, by whom, of how many callbacks. Finer than `digest`.

        It differs between versions of Python whose asyncio takes different steps to the same end.
        """
        return f"{self._trail & 0xFFFF_FFFF_FFFF_FFFF:016x}"

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self, until_s: float) -> None:
        """Let everything happen up to this virtual time. Raises what a callback outside of processes raised."""
        with self._alone():
            self._stopped = False
            heap, runnable = self._heap, self._runnable
            while not self._stopped:
                now = self.now
                if heap and heap[0][0] <= now:
                    self._fire_due()
                if self._stopped:
                    return
                if runnable:
                    self._turn(runnable.pop() if len(runnable) == 1 else self._drawn())
                elif heap and heap[0][0] <= until_s:
                    self._jump(heap[0][0])
                else:
                    self.now = max(now, until_s)
                    return

    def run_until(self, done: Callable[[], bool], within_s: float, *, every_s: float = 0.1) -> bool:
        """Run until this holds, looking every so often; whether it did within `within_s`."""
        deadline_s = self.now + within_s
        while not done():
            if self.now >= deadline_s:
                return False
            self.run(min(self.now + every_s, deadline_s))
        return True

    def stop(self) -> None:
        """End `run` after the present turn; a later `run` goes on from there."""
        self._stopped = True

    def collect(self) -> None:
        """Let go of what nobody refers to any more: a failure that nobody looked at becomes a failure then."""
        gc.collect(0)

    def close(self) -> None:
        """End everything and let go of it. Clean-up of what never ended runs now, and no longer counts."""
        if self._closed:
            return
        self._closed = True
        for process in self.processes:
            process.loop.die()
        self._heap.clear()
        self._runnable.clear()
        with _quietly():
            for process in self.processes:
                process.loop.bury()
            self.processes.clear()
            self._heap.clear()
            gc.collect()

    # --- inside -------------------------------------------------------------------------------------------------------

    def push(self, timer: Timer) -> None:
        """Take a timer; of those for one moment the first comes first."""
        self._order += 1
        heapq.heappush(self._heap, (timer.when_s, self._order, timer))
        if len(self._heap) > self._heap_limit:
            self._heap[:] = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._heap_limit = max(_HEAP_MIN, 2 * len(self._heap))

    def wake(self, loop: SimLoop) -> None:
        """This loop has something to do."""
        if not loop.paused:
            loop.runnable = True
            self._runnable.append(loop)

    def _jump(self, to_s: float) -> None:
        self.now = to_s
        if to_s >= self._collect_at_s:
            self._collect_at_s = to_s + COLLECT_S
            self.collect()

    def _fire_due(self) -> None:
        heap, now = self._heap, self.now
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)[2]
            callback, loop = timer.callback, timer.loop
            if callback is None:
                continue
            if loop is None:
                if self._entered is not None:
                    self._enter(None)
                callback(*timer.args)
            elif not loop.dead:
                loop.ready.append(timer)
                if not loop.runnable:
                    self.wake(loop)

    def _drawn(self) -> SimLoop:
        """Whose turn it is, of several."""
        runnable = self._runnable
        at = int(self._turns.random() * len(runnable))
        loop, runnable[at] = runnable[at], runnable[-1]
        runnable.pop()
        return loop

    def _turn(self, loop: SimLoop) -> None:
        """What asyncio does in one iteration, and in the next ones while nobody else has anything to do."""
        if loop.dead or loop.paused:
            loop.runnable = False
            return
        heap, runnable, ready, now = self._heap, self._runnable, loop.ready, self.now
        if self._entered is not loop:
            self._enter(loop)
        while True:
            count = len(ready)
            if 0 <= loop.fuse < count:
                count = loop.fuse
            self._trail = hash((self._trail, now, loop.number, count))
            self.callbacks += count
            _run_ready(loop, ready, count)
            if loop.fuse >= 0:
                _burn(loop, count)
            if not ready or loop.dead or loop.paused:
                break
            if loop.busy_since_s != now:
                loop.busy_since_s, loop.turns = now, 0
            loop.turns += 1
            if loop.turns > TURNS_MAX:
                loop.turns = 0
                self.later(BUSY_S, None, self._rested, loop)  # until then it counts as runnable: nobody wakes it
                return
            if runnable or (heap and heap[0][0] <= now) or self._stopped:
                runnable.append(loop)
                return
        loop.runnable = False

    def _enter(self, loop: SimLoop | None) -> None:
        """Tell asyncio who is running: a system call in some versions of Python, so only when it changes."""
        self._entered = loop
        _set_running_loop(loop)
        if loop is not None:
            sys.set_asyncgen_hooks(None, loop.finalize)

    def _rested(self, loop: SimLoop) -> None:
        loop.runnable = False
        if not loop.dead:
            self.wake(loop)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if self._closed:
            raise RuntimeError("the world is closed")
        if _get_running_loop() is not None:
            raise RuntimeError("a world cannot run inside an event loop")
        hooks = sys.get_asyncgen_hooks()
        try:
            with uncollected():
                yield
        finally:
            self._enter(None)
            sys.set_asyncgen_hooks(*hooks)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """For the length of a `with` block garbage is collected by hand alone, see `World.collect`."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _run_ready(loop: SimLoop, ready: deque[Handle], count: int) -> None:
    """What is ready now, not what becomes ready by it."""
    for _ in range(count):
        handle = ready.popleft()
        callback, context = handle.callback, handle.context
        if callback is None or context is None:
            continue
        try:
            context.run(callback, *handle.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            loop.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})
        if loop.dead:
            return


def _burn(loop: SimLoop, count: int) -> None:
    """So many callbacks less until the process dies."""
    loop.fuse -= count
    if loop.fuse <= 0:
        loop.stop()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Nothing that dies in here says so."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings(), captured_logs(lambda _: None, "error"):
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = before


def current_process_name() -> str:
    """The loop that is having its turn, for logs; empty outside of every process."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return ""
    return loop.name if isinstance(loop, SimLoop) else ""
