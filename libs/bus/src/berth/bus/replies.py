"""Where answers come in: one subject per link, with a token behind it for each request.

A caller that waits for an answer hears at once when it cannot come: the connection is lost, the request was denied, or
this user may not read its answers at all.
"""

from __future__ import annotations

import asyncio

from berth.bus import headers as h
from berth.bus.client import Delivery
from berth.bus.errors import BusError, Denied, Disconnected, NoAnswer, TimedOut


class Replies:
    """The requests that wait. `subject` is the one to subscribe to, with `take` as its taker."""

    def __init__(self, inbox: str) -> None:
        self._prefix = f"{inbox}."
        self.subject = f"{self._prefix}*"
        self._tokens = 0
        self._waiting: dict[str, Expected] = {}  # by the subject of the answer
        self._is_deaf = False

    def expect(self, subject: str) -> Expected:
        """The first answer to a request on this subject; enter it before the request is sent."""
        self._tokens += 1
        expected = Expected(subject, f"{self._prefix}{self._tokens:x}", self._waiting)
        if self._is_deaf:
            expected.fail(Denied(self.subject))
        return expected

    def take(self, msg: Delivery) -> None:
        """An answer came in; those that nobody waits for any more are dropped."""
        expected = self._waiting.get(msg.subject)
        if expected is not None:
            expected.take(msg)

    def begin(self) -> None:
        """Another connection: its user may be one who reads answers."""
        self._is_deaf = False

    def lose(self) -> None:
        """The connection was lost: no answer comes any more."""
        for expected in self._waiting.values():
            expected.fail(Disconnected("connection to the bus lost"))
        self._waiting.clear()

    def deny(self, operation: str, subject: str) -> str:
        """Fail what waits for a subject in lower case; how it is really spelt, as far as that is known.

        Without the subscription to the answers everything fails, now and until the next connection.
        """
        deaf = operation == "subscription" and subject == self.subject.lower()
        waiting = [each for each in self._waiting.values() if deaf or each.subject.lower() == subject]
        spelt = self.subject if deaf else waiting[0].subject if waiting else subject
        self._is_deaf = self._is_deaf or deaf
        for expected in waiting:
            expected.fail(Denied(spelt))
        return spelt


class Expected:
    """The first answer to one request, while its `with` block lasts.

    `subject` is that of the request, `reply` the one to answer on.
    """

    def __init__(self, subject: str, reply: str, waiting: dict[str, Expected]) -> None:
        self.subject = subject
        self.reply = reply
        self._waiting = waiting
        self._future: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> Expected:
        self._waiting[self.reply] = self
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.pop(self.reply, None)
        future = self._future
        if future.done() and not future.cancelled():
            future.exception()  # a failure that nobody waited for is none
        else:
            future.cancel()

    def take(self, msg: Delivery) -> None:
        """This is it, unless there is one already."""
        if not self._future.done():
            self._future.set_result(msg)

    def fail(self, error: BusError) -> None:
        """None will come."""
        if not self._future.done():
            self._future.set_exception(error)

    async def answer(self, timeout_s: float) -> Delivery:
        """Wait for it. Raises Disconnected, Denied, NoAnswer or TimedOut."""
        timer = self._future.get_loop().call_later(timeout_s, self._expire, timeout_s)
        try:
            msg = await self._future  # bare: unlike wait_for, this never swallows a cancellation
        finally:
            timer.cancel()
        if not msg.data and msg.headers and msg.headers.get(h.STATUS) == h.NO_RESPONDERS:
            raise NoAnswer(f"nobody listens: {self.subject}")
        return msg

    def _expire(self, timeout_s: float) -> None:
        self.fail(TimedOut(f"no answer within {timeout_s:g} s: {self.subject}"))
