"""STATE's fence: no key's resource version ever goes down, no matter who writes (I12)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from berth.invariants.counts import Excuse
from berth.invariants.observer.verdicts import Verdicts


class _Versioned(msgspec.Struct):
    version: int = 0


_DECODER: Final = msgspec.json.Decoder(_Versioned)


class StateFence:
    """The newest version of each key."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._versions: dict[str, int] = {}
        self._forgotten: dict[str, int] = {}
        """Of keys that were lost, and have not been written since."""

    def lost(self, survivors: Iterable[tuple[str, bytes, bool]] = ()) -> None:
        """The bucket lost its tail, or begins anew: what it held is written again, from any version but those left."""
        self._forgotten.update(self._versions)
        self._versions.clear()
        for key, value, deleted in survivors:
            self.see(key, value, deleted)

    def see(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message of STATE. A deletion carries its version as payload; an expired marker carries none."""
        if deleted:
            version = int(value) if value.isdigit() and len(value) <= 20 else 0
        else:
            try:
                version = _DECODER.decode(value).version
            except msgspec.MsgspecError:
                return
        if not version:
            return
        newest = self._versions.get(key, 0)
        if version < self._forgotten.pop(key, 0) and version >= newest:
            self._verdicts.excused("I12", Excuse.STATE_LOST)
        else:
            self._verdicts.judged("I12")
        if version < newest:
            self._verdicts.add("I12", f"STATE {key}", f"STATE {key} goes back from version {newest} to {version}")
        else:
            self._versions[key] = version
