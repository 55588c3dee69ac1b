"""What goes wrong on a connection that goes on: denied subjects, late readers, callbacks that fail.

A denied subject is logged, counted and fails the request that waits for it; of the others nobody waits, so a log line
and a count are all there is.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable

from nats.errors import Error as NatsError

from berth.bus import metrics
from berth.bus.logs import FieldLogger
from berth.bus.replies import Replies

log = FieldLogger(__name__)

DENIED_KEPT = 1000
"""Denied subjects remembered, so that each is logged loudly once."""
# The client library hands errors of the server on in lower case.
_DENIED = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE)


class ConnectionErrors:
    """Hears every error of a client that does not end its connection."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._denied_before: dict[str, None] = {}
        self._on_denied: dict[Callable[[str], None], None] = {}

    def on_denied(self, hook: Callable[[str], None]) -> Callable[[], None]:
        """Call with the lower-case subject of every denied publish; returns what ends that."""
        self._on_denied[hook] = None
        return lambda: self._on_denied.pop(hook, None) and None

    async def hear(self, error: Exception) -> None:
        """The client's callback for errors."""
        text = str(error)
        denied = _DENIED.search(text)
        if denied is not None:
            self._denied(denied[1].lower(), denied[2])
        elif "slow consumer" in text:
            metrics.SLOW_CONSUMERS.inc()
            log.warning("a reader is late, the client dropped a message")
        elif isinstance(error, NatsError | OSError | asyncio.TimeoutError):
            log.debug("the connection to the bus has failed", error=str(error) or type(error).__name__)
        else:
            log.failed("a callback failed", error)

    def _denied(self, operation: str, subject: str) -> None:
        """`subject` is in lower case; what waits for it knows how it is really spelt."""
        metrics.PERMISSION_ERRORS.labels(operation).inc()
        spelt = self._replies.deny(operation, subject)
        level = logging.DEBUG if subject in self._denied_before else logging.ERROR
        log.at(level, "permission denied by the bus", operation=operation, subject=spelt)
        self._denied_before[subject] = None
        if len(self._denied_before) > DENIED_KEPT:
            self._denied_before.clear()
        if operation == "publish":
            for hook in list(self._on_denied):
                hook(subject)
