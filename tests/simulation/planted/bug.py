"""What a planted bug is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from tests.simulation.temper import Temper


class Bug(NamedTuple):
    """A mistake, made for the length of a `with` block.

    `what` is wrong with it; `plant` puts it into the code; `temper` is the kind of run in which it comes up.
    """

    what: str
    plant: Callable[[], AbstractContextManager[object]]
    temper: Temper
