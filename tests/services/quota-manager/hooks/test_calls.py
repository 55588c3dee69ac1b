"""Calls of hooks that raise, hang, come back late, or want to end the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from berth.quota_manager.core.hooks.answers import Unusable
from berth.quota_manager.core.hooks.asking import NamedHook, Returned
from berth.quota_manager.hooks.calls import FAILURES, HookCalls

LONG_S = 60.0
BUSY = Unusable("has not answered yet", is_busy=True)


def hook(work: Callable[..., Any], name: str = "h") -> NamedHook:
    return NamedHook(name, {"charges": work})


def test_an_answer_comes_back() -> None:
    calls = HookCalls(LONG_S)
    assert calls.call(hook(lambda a, b: (b, a)), "charges", (1, 2)) == Returned((2, 1))
    assert calls.call(hook(lambda: None), "charges", ()) == Returned(None)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ValueError("no"), "raises ValueError: no"),
        (SystemExit(3), "raises SystemExit: 3"),
        (KeyboardInterrupt(), "raises KeyboardInterrupt: "),
        (UnprintableError(), "raises UnprintableError"),
        (ValueError("\udcff"), "raises ValueError: ?"),
        (ValueError("a\n\x1b[31mb"), "raises ValueError: a  [31mb"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_hook_raises_is_an_answer_that_cannot_be_used(error: BaseException, why: str) -> None:
    calls = HookCalls(LONG_S)
    assert calls.call(hook(raising(error)), "charges", ()) == Unusable(why)
    assert calls.call(hook(lambda: 1), "charges", ()) == Returned(1)


def test_a_hook_that_hangs_holds_nobody_up_and_is_left_alone_until_it_is_back() -> None:
    calls, go_on = HookCalls(0.01), threading.Event()
    asked: list[int] = []

    def hanging(number: int) -> int:
        asked.append(number)
        go_on.wait(LONG_S)
        return number

    assert calls.call(hook(hanging), "charges", (1,)) == Unusable("takes longer than 0.01 s")
    assert calls.call(hook(hanging), "charges", (2,)) == Unusable("has not come back from another call")
    assert calls.call(hook(hanging), "charges", (1,)) == Unusable("takes longer than 0.01 s")
    assert asked == [1]
    assert HookCalls(LONG_S).call(hook(lambda: 1, "other"), "charges", ()) == Returned(1)
    go_on.set()
    assert once_back(lambda: calls.call(hook(hanging), "charges", (1,))) == Returned(1)
    assert asked == [1]


def test_a_slow_answer_is_kept_for_who_asked() -> None:
    calls, go_on = HookCalls(LONG_S), threading.Event()
    asked: list[int] = []

    def slow(number: int) -> int:
        asked.append(number)
        go_on.wait(LONG_S)
        return number

    assert calls.call(hook(slow), "charges", (1,)) == BUSY
    assert calls.call(hook(slow), "charges", (2,)) == BUSY
    go_on.set()
    assert once_back(lambda: calls.call(hook(slow), "charges", (2,))) == Returned(2)
    assert calls.call(hook(slow), "charges", (1,)) == Returned(1)
    assert asked == [1, 2], "it is not asked again for what it has said"
    assert calls.call(hook(slow), "charges", (1,)) == Returned(1)
    assert asked == [1, 2, 1], "unless somebody asks anew"


def once_back(call: Callable[[], Returned | Unusable]) -> Returned | Unusable:
    give_up = time.monotonic() + LONG_S
    while isinstance(answer := call(), Unusable) and time.monotonic() < give_up:
        pass
    return answer


def test_failures_are_counted_by_hook_and_function() -> None:
    counted = FAILURES.labels("counted", "charges")
    before = counted._value.get()
    calls = HookCalls(LONG_S)
    calls.failed(hook(lambda: 1, "counted"), "charges", Unusable("why"))
    calls.failed(hook(lambda: 1, "counted"), "charges", Unusable("why"))
    assert counted._value.get() == before + 2
