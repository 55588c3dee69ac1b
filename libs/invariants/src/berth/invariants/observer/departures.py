"""Members of gangs that were deleted while nobody could know it yet.

Services learn of a deletion from STATE alone, which may be behind for as long as cluster-watcher is stopped or cut off.
A plan made meanwhile counts a member that is gone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from berth.contracts.subjects import pod_key, synced_key
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.verdicts import Verdicts

NEVER: Final = float("inf")
PODS: Final = synced_key("pods")


class _Shown(msgspec.Struct):
    """What of a pod, or of the marker of its kind, matters here."""

    uid: str = ""
    complete: bool = False


_DECODER: Final = msgspec.json.Decoder(_Shown)


class Departures:
    """Until when a deletion counts as unknown. `lag_s`: how late the slowest reader of STATE may be.

    Where STATE is not told of, a deletion counts as known `lag_s` after it happened.
    """

    def __init__(self, verdicts: Verdicts, lag_s: float) -> None:
        self._verdicts = verdicts
        self._lag_s = lag_s
        self._until_s: dict[str, float] = {}
        self._unshown: dict[str, str] = {}
        self._hears_state = False
        self._is_anew = False

    def gone(self, pod: Watched) -> None:
        """A member was deleted."""
        if self._hears_state:
            self._until_s[pod.uid] = NEVER
            self._unshown[pod_key(*pod.name)] = pod.uid
        else:
            self._known(pod.uid)

    def shown(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message of STATE."""
        self._hears_state = True
        if key == PODS and self._is_anew and not deleted and _read(value).complete:
            self._rebuilt()
        uid = self._unshown.get(key)
        if uid is not None and (deleted or _read(value).uid != uid):
            del self._unshown[key]
            self._known(uid)

    def state_lost(self) -> None:
        """The bucket begins anew: what went before it is never shown there, not being there is how it is told."""
        self._is_anew = True

    def is_unknown(self, uid: str) -> bool:
        """Whether somebody may not know yet that this member is gone."""
        return self._until_s.get(uid, -NEVER) >= self._verdicts.now_s

    def _rebuilt(self) -> None:
        self._is_anew = False
        for uid in self._unshown.values():
            self._known(uid)
        self._unshown.clear()

    def _known(self, uid: str) -> None:
        now_s = self._verdicts.now_s
        self._until_s[uid] = now_s + self._lag_s
        if len(self._until_s) > 10_000:
            self._until_s = {each: until_s for each, until_s in self._until_s.items() if until_s >= now_s}


def _read(value: bytes) -> _Shown:
    try:
        return _DECODER.decode(value)
    except msgspec.MsgspecError:
        return _Shown()
