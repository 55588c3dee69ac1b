"""Bugs that can be planted, to see that they are found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple


class Bug(NamedTuple):
    """`what` is wrong with it; `plant` puts it into the code for the length of a `with` block."""

    what: str
    plant: Callable[[], AbstractContextManager[object]]


PLANTED: Final[dict[str, Bug]] = {}
