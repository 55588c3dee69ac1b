"""How often objects are asked to show another status: of one object every other second unless its phase changes, of all
together a hundred times a second. Times in monotonic seconds."""

from __future__ import annotations

from typing import Final

PAUSE_S: Final = 2.0
"""Between two requests for one object, so that it is written at most 30 times a minute beside its phases."""
A_SECOND_MAX: Final = 100
"""Requests of the whole service in one second; the rest waits for the next one."""


class StatusPace:
    """Remembers when each object was asked last, and who waits for its time."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._held: set[str] = set()
        self._second, self._sent = -1, 0

    def admit(self, name: str, monotonic: float, *, is_phase: bool) -> bool:
        """Whether the object may be asked now, which counts then. Who may not is `due` when it is time."""
        has_waited = is_phase or monotonic - self._at.get(name, float("-inf")) >= PAUSE_S
        if not has_waited or not self.take(monotonic):
            self._held.add(name)
            return False
        self._held.discard(name)
        self._at[name] = monotonic
        return True

    def take(self, monotonic: float) -> bool:
        """Whether this second has room for one more request, which counts then."""
        if int(monotonic) != self._second:
            self._second, self._sent = int(monotonic), 0
        if self._sent >= A_SECOND_MAX:
            return False
        self._sent += 1
        return True

    def due(self, monotonic: float) -> list[str]:
        """Those who were held back and may be asked by now."""
        return [name for name in self._held if monotonic - self._at.get(name, float("-inf")) >= PAUSE_S]

    def settle(self, name: str) -> None:
        """There is nothing to ask for any more."""
        self._held.discard(name)

    def forget(self, name: str) -> None:
        """The object is gone."""
        self._held.discard(name)
        self._at.pop(name, None)
