"""One list and watch as the rest of the service sees it: its scope and how it stands."""

from __future__ import annotations

import asyncio
from typing import Final

from berth.cluster_watcher import metrics
from berth.cluster_watcher.kinds import Scope
from berth.kube import Answer

NOT_INSTALLED = "not installed"
OLDER = "an older state was listed"
"""Why to list again, for `ask_for_list`."""
RELIST_PAUSE_MAX_S: Final = 30.0


class Source:
    """How a scope stands. The publisher writes it, `status` and readiness read it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.synced = False
        """Its objects were all written once since this replica became active."""
        self.is_void = False
        """STATE was lost: nothing of it may be written before the next list begins."""
        self.listing = False
        self.has_written = False
        """In the list under way."""
        self.through = 0
        """Resource version through which everything was handed to the bus."""
        self.published = 0
        """Highest version that a message or marker of it carries."""
        self.marked_at = float("-inf")
        self.refusal: Answer | None = None
        self.missing_since: float | None = None
        """Since when, by the monotonic clock, the API server says that it does not know the kind."""
        self.older = 0
        """Lists in a row that showed an older state than STATE holds."""
        self.is_doubtful = False
        """A list was asked for and has not begun: what was read before proves nothing."""
        self.relist = asyncio.Event()
        self.why = ""
        self.malformed = 0
        plural = scope.kind.plural
        self.writes = {
            outcome: metrics.WRITES.labels(plural, outcome) for outcome in ("write", "unchanged", "stale", "refused")
        }

    def ask_for_list(self, why: str) -> None:
        """Begin again with a list, soon."""
        self.why = why
        self.is_doubtful = True
        self.relist.set()

    def relist_pause_s(self, shortest_s: float) -> float:
        """From the beginning of one list to that of the next, at least: a server that was set back answers no sooner
        for being asked more often. A list that is wanted for another reason does not wait for that."""
        doublings = min(max(self.older - 1, 0), 6) if self.why == OLDER else 0
        return min(shortest_s * 2.0**doublings, max(shortest_s, RELIST_PAUSE_MAX_S))

    def reached(self, version: int) -> None:
        """Everything up to here was handed to the bus, or needed no write."""
        self.through = max(self.through, version)

    def describe(self) -> str:
        """How it stands, for people."""
        if self.refusal is not None:
            if self.refusal.not_installed and not self.synced:
                return NOT_INSTALLED
            return f"{self.refusal.status or 'no answer'}: {self.refusal.message}"[:200]
        if self.listing or not self.synced:
            return "listing"
        return "synced"
