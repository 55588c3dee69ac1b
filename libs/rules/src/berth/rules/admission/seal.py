"""How a mark of the webhook is told from what a user wrote: by a key that only replicas know."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

_LENGTH: Final = 24


class Seal:
    """The first key seals; what any of them has sealed is genuine. Without a key nothing is."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = tuple(keys)

    def of(self, content: bytes) -> str:
        """The seal of a content; empty without a key."""
        return _seal(self._keys[0], content) if self._keys else ""

    def is_genuine(self, content: bytes, seal: str) -> bool:
        """Whether a replica has sealed this."""
        if not seal.isascii():
            return False
        return any(hmac.compare_digest(_seal(key, content), seal) for key in self._keys)


def _seal(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()[:_LENGTH]
