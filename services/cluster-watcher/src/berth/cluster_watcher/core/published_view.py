"""What STATE holds, by key: the resource version and a digest of the bytes, nothing more.

From this follows whether a write is needed, and whether it is allowed: a key's resource version never goes down (the
fence of STATE), and that holds across deletions, because a deletion marker carries the version of the deletion. The
view learns from what the bucket shows and from writes that were acknowledged; both may come in any order.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

import msgspec

from berth.contracts.state import Synced

FORGET_S: Final = 4_000.0
"""How long the version of a deletion is remembered: longer than its marker lives in the bucket."""
SYNCED: Final = "synced"
VERSION_DIGITS_MAX: Final = 20


class Known(NamedTuple):
    """The newest message of a key that is there."""

    version: int
    digest: int


class Verdict(Enum):
    """What is to be done about a wanted write."""

    WRITE = "write"
    UNCHANGED = "unchanged"
    STALE = "stale"


class _Versioned(msgspec.Struct):
    version: int = 0


_VERSIONED: Final = msgspec.json.Decoder(_Versioned)
_MARKER: Final = msgspec.json.Decoder(Synced)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)
_NOTHING: Final[dict[str, Known]] = {}


class PublishedView:
    """Keys by the first token (`pod`, `node`), deletions, and the markers of completeness."""

    def __init__(self) -> None:
        self.live: dict[str, dict[str, Known]] = {}
        self.markers: dict[str, Synced] = {}
        """The markers as they stand once all our writes have arrived."""
        self._shown: dict[str, Synced] = {}
        self._graves: dict[str, tuple[int, float]] = {}

    def clear(self) -> None:
        """The bucket is another one."""
        self.live.clear()
        self.markers.clear()
        self._shown.clear()
        self._graves.clear()

    # --- what is there ------------------------------------------------------------------------------------------------

    def keys(self, kind: str) -> dict[str, Known]:
        """The keys of a kind that are there."""
        return self.live.get(kind, _NOTHING)

    def version(self, key: str) -> int:
        """The resource version of a key, of its deletion if it is gone, 0 if it is not known."""
        known = self.keys(kind_of(key)).get(key)
        if known is not None:
            return known.version
        grave = self._graves.get(key)
        return 0 if grave is None else grave[0]

    def judge_put(self, key: str, version: int, digest: int) -> Verdict:
        """Whether an object of this version may, and need, be written."""
        known = self.keys(kind_of(key)).get(key)
        if known is None:
            grave = self._graves.get(key)
            return Verdict.STALE if grave is not None and version <= grave[0] else Verdict.WRITE
        if version < known.version:
            return Verdict.STALE
        if version == known.version and digest == known.digest:
            return Verdict.UNCHANGED
        return Verdict.WRITE

    def judge_deletion(self, key: str, version: int) -> Verdict:
        """Whether a deletion of this version may, and need, be written."""
        known = self.keys(kind_of(key)).get(key)
        if known is None:
            return Verdict.UNCHANGED
        return Verdict.WRITE if version >= known.version else Verdict.STALE

    # --- what was learned ---------------------------------------------------------------------------------------------

    def put(self, key: str, version: int, digest: int) -> None:
        """The bucket holds this under the key, or held it."""
        if version >= self.version(key):
            self.live.setdefault(kind_of(key), {})[key] = Known(version, digest)
            self._graves.pop(key, None)

    def delete(self, key: str, version: int, now: float) -> None:
        """The bucket holds a deletion marker of this version; `now` is any clock that does not go back."""
        if version < self.version(key):
            return
        self.live.get(kind_of(key), {}).pop(key, None)
        self._graves.pop(key, None)
        self._graves[key] = (version, now)
        while self._graves:
            oldest = next(iter(self._graves))
            if now - self._graves[oldest][1] <= FORGET_S:
                break
            del self._graves[oldest]

    def doubt(self, key: str) -> None:
        """Nobody knows what stands there: let the next list write or delete it, unless that list is an older one."""
        version = self.version(key)
        self._graves.pop(key, None)
        self.live.setdefault(kind_of(key), {})[key] = Known(version, 0)

    def mark(self, marker: Synced) -> None:
        """We wrote a marker of completeness."""
        self.markers[marker.kind] = marker

    def adopt_markers(self) -> None:
        """Take the markers as the bucket shows them: at the start, and when somebody else wrote one.

        Otherwise what the bucket shows of them is our own past, and may lag behind what we know.
        """
        self.markers = dict(self._shown)

    def see(self, key: str, value: bytes, *, deleted: bool, now: float) -> bool:
        """Take in what the bucket shows; False: a live message without a readable version, it counts as version 0."""
        kind = kind_of(key)
        if kind == SYNCED:
            return self._see_marker(key, value, deleted=deleted)
        if deleted:
            version = deletion_version(value)
            if not version:
                # Not ours, and no word about the object: what the API server shows of it may be written again.
                version = max(self.version(key) - 1, 0)
                self.live.get(kind, {}).pop(key, None)
                self._graves.pop(key, None)
            self.delete(key, version, now)
            return True
        known = self.keys(kind).get(key)
        digest = hash(value)
        if known is not None and known.digest == digest:
            return True
        try:
            version = _VERSIONED.decode(value).version
        except _UNREADABLE:
            self.live.setdefault(kind, {})[key] = Known(0, digest)
            return False
        self.put(key, version, digest)
        return True

    def _see_marker(self, key: str, value: bytes, *, deleted: bool) -> bool:
        if deleted:
            self._shown.pop(key.partition(".")[2], None)
            return True
        try:
            marker = _MARKER.decode(value)
        except _UNREADABLE:
            self._shown.pop(key.partition(".")[2], None)
            return False
        self._shown[marker.kind] = marker
        return True


def kind_of(key: str) -> str:
    """The first token of a key."""
    return key[: key.find(".")]


def deletion_version(payload: bytes) -> int:
    """The resource version that a deletion marker carries; 0 if it carries none."""
    return int(payload) if payload.isdigit() and len(payload) <= VERSION_DIGITS_MAX else 0
