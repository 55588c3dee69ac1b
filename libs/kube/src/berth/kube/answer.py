"""What came of a call. Values, never exceptions: a lost answer, a conflict and a refusal are ordinary here.

The distinction that everything above depends on is *known* against *unknown*: status 0 means that the request may or
may not have had its effect.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from berth.kube.backoff import RETRY_AFTER_MAX_S

MESSAGE_LENGTH_MAX = 500
TOO_MUCH = frozenset({413, 414, 431})
"""What a proxy says of this very request: it is too large, and stays so."""
TOO_LARGE = "ResponseTooLarge"
"""Reason of an Answer whose body, or a line of it, was longer than allowed."""

NOT_FOUND = "NotFound"
"""Reason of an API server's own 404 about an object."""
NOT_INSTALLED = "NotInstalled"
"""Reason of a 404 to a list of which discovery says, too, that the kind is not served (`berth.kube.discovery`)."""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """details of a metav1 Status."""

    retry_after_seconds: float = 0.0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """What an API server says when it refuses: metav1 Status."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


_STATUS = msgspec.json.Decoder(Status)


def read_status(body: bytes) -> Status:
    """The Status in a refusal's body; an empty one when there is none (a proxy's page, a cut-off body)."""
    try:
        return _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Status()


class Answer(NamedTuple):
    """The outcome of one request.

    `status` is the HTTP status, or 0 when there was no answer (time-out, connection lost): the outcome is unknown.
    `reason` is the server's (`Conflict`, `NotFound`, ...), or what went wrong on the way. `retry_after_s` is how long
    the server wants to be left alone, None when it did not say. `is_page`: a refusal without a metav1 Status, so not an
    API server's word on the object, but that of a proxy, or of another server that is reached under its address.
    """

    status: int
    body: bytes = b""
    reason: str = ""
    retry_after_s: float | None = None
    is_page: bool = False

    @property
    def ok(self) -> bool:
        """The server did what was asked."""
        return 200 <= self.status < 300

    @property
    def unknown(self) -> bool:
        """It may or may not have taken effect: no answer, or an error of the server or of a proxy before it."""
        return self.status == 0 or self.status >= 500

    @property
    def repeat(self) -> bool:
        """Worth sending again unchanged, later: unknown, throttled, too slow on its way, not (yet) allowed, misled."""
        return (
            self.unknown or self.status in (401, 403, 408, 425, 429) or (self.is_page and self.status not in TOO_MUCH)
        )

    @property
    def conflict(self) -> bool:
        """A guard did not hold, or the object exists already."""
        return self.status == 409 and not self.is_page

    @property
    def missing(self) -> bool:
        """404: no such object or kind, as far as the server that answered knows. Look before you take it for gone."""
        return self.status == 404

    @property
    def not_installed(self) -> bool:
        """The kind is not served, as discovery confirms: there are no objects of it."""
        return self.status == 404 and self.reason == NOT_INSTALLED

    @property
    def expired(self) -> bool:
        """The resource version, or the token of a paged list, is too old: list again."""
        return self.status == 410 and not self.is_page

    @property
    def message(self) -> str:
        """The server's sentence about a refusal, shortened; else the reason."""
        text = read_status(self.body).message if self.status >= 400 else ""
        return (text or self.reason)[:MESSAGE_LENGTH_MAX]


def answer_of(status: int, body: bytes, phrase: str, retry_after: str | None) -> Answer:
    """The Answer to an HTTP response; `retry_after` is the header's text."""
    if status < 400:
        return Answer(status, body, phrase)
    said = read_status(body)
    wait_s = _seconds(retry_after)
    if wait_s is None and said.details is not None and said.details.retry_after_seconds > 0:
        wait_s = min(said.details.retry_after_seconds, RETRY_AFTER_MAX_S)
    return Answer(status, body, said.reason or phrase, wait_s, is_page=said.kind != "Status")


def _seconds(text: str | None) -> float | None:
    """Seconds of a Retry-After header. API servers send whole seconds; the header's date form is not theirs."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return min(float(text[:9]), RETRY_AFTER_MAX_S)
