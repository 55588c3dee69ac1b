"""Where answers come in: one subject per link, with a token behind it for each request.

Whoever waits for an answer hears at once when it cannot come: the connection is lost, the request was denied, or this
user may not read its answers at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from berth.bus import headers as h
from berth.bus.client import Delivery
from berth.bus.errors import Denied, Disconnected, NoAnswer, TimedOut


class Replies:
    """The requests that wait. `subject` is the one to subscribe to, with `take` as its taker."""

    def __init__(self, inbox: str) -> None:
        self._prefix = f"{inbox}."
        self.subject = f"{self._prefix}*"
        self._tokens = 0
        self._waiting: dict[str, tuple[str, asyncio.Future[Delivery]]] = {}
        self._is_deaf = False

    @contextlib.contextmanager
    def expect(self, subject: str) -> Iterator[tuple[str, asyncio.Future[Delivery]]]:
        """A reply subject and the future of the first answer to it, for `answer`."""
        self._tokens += 1
        token = f"{self._tokens:x}"
        future: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self._waiting[token] = (subject, future)
        if self._is_deaf:
            future.set_exception(Denied(self.subject))
        try:
            yield self._prefix + token, future
        finally:
            self._waiting.pop(token, None)
            if future.done() and not future.cancelled():
                future.exception()
            else:
                future.cancel()

    def take(self, msg: Delivery) -> None:
        """An answer came in; those that nobody waits for any more are dropped."""
        waiting = self._waiting.get(msg.subject[len(self._prefix) :])
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(msg)

    def begin(self) -> None:
        """Another connection: its user may be one who reads answers."""
        self._is_deaf = False

    def lose(self) -> None:
        """The connection was lost: no answer comes any more."""
        waiting, self._waiting = self._waiting, {}
        for _, future in waiting.values():
            if not future.done():
                future.set_exception(Disconnected("connection to the bus lost"))

    def deny(self, operation: str, subject: str) -> str:
        """Fail what waits for a subject in lower case; how it is really spelt, as far as that is known.

        Without the subscription to the answers everything fails, now and until the next connection.
        """
        deaf = operation == "subscription" and subject == self.subject.lower()
        waiting = [(wanted, future) for wanted, future in self._waiting.values() if deaf or wanted.lower() == subject]
        spelt = self.subject if deaf else waiting[0][0] if waiting else subject
        self._is_deaf = self._is_deaf or deaf
        for _, future in waiting:
            if not future.done():
                future.set_exception(Denied(spelt))
        return spelt


async def answer(subject: str, future: asyncio.Future[Delivery], timeout_s: float) -> Delivery:
    """Wait for what `Replies.expect` promised. Raises Disconnected, Denied, NoAnswer or TimedOut."""
    try:
        async with asyncio.timeout(timeout_s):  # unlike wait_for, it never swallows a cancellation
            msg = await future
    except TimeoutError:
        raise TimedOut(f"no answer within {timeout_s:g} s: {subject}") from None
    if not msg.data and msg.headers and msg.headers.get(h.STATUS) == h.NO_RESPONDERS:
        raise NoAnswer(f"nobody listens: {subject}")
    return msg
