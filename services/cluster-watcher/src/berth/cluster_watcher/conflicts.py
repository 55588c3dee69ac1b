"""Keys of STATE that somebody else has written: a predecessor that still is at it, or a late write of ours."""

from __future__ import annotations

from collections.abc import Sequence

from berth.cluster_watcher import metrics
from berth.cluster_watcher.core.published_view import SYNCED, PublishedView
from berth.cluster_watcher.source import Source

CONFLICT = "somebody else wrote STATE"


class Conflicts:
    """What the bucket has reported and nobody has looked into yet."""

    def __init__(self, sources: Sequence[Source], published: PublishedView) -> None:
        self.count = 0
        """Since the start."""
        self._sources = sources
        self._published = published
        self._keys: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._keys)

    def clear(self) -> None:
        """STATE is another one."""
        self._keys = []

    def add(self, key: str) -> None:
        """Somebody else wrote this key."""
        self.count += 1
        metrics.CONFLICTS.inc()
        self._keys.append(key)

    def take(self) -> dict[str, None]:
        """All of them, each once, in order; they are looked into now."""
        keys, self._keys = self._keys, []
        return dict.fromkeys(keys)

    def is_overtaken(self, key: str) -> bool:
        """Somebody else has written this marker, and a list is asked for: what we would say is not known to be so."""
        if key not in self._keys:
            return False
        self._keys = [each for each in self._keys if each != key]
        self.recheck(key)
        return True

    def recheck(self, key: str) -> None:
        """Somebody wrote a key that we did not touch: fine if they are ahead of us, else only a list can tell."""
        kind, _, rest = key.partition(".")
        for source in self._sources:
            if kind == SYNCED:
                if source.scope.marker == rest:
                    self._published.adopt_markers()
                    source.ask_for_list(CONFLICT)
            elif (
                source.scope.kind.prefix == kind
                and source.scope.covers(key)
                and self._published.version(key) <= source.through
            ):
                self._published.doubt(key)
                source.ask_for_list(CONFLICT)
