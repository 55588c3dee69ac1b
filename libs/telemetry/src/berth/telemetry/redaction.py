"""Keeping secrets, and endless values, out of the log.

A value is hidden when the name it is logged under says that it is a secret, at any depth, and credentials inside URLs
are hidden in every text. This catches mistakes; it is no licence to log credentials under other names.
"""

import itertools
import re
from collections.abc import Mapping
from typing import Final

HIDDEN: Final = "[redacted]"
TEXT_LENGTH_MAX: Final = 16_384
ITEMS_MAX: Final = 100
DEPTH_MAX: Final = 5

_SECRET_WORDS: Final = frozenset(
    {
        "password",
        "passwd",
        "passphrase",
        "token",
        "secret",
        "authorization",
        "apikey",
        "credentials",
        "cookie",
        "jwt",
    }
)
_SECRET_PAIRS: Final = frozenset({("api", "key"), ("private", "key"), ("access", "key"), ("nkey", "seed")})
_SECRET_IS_ELSEWHERE: Final = frozenset({"file", "path", "name", "length", "count"})
_WORDS: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_URL_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]{1,512}@")
_AUTHORIZATION: Final = re.compile(
    r"\b(authorization['\"]?\s*[:=]\s*['\"]?(?:\w+\s+)?|bearer\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret: `nats_password`, `accessToken`, but not `nats_password_file`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if words and words[-1] in _SECRET_IS_ELSEWHERE:
        return False
    return not _SECRET_WORDS.isdisjoint(words) or any(pair in _SECRET_PAIRS for pair in itertools.pairwise(words))


def redacted(name: str, value: object, depth: int = 0) -> object:
    """The value as it may be logged under this name."""
    if is_secret(name):
        return HIDDEN
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, bytes):
        return redacted_text(value[:TEXT_LENGTH_MAX].decode(errors="backslashreplace"))
    if isinstance(value, Mapping | list | tuple | set | frozenset) and depth >= DEPTH_MAX:
        return "..."
    if isinstance(value, Mapping):
        kept = list(value.items())[:ITEMS_MAX]
        return {str(key): redacted(str(key), item, depth + 1) for key, item in kept}
    if isinstance(value, list | tuple | set | frozenset):
        return [redacted("", item, depth + 1) for item in list(value)[:ITEMS_MAX]]
    if value is None or isinstance(value, bool | int | float):
        return value
    return redacted_text(str(value))


def redacted_text(text: str) -> str:
    """The text without credentials in URLs or authorization headers, and not longer than a log line should be."""
    if len(text) > TEXT_LENGTH_MAX:
        text = f"{text[:TEXT_LENGTH_MAX]}... ({len(text)} characters)"
    if "://" in text:
        text = _URL_CREDENTIALS.sub(f"{HIDDEN}@", text)
    return _AUTHORIZATION.sub(rf"\1{HIDDEN}", text)
