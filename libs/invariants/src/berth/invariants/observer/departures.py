"""Members of gangs that were deleted while nobody could know it yet.

Services learn of a deletion from STATE alone, which may be behind for as long as cluster-watcher is stopped or cut off.
A plan made meanwhile counts a member that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from berth.contracts.subjects import named_key, pod_key, synced_key
from berth.invariants.facts import ENDED
from berth.invariants.observer.calm import NEVER
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.verdicts import Verdicts

KINDS: Final = {synced_key("pods"): "pod", synced_key("reservations"): "reservation"}
"""The markers of the kinds that members are of."""
MEMBERS: Final = tuple(f"{kind}." for kind in KINDS.values())
UNSHOWN_S: Final = 60.0
KNOWN_MAX: Final = 10_000
Message = tuple[str, bytes, bool]
"""Key, value, and whether it marks a deletion."""


class _Shown(msgspec.Struct):
    """What of a pod, or of the marker of its kind, matters here."""

    uid: str = ""
    complete: bool = False
    phase: str = ""


_DECODER: Final = msgspec.json.Decoder(_Shown)


class Departures:
    """Until when a deletion counts as unknown: until everybody who reads STATE must have seen it.

    While STATE does not show it, it is unknown, but not for ever: a watcher that nothing was in the way of for
    `UNSHOWN_S`, by `sight`, has had the time to show it. Where STATE is not observed, a deletion counts as known the
    lag after it happened.
    """

    def __init__(self, verdicts: Verdicts, sight: Sight) -> None:
        self._verdicts = verdicts
        self._sight = sight
        self._until_s: dict[str, float] = {}
        self._unshown: dict[str, dict[str, float]] = {}
        """By key: uids that STATE is still to show as gone, and since when."""
        self._hears_state = False
        self._anew: set[str] = set()
        """Kinds that STATE has still to show whole again."""

    def gone(self, pod: Watched) -> None:
        """A member was deleted, or is a Reservation that has ended."""
        if self._hears_state:
            self._unshow(pod_key(*pod.name) if pod.name[0] else named_key("reservation", pod.name[1]), pod.uid)
        else:
            self._known(pod.uid)

    def shown(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message of STATE."""
        self._hears_state = True
        kind = KINDS.get(key, "")
        if kind in self._anew and not deleted and _read(value).complete:
            self._anew.discard(kind)
            for each in [each for each in self._unshown if each.startswith(f"{kind}.")]:
                self._show(each, "")
        if key in self._unshown:
            self._show(key, "" if deleted else _member_uid(key, value))

    def state_lost(self, survivors: Iterable[Message] = ()) -> None:
        """STATE lost something, and `survivors` are left: of what it shows again nobody may know that it is gone.

        A bucket that begins anew never shows what went before it; what it shows of it is that it is not there.
        """
        self._anew = set(KINDS.values())
        for key, value, deleted in survivors:
            uid = "" if deleted or not key.startswith(MEMBERS) else _member_uid(key, value)
            if uid in self._until_s:
                self._unshow(key, uid)

    def is_unknown(self, uid: str) -> bool:
        """Whether somebody may not know yet that this member is gone."""
        until_s = self._until_s.get(uid, -NEVER)
        if until_s < NEVER:
            return until_s >= self._verdicts.now_s
        since_s = max((uids[uid] for uids in self._unshown.values() if uid in uids), default=-NEVER)
        return self._sight.since(Reader.STATE, since_s) <= UNSHOWN_S

    def _unshow(self, key: str, uid: str) -> None:
        self._until_s[uid] = NEVER
        self._unshown.setdefault(key, {})[uid] = self._sight.now_s

    def _show(self, key: str, uid: str) -> None:
        """STATE shows this uid under the key, and with that, that no other is there."""
        waiting = self._unshown.pop(key)
        if uid in waiting:
            self._unshown[key] = {uid: waiting.pop(uid)}
        for each in waiting:
            self._known(each)

    def _known(self, uid: str) -> None:
        now_s = self._verdicts.now_s
        self._until_s[uid] = now_s + self._sight.lag_s
        if len(self._until_s) > KNOWN_MAX:
            self._until_s = {each: until_s for each, until_s in self._until_s.items() if until_s >= now_s}


def _member_uid(key: str, value: bytes) -> str:
    """Whom STATE shows as a member that is there: of Reservations one that has not ended."""
    shown = _read(value)
    return "" if key.startswith("reservation.") and shown.phase in ENDED else shown.uid


def _read(value: bytes) -> _Shown:
    try:
        return _DECODER.decode(value)
    except msgspec.MsgspecError:
        return _Shown()
