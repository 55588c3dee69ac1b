"""Work that is done in steps, so that whoever else is waiting gets his turn in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Each step takes some milliseconds; the last one returns what the work comes to."""
