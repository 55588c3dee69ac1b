"""What can go wrong on the bus, as exceptions. Outcomes of a commit are values instead (`berth.bus.port`)."""

from __future__ import annotations

from berth.contracts.errors import BerthError, InvalidMessage

__all__ = [
    "ApiError",
    "BusError",
    "Denied",
    "Disconnected",
    "InvalidMessage",
    "NoAnswer",
    "RemoteError",
    "RetryLater",
    "ServerTooOld",
    "TimedOut",
    "TopologyError",
    "describe",
]


class BusError(BerthError):
    """Base of the bus's errors."""


class Disconnected(BusError):  # noqa: N818
    """The connection was lost, or is not there yet."""


class TimedOut(BusError):  # noqa: N818
    """No answer in time."""


class NoAnswer(BusError):  # noqa: N818
    """Nobody listens on this subject (no such service, stream or bucket)."""


class Denied(BusError):  # noqa: N818
    """The server's permissions forbid this subject to this user."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"permission denied by the bus: {subject}")
        self.subject = subject


class RemoteError(BusError):
    """The asked service answered with an error; `code` is HTTP-like (400: bad question, 500: failed)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ApiError(BusError):
    """JetStream refused a request; `code` is its error code (10059: no such stream)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message


class ServerTooOld(BusError):  # noqa: N818
    """The server lacks what the topology needs."""


class TopologyError(BusError):
    """A stream exists in a form that cannot be changed to what is needed."""


class RetryLater(BerthError):  # noqa: N818
    """Raised by a handler of a work queue: through no fault of the message, it cannot be carried out now."""


def describe(error: BusError | Exception) -> str:
    """A text for logs, never empty."""
    return str(error) or type(error).__name__
