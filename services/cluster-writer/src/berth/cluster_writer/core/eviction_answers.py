"""What an answer to a request of an eviction means: the answer table of docs/evictions.md."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from berth.kube.answer import TOO_MUCH, Answer

_NO_RIGHT: Final = re.compile(r'User ".*" cannot (\S+) resource "(\S+)"')
"""How Kubernetes' authorization words a refusal."""


class Heed(Enum):
    """What the writer does next."""

    DONE = "done"
    """STATE will show it."""
    LOOK = "look"
    """The object is not as it was judged: judged again once STATE shows it otherwise."""
    REPEAT = "repeat"
    """Nobody knows, or not now: the same request again, later."""
    HELD = "held"
    """A disruption budget or a webhook asks for patience: later, and given up when that takes too long."""
    REFUSED = "refused"
    """A policy, a missing right, or a request that can never land: given up (E7)."""


def after_request(answer: Answer) -> Heed:
    """An answer without a Status is not the API server's word on the object. A guard that does not hold is a 409: the
    version is compared before anything else is judged."""
    if answer.ok:
        return Heed.DONE
    if answer.status in TOO_MUCH:
        return Heed.REFUSED
    if answer.is_page or answer.unknown or answer.status in (401, 408, 425):
        return Heed.REPEAT
    if answer.status == 429:
        return Heed.HELD
    return Heed.LOOK if answer.conflict or answer.missing else Heed.REFUSED


def missing_right(answer: Answer) -> str:
    """The right that the API server misses, as `verb resource`; empty when it refuses for another reason."""
    found = _NO_RIGHT.search(answer.message) if answer.status == 403 and not answer.is_page else None
    return f"{found[1]} {found[2]}" if found else ""
