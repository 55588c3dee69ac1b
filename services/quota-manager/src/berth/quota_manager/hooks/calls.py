"""Calls hooks in threads of their own, and waits for an answer for a short time.

A hook that does not come back in time is left to itself, and is not called again before it has come back: at most one
thread hangs for each hook, and no round is held up by it for longer than one call may take.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from berth.quota_manager.core.hooks.answers import TEXT_LENGTH_MAX, Unusable
from berth.quota_manager.core.hooks.asking import NamedHook, Returned
from berth.telemetry import counter, get_logger, histogram

CALLS = histogram("berth_quota_hook_call_seconds", "Time that a hook takes to answer.", ["hook", "function"])
FAILURES = counter("berth_quota_hook_failures_total", "Answers of hooks that could not be used.", ["hook", "function"])
SAID_EVERY_S: Final = 60.0
"""The same failure of a hook is logged once in this time."""

_log = get_logger("berth")


class HookCalls:
    """The port by which the core asks hooks. `limit_s` is how long a call may take."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._workers: dict[str, _Worker] = {}
        self._said: dict[tuple[str, str], float] = {}
        weakref.finalize(self, _let_go, self._workers)

    def call(self, hook: NamedHook, function: str, arguments: tuple[object, ...]) -> Returned | Unusable:
        """See `asking.Call`."""
        worker = self._workers.get(hook.name)
        if worker is None:
            worker = self._workers[hook.name] = _Worker(hook.name)
        began = time.perf_counter()
        answer = worker.ask(lambda: hook.functions[function](*arguments), self._limit_s)
        CALLS.labels(hook.name, function).observe(time.perf_counter() - began)
        return answer

    def failed(self, hook: NamedHook, function: str, problem: Unusable) -> None:
        """Count an answer that cannot be used, and say it now and then."""
        FAILURES.labels(hook.name, function).inc()
        now = time.monotonic()
        if now - self._said.get((hook.name, function), float("-inf")) >= SAID_EVERY_S:
            self._said[hook.name, function] = now
            _log.warning("a hook of quotas failed", hook=hook.name, function=function, why=problem.why)


class _Worker:
    """One thread, which runs one call at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._answers: SimpleQueue[Returned | Unusable] = SimpleQueue()
        self._owes = False
        """A call has not come back."""
        threading.Thread(target=self._run, name=f"hook-{name}", daemon=True).start()

    def ask(self, work: Callable[[], object], limit_s: float) -> Returned | Unusable:
        if self._owes:
            if self._answers.empty():
                return Unusable("has not come back from an earlier call")
            self._answers.get()
            self._owes = False
        self._work.put(work)
        try:
            return self._answers.get(timeout=limit_s)
        except Empty:
            self._owes = True
            return Unusable(f"takes longer than {limit_s:g} s")

    def stop(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            self._answers.put(_outcome(work))


def _let_go(workers: dict[str, _Worker]) -> None:
    for worker in workers.values():
        worker.stop()


def _outcome(work: Callable[[], object]) -> Returned | Unusable:
    try:
        return Returned(work())
    except BaseException as error:  # whatever code of others raises, the thread goes on
        return Unusable(f"raises {_text_of(error)}"[:TEXT_LENGTH_MAX])


def _text_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".encode(errors="replace").decode()
    except Exception:
        return type(error).__name__
