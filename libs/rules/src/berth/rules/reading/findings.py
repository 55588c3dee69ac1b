"""What is wrong with an object, collected while it is read, and the limits on what one object may say.

A problem names the field by its path in the object. Both texts are short however long what they are about is, and the
number of problems of one object is limited: the first ones say enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from berth.contracts.base import Problem

PROBLEMS_MAX: Final = 32
FIELD_LENGTH_MAX: Final = 400
MESSAGE_LENGTH_MAX: Final = 300
NAME_LENGTH_MAX: Final = 253
"""Longest name of an object (a DNS subdomain); also applied to namespaces."""
_NAME_LENGTH_KEPT: Final = 200
_DIGEST_LENGTH: Final = 16

Found = list[tuple[str, str]]
"""(field, message) of each problem, in the order in which they were found."""


def problems_of(found: Sequence[tuple[str, str]]) -> list[Problem]:
    """What goes into a message."""
    return [
        Problem(field=shortened(field, FIELD_LENGTH_MAX), message=shortened(message, MESSAGE_LENGTH_MAX))
        for field, message in found[:PROBLEMS_MAX]
    ]


def shortened(text: str, length_max: int) -> str:
    """The text, cut off with three dots when it is longer than that."""
    return text if len(text) <= length_max else text[: length_max - 3] + "..."


def bounded_name(name: str, field: str, found: Found) -> str:
    """A name as it stands, or the beginning of one that no API server would accept, made distinct by a digest."""
    if len(name) <= NAME_LENGTH_MAX:
        return name
    found.append((field, f"has {len(name)} characters, at most {NAME_LENGTH_MAX} are accepted"))
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[:_NAME_LENGTH_KEPT]}~{digest}"
