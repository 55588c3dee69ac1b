"""What a user of the simulated bus may publish and subscribe to, as a nats-server judges it."""

from __future__ import annotations

from collections.abc import Iterable

from berth.testing.simulation.nats.subjects import fits


class Rights:
    """Allowed subjects, patterns included. `judged` counts the questions, `denied` has what was refused, once each."""

    def __init__(self, user: str, publish: Iterable[str], subscribe: Iterable[str]) -> None:
        self.user = user
        self.judged = 0
        self.denied: dict[str, None] = {}
        self._publish = tuple(publish)
        self._subscribe = tuple(subscribe)
        self._known: dict[tuple[str, str], bool] = {}

    def may_publish(self, subject: str) -> bool:
        """Whether a message may go in on this subject."""
        return self._may("publish to", subject, self._publish)

    def may_subscribe(self, pattern: str) -> bool:
        """Whether somebody may listen there, all of the pattern included."""
        return self._may("subscribe to", pattern, self._subscribe)

    def _may(self, verb: str, subject: str, allowed: tuple[str, ...]) -> bool:
        self.judged += 1
        may = self._known.get((verb, subject))
        if may is None:
            may = self._known[verb, subject] = any(fits(pattern, subject) for pattern in allowed)
        if not may:
            self.denied[f"{self.user} may not {verb} {subject}"] = None
        return may
