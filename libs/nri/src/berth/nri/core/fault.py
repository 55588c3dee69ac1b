"""What ends a connection, or spoils one message, as a value."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["closed", "torn", "oversized", "malformed", "refused", "deadline", "shutdown", "unreachable"]


class Fault(msgspec.Struct, frozen=True):
    """What went wrong.

    `kind` is one of few and may be a label of a metric. `text` names the frame, message or method, its sizes and its
    limit; contents, which may be secret (environment, annotations), are never in it.
    """

    kind: Kind
    text: str
