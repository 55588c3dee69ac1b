"""Differences that are there now: each is reported once when it is certain, and once when it is gone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.invariants import INVARIANTS, PROMISES, Finding

DIFFERENCES_MAX: Final = 1000
SLOW: Final = frozenset({"I3", "I4", "I8"})
"""What is nobody's fault for a while: a decision that is being carried out, a gang that is being bound, figures of a
quota that follow its pods."""
PROFILES: Final = "I41"
AUDITED: Final = (*(each.name for each in INVARIANTS), PROFILES)
"""What a look can show. Of what services believe (I8) that is what ElasticQuotas show: their buckets are not read."""

Key = tuple[str, str]
"""Promise and subject."""


class Difference(NamedTuple):
    """A broken promise. `since_s` is the unix time of the first look that showed it."""

    promise: str
    subject: str
    text: str
    since_s: float

    @property
    def id(self) -> str:
        """Short, and the same for as long as it lasts."""
        return hashlib.sha256(self.subject.encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """What the promise is called."""
        return PROMISES[self.promise].title


class News(NamedTuple):
    """What a look has changed."""

    found: list[Difference]
    gone: list[Difference]


class Book:
    """Differences by promise and subject, at most `DIFFERENCES_MAX`; those beyond are counted and reported later."""

    def __init__(self, settle_s: float) -> None:
        self.known: dict[Key, Difference] = {}
        self._settle_s = settle_s
        self._since: dict[Key, float] = {}
        self._untold: set[Key] = set()

    def settle(
        self, shown: Iterable[tuple[str, Finding]], certain: Iterable[tuple[str, Finding]], now_s: float
    ) -> News:
        """Take in a complete look.

        Args:
            shown: what this look shows, certain or not: what is not among it is gone.
            certain: what this look and the one before have in common.
            now_s: unix time.
        """
        keys = {(promise, finding.subject) for promise, finding in shown}
        self._since = {key: self._since.get(key, now_s) for key in keys}
        gone = [self.known.pop(key) for key in list(self.known) if key not in keys]
        found: list[Difference] = []
        self._untold = set()
        for promise, finding in certain:
            key = (promise, finding.subject)
            since_s = self._since.get(key, now_s)
            if key in self.known or now_s - since_s < (self._settle_s if promise in SLOW else 0.0):
                continue
            if len(self.known) >= DIFFERENCES_MAX:
                self._untold.add(key)
                continue
            self.known[key] = difference = Difference(promise, finding.subject, finding.text, since_s)
            found.append(difference)
        return News(found, gone)

    @property
    def beyond(self) -> int:
        """How many differences are certain and find no place."""
        return len(self._untold)

    def doubts(self) -> bool:
        """Something was shown once that is not certain yet, and could be with another look."""
        return any(key not in self.known and key not in self._untold and key[0] not in SLOW for key in self._since)

    def counts(self) -> Mapping[str, int]:
        """Differences there are now, by promise; every one that is looked at is named."""
        counts = dict.fromkeys(AUDITED, 0)
        for promise, _ in self.known:
            counts[promise] += 1
        return counts
