"""What a planted bug is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from tests.simulation.temper import Temper

if TYPE_CHECKING:
    from tests.simulation.run import Outcome


def _nothing_more(outcome: Outcome) -> list[str]:
    return []


class Bug(NamedTuple):
    """A mistake, made for the length of a `with` block.

    `what` is wrong with it; `plant` puts it into the code; `temper` is the kind of run in which it comes up; `judge`
    says what beside broken promises shows it.
    """

    what: str
    plant: Callable[[], AbstractContextManager[object]]
    temper: Temper
    judge: Callable[[Outcome], list[str]] = _nothing_more

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome, with what the bug's own judge finds among its violations."""
        return msgspec.structs.replace(outcome, violations=[*outcome.violations, *self.judge(outcome)])
