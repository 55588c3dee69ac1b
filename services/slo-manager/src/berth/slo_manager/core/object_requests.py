"""Which NodeSLO objects are asked for now: in their turn, and again (`repeats`) while they do not show it."""

from __future__ import annotations

from berth.slo_manager.core.repeats import Asked, first
from berth.slo_manager.core.turns import Turns

KIND = "object"


class ObjectRequests:
    """What is asked for and not shown yet, by node. Times are monotonic seconds."""

    def __init__(self, turns: Turns[tuple[str, str]]) -> None:
        self._turns = turns
        self._asked: dict[str, Asked | None] = {}
        """None: it waits to be sent for the first time."""

    @property
    def open(self) -> int:
        """How many objects do not show what they are to show."""
        return len(self._asked)

    def waits(self, name: str) -> bool:
        """Whether it was not sent yet."""
        return name in self._asked and self._asked[name] is None

    def clear(self) -> None:
        """What was asked for is not known any more."""
        self._asked.clear()

    def forget(self, name: str) -> None:
        """The object shows it, or is not ours to write."""
        if name in self._asked:
            del self._asked[name]
            self._turns.forget((KIND, name))

    def look(self, now: float) -> None:
        """Let those wait for a turn that were asked for a while ago."""
        for name, asked in self._asked.items():
            if asked is not None and now >= asked.again_at:
                self._turns.wait((KIND, name))

    def is_new(self, name: str, now: float) -> bool:
        """The object is to show something else: whether that is sent now."""
        may = self._turns.may((KIND, name), now)
        self._asked[name] = first(now) if may else None
        return may

    def again(self, name: str, now: float) -> bool:
        """The object does not show it yet: whether it is sent now. What a former process sent is given a minute."""
        if name not in self._asked:
            self._asked[name] = first(now)
            return False
        asked = self._asked[name]
        if (asked is not None and now < asked.again_at) or not self._turns.may((KIND, name), now):
            return False
        self._asked[name] = first(now) if asked is None else asked.again(now)
        return True
