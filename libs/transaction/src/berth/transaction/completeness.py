"""Through which resource version a view of STATE is complete, per kind. The rule "complete through" of the protocol.

While the stream is read without a gap, the version moves with every message and marker of the kind. After a gap (a
newer message replaced an unread one) or a marker that says a relist has begun, it stands still until the end of the
bucket is reached behind a marker that says the kind is complete.
"""

from __future__ import annotations


class Completeness:
    """The version through which one kind is complete; 0 until the first complete read."""

    def __init__(self) -> None:
        self.version = 0
        self._newest = 0
        self._is_whole = False
        self._marked = False

    @property
    def is_known(self) -> bool:
        """Whether the end was reached at least once since the view was emptied."""
        return self.version > 0 or self._is_whole

    def reset(self) -> None:
        """The view was emptied. Resource versions outlive the bucket, so what was complete stays known as a number,
        but the view no longer holds it: nothing is complete until it has been read again."""
        self.__init__()  # type: ignore[misc]

    def gap(self) -> None:
        """A message was superseded before it was read."""
        self._is_whole = False

    def seen(self, version: int) -> None:
        """A message of this kind was applied."""
        if version > self._newest:
            self._newest = version
            if self._is_whole:
                self.version = version

    def marked(self, version: int, complete: bool) -> None:
        """The watcher's marker of this kind was read."""
        self._marked = complete
        if not complete:
            self._is_whole = False
        else:
            self.seen(version)

    def end(self) -> None:
        """The end of the bucket was reached."""
        if self._marked:
            self._is_whole = True
            self.version = max(self.version, self._newest)
