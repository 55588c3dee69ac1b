"""Text of a machine as the value of a label."""

from __future__ import annotations

import re
from typing import Final

LENGTH_MAX: Final = 63
_ENDS: Final = "-_."


def label_value(text: str) -> str:
    """The text with blanks as `-` and what no label may have left out, at most 63 characters; may be empty."""
    kept = re.sub(r"[^A-Za-z0-9._-]", "", re.sub(r"\s+", "-", text.strip()))
    return kept.lstrip(_ENDS)[:LENGTH_MAX].rstrip(_ENDS)
