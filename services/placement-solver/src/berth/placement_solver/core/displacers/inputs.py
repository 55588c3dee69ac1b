"""What has to be read to its end before anybody is made to leave, beside what every plan waits for.

A node that is not read yet may take the pod as it is, a budget or a PodGroup may protect whom the others would let go.
A decision that was made too early costs a better place; an eviction cannot be taken back.
"""

from __future__ import annotations

from typing import Final

from berth.transaction.completeness import Completeness

KINDS: Final = ("nodes", "devices", "poddisruptionbudgets", "podgroups")
"""By their names in markers."""


class Inputs:
    """`complete` holds for each kind whether its end was reached. Only markers move it: whether there was an end is
    asked, and not through which version."""

    def __init__(self) -> None:
        self.complete = {kind: Completeness() for kind in KINDS}

    @property
    def unread(self) -> list[str]:
        """The kinds that were not read to their end since STATE started over."""
        return [kind for kind, tracker in self.complete.items() if not tracker.is_known]

    def reset(self) -> None:
        """STATE starts over."""
        for tracker in self.complete.values():
            tracker.reset()
