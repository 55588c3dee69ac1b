"""What QUOTA holds of what hooks say, and what has to be written so that it says it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.quota import PodCharge
from berth.contracts.subjects import charge_key
from berth.quota_manager.core.hooks.classes import HookedClasses

_PREFIX: Final = charge_key("")


def is_charge(key: str) -> bool:
    """Whether it is the key of a charge."""
    return key.startswith(_PREFIX)


class PublishedCharges:
    """By key of QUOTA, as far as its owner knows."""

    def __init__(self) -> None:
        self.messages: dict[str, PodCharge] = {}
        self._doubted: set[str] = set()
        """Keys that show something else than was written."""

    def saw(self, key: str, value: bytes | None) -> None:
        """What the bucket shows under a key; None: nothing. What cannot be read is written again."""
        try:
            message = None if value is None else decode(value, PodCharge)
        except InvalidMessage:
            message = None
        if self.messages.get(key) != message:
            self._doubted.add(key)
        self._put(key, message)

    def writes(self, classes: HookedClasses | None, present: Iterable[str], *, everything: bool) -> Changes:
        """What to put under which key (None: delete). `present` are the keys that are there."""
        wanted: dict[str, PodCharge | None] = {}
        if everything:
            wanted = dict.fromkeys(key for key in present if is_charge(key))
            if classes is not None:
                wanted = {key: None for key in wanted if key.removeprefix(_PREFIX) not in classes}
                wanted |= {charge_key(id_): message for id_, message in classes.all().items()}
        elif classes is not None:
            wanted |= {charge_key(id_): message for id_, message in classes.changes()}
            wanted |= {key: classes.said_of(key.removeprefix(_PREFIX)) for key in sorted(self._doubted)}
        self._doubted.clear()
        there = set(present)
        changes: dict[str, PodCharge | None] = {}
        for key, message in wanted.items():
            if self.messages.get(key) != message or (message is None and key in there):
                changes[key] = message
                self._put(key, message)
        return changes

    def _put(self, key: str, message: PodCharge | None) -> None:
        if message is None:
            self.messages.pop(key, None)
        else:
            self.messages[key] = message


Changes = dict[str, PodCharge | None]
