"""What a planted bug is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from tests.simulation.run_profile import RunProfile


class Bug(NamedTuple):
    """A mistake, made for the length of a `with` block.

    `what` is wrong with it; `plant` puts it into the code; `profile` is the kind of run in which it comes up.
    """

    what: str
    plant: Callable[[], AbstractContextManager[object]]
    profile: RunProfile
