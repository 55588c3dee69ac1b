"""Calls hooks in threads of their own, and waits for an answer for a short time.

A hook that does not come back at once is left to itself; its answer is kept for whoever asks the same again. It is not
called anew before it has come back: at most one thread hangs for each hook. Only once it has taken longer than it may,
that is a failure. How long was waited is counted, so that a round stops asking when hooks are slow.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from berth.quota_manager.core.hooks.answers import TEXT_LENGTH_MAX, Unusable, printable
from berth.quota_manager.core.hooks.asking import NamedHook, Returned
from berth.telemetry import counter, get_logger, histogram

CALLS = histogram("berth_quota_hook_call_seconds", "Time that a hook takes to answer.", ["hook", "function"])
FAILURES = counter("berth_quota_hook_failures_total", "Answers of hooks that could not be used.", ["hook", "function"])
AT_ONCE_S: Final = 0.05
"""A round waits for so long for one answer, and takes it in a later one if it comes later."""
LATE_MAX: Final = 64
"""So many answers that came late are kept for each hook."""
SAID_EVERY_S: Final = 60.0
"""The same failure of a hook is logged once in this time."""

_log = get_logger("berth")


class HookCalls:
    """The port by which the core asks hooks. `limit_s` is how long a call may take."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._spent_s = 0.0
        self._workers: dict[str, _Worker] = {}
        self._said: dict[tuple[str, str], float] = {}
        weakref.finalize(self, _let_go, self._workers)

    def call(self, hook: NamedHook, function: str, arguments: tuple[object, ...]) -> Returned | Unusable:
        """See `asking.Call`."""
        worker = self._workers.get(hook.name)
        if worker is None:
            worker = self._workers[hook.name] = _Worker(hook.name, self._limit_s)
        began = time.perf_counter()
        answer = worker.ask((function, arguments), hook.functions[function])
        self._spent_s += time.perf_counter() - began
        return answer

    def spent_s(self) -> float:
        """How many seconds were spent on waiting for answers so far."""
        return self._spent_s

    def failed(self, hook: NamedHook, function: str, problem: Unusable) -> None:
        """Count an answer that cannot be used, and say it now and then."""
        FAILURES.labels(hook.name, function).inc()
        now = time.monotonic()
        if now - self._said.get((hook.name, function), float("-inf")) >= SAID_EVERY_S:
            self._said[hook.name, function] = now
            _log.warning("a hook of quotas failed", hook=hook.name, function=function, why=problem.why)


Asked: TypeAlias = tuple[str, tuple[object, ...]]
"""A function, and its arguments."""


class _Worker:
    """One thread, which runs one call at a time. `limit_s` is how long one may take."""

    def __init__(self, name: str, limit_s: float) -> None:
        self._name = name
        self._limit_s = limit_s
        self._work: SimpleQueue[tuple[Asked, Callable[..., object]] | None] = SimpleQueue()
        self._answers: SimpleQueue[Returned | Unusable] = SimpleQueue()
        self._owed: Asked | None = None
        """The call that has not come back, which began at `_began`, by the monotonic clock."""
        self._began = 0.0
        self._late: list[tuple[Asked, Returned | Unusable]] = []
        threading.Thread(target=self._run, name=f"hook-{name}", daemon=True).start()

    def ask(self, asked: Asked, work: Callable[..., object]) -> Returned | Unusable:
        if self._owed is not None:
            if self._answers.empty():
                return self._not_back(is_same=self._owed == asked)
            self._late = [*self._late[1 - LATE_MAX :], (self._owed, self._answers.get())]
            self._owed = None
        for at, (of, answer) in enumerate(self._late):
            if of == asked:
                del self._late[at]
                return answer
        self._began = time.monotonic()
        self._work.put((asked, work))
        try:
            return self._answers.get(timeout=min(AT_ONCE_S, self._limit_s))
        except Empty:
            self._owed = asked
            return self._not_back(is_same=True)

    def _not_back(self, *, is_same: bool) -> Unusable:
        if time.monotonic() - self._began < self._limit_s:
            return Unusable("has not answered yet", is_busy=True)
        return Unusable(f"takes longer than {self._limit_s:g} s" if is_same else "has not come back from another call")

    def stop(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            (function, arguments), called = work
            began = time.perf_counter()
            answer = _outcome(called, arguments)
            CALLS.labels(self._name, function).observe(time.perf_counter() - began)
            self._answers.put(answer)


def _let_go(workers: dict[str, _Worker]) -> None:
    for worker in workers.values():
        worker.stop()


def _outcome(work: Callable[..., object], arguments: tuple[object, ...]) -> Returned | Unusable:
    try:
        return Returned(work(*arguments))
    except BaseException as error:  # whatever code of others raises, the thread goes on
        return Unusable(f"raises {_text_of(error)}"[:TEXT_LENGTH_MAX])


def _text_of(error: BaseException) -> str:
    try:
        return printable(f"{type(error).__name__}: {error}")
    except Exception:
        return type(error).__name__
