"""Core scheduling's cookies by prctl. The kernel takes them from and gives them to the thread that asks.

So each question is asked in a thread of its own, which ends with whatever cookie it has: nothing that this process
starts later inherits it.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterable
from threading import Thread
from typing import Final, TypeVar

T = TypeVar("T")

PR_SCHED_CORE: Final = 62
_GET: Final = 0
_CREATE: Final = 1
_SHARE_TO: Final = 2
_SHARE_FROM: Final = 3
_THREAD: Final = 0
_THREAD_GROUP: Final = 1
_WITHOUT_COOKIE: Final = 1
"""The first process of the node, which has no cookie: whoever has none of it is given that."""
_VANISHED: Final = frozenset({errno.ESRCH, errno.ENOENT})


class CoreCookies:
    """Cookies of this machine's processes."""

    def __init__(self, bare: int = _WITHOUT_COOKIE) -> None:
        """Take which process has no cookie."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._bare = bare

    def of(self, process: int) -> int | None:
        """The cookie of a process, 0 for none; None: it is gone. Raises OSError where the kernel has no cookies."""
        cookie = ctypes.c_uint64(0)
        try:
            self._ask(_GET, process, _THREAD, ctypes.byref(cookie))
        except OSError as error:
            if error.errno in _VANISHED:
                return None
            raise
        return int(cookie.value)

    def create(self, process: int) -> None:
        """Give a process and its threads a cookie that nobody has."""
        self._ask(_CREATE, process, _THREAD_GROUP, None)

    def share(self, source: int, targets: Iterable[int]) -> None:
        """Give the cookie of one process to others; those that are gone are left out."""
        _apart(lambda: self._share(source, targets))

    def clear(self, targets: Iterable[int]) -> None:
        """Take cookies away."""
        _apart(lambda: self._share(self._bare, targets))

    def _share(self, source: int, targets: Iterable[int]) -> None:
        self._ask(_SHARE_FROM, source, _THREAD, None)
        for target in targets:
            try:
                self._ask(_SHARE_TO, target, _THREAD_GROUP, None)
            except OSError as error:
                if error.errno not in _VANISHED:
                    raise

    def _ask(self, operation: int, process: int, scope: int, answer: object) -> None:
        if self._libc.prctl(PR_SCHED_CORE, operation, process, scope, answer) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))


def _apart(work: Callable[[], T]) -> T:
    """Do it in a thread of its own."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, name="core-cookies", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
